"""We use of typer what it exports, so that its next release breaks no command."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import typer

CODE = Path(__file__).resolve().parents[2] / "ortpkg"
EXPORTED = {
    name
    for name, value in vars(typer).items()
    if not name.startswith("_") and not isinstance(value, ModuleType)
}
#: Out of a submodule, as typer's guide "Using Click" has it.
DOCUMENTED = {"main.get_command"}
#: Arguments that take objects of classes that nobody exports; typer 0.29 knows the first no more.
OF_CLICK = {"click_type", "shell_complete"}


def unexported_names(code: str) -> Iterator[str]:
    """What a module takes from typer or click although typer does not export it."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import(names):
                imported = (each.name for each in names)
                yield from (name for name in imported if name.startswith(("typer.", "click")))
            case ast.ImportFrom(module="typer", names=names):
                yield from (each.name for each in names if each.name not in EXPORTED)
            case ast.ImportFrom(module=str(module)) if module.startswith(("typer.", "click")):
                yield module
            case ast.Attribute(ast.Attribute(ast.Name("typer"), room), name):
                yield from {f"{room}.{name}"} - DOCUMENTED
            case ast.Attribute(ast.Name("typer"), name):
                submodules = {each.partition(".")[0] for each in DOCUMENTED}
                yield from {name} - EXPORTED - submodules
            case ast.keyword(arg=str(argument)):
                yield from {argument} & OF_CLICK


def test_nothing_of_typer_is_used_that_it_does_not_export() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in CODE.rglob("*.py")}
    users = {path: text for path, text in texts.items() if "typer" in text or "click" in text}
    assert CODE / "cli/app.py" in users
    found = {
        str(path.relative_to(CODE)): names
        for path, text in users.items()
        if (names := [*unexported_names(text)])
    }
    assert found == {}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from typer.models import TyperPath", "typer.models"),
        ("import typer.core", "typer.core"),
        ("import click", "click"),
        ("from click.types import Path", "click.types"),
        ("from typer import _click", "_click"),
        ("import typer\ntyper.models.OptionInfo", "models.OptionInfo"),
        ("import typer\ntyper.Argument(click_type=PATH)", "click_type"),
    ],
)
def test_the_guard_sees(code: str, name: str) -> None:
    assert name in {*unexported_names(code)}
