"""What the docstrings of the package must and must not say."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ortpkg

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "ortpkg").rglob("*.py"))


def requirement_ids() -> set[str]:
    groups = tomllib.loads((ROOT / "docs" / "requirements.toml").read_text(encoding="utf-8"))
    return {identifier for group in groups.values() for identifier in group["requirements"]}


def test_no_source_file_speaks_in_ids_of_requirements() -> None:
    """A sentence stands alone.

    Which test proves which requirement is docs/requirements.md's to say.
    """
    like_an_id, ids = re.compile(r"\b[A-Z]\d\d\b"), requirement_ids()
    assert ids.intersection(like_an_id.findall("the device's own memory (M24)"))
    found = {
        path: ids.intersection(like_an_id.findall(path.read_text(encoding="utf-8")))
        for path in SOURCES
    }
    assert not {path.relative_to(ROOT).as_posix(): each for path, each in found.items() if each}


def _methods() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The public methods of public classes, each with the name of its class."""
    for path in SOURCES:
        for kind in ast.parse(path.read_bytes()).body:
            if isinstance(kind, ast.ClassDef) and not kind.name.startswith("_"):
                methods = (each for each in kind.body if isinstance(each, ast.FunctionDef))
                yield from ((kind.name, each) for each in methods if not each.name.startswith("_"))


def test_every_method_says_its_contract_or_has_that_of_its_interface() -> None:
    methods = list(_methods())
    told = {each.name for _, each in methods if ast.get_docstring(each)}
    silent = [f"{kind}.{each.name}" for kind, each in methods if each.name not in told]
    assert silent == []
    assert "resolve" in told  # by Repository, for OciLayout.resolve, which says nothing


# --- public names ---------------------------------------------------------------------------------


def _public_objects() -> Iterator[tuple[str, Any]]:
    """Public name → function or class, those of the public modules too."""
    for name in ortpkg.__all__:
        value = getattr(ortpkg, name)
        if isinstance(value, ModuleType):
            inner = [each for each in dir(value) if not each.startswith("_")]
            yield from ((f"{name}.{each}", getattr(value, each)) for each in inner)
        else:
            yield name, value


PUBLIC = {
    name: value
    for name, value in _public_objects()
    if callable(value) and getattr(value, "__module__", "").startswith("ortpkg")
}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}


def _public_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that we wrote, inherited ones too."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        function = inspect.unwrap(
            getattr(member, "fget", None) or getattr(member, "__func__", member)
        )
        is_ours = inspect.isfunction(function) and function.__module__.startswith("ortpkg")
        if not name.startswith("_") and is_ours:
            yield name, getattr(kind, name)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_says_what_it_is(name: str) -> None:
    text = PUBLIC[name].__doc__ or ""
    assert text.strip()
    assert not text.startswith(f"{name}(")  # what dataclasses say where nobody says more


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_public_members_say_their_contract(name: str) -> None:
    silent = [
        member for member, value in _public_members(CLASSES[name]) if not inspect.getdoc(value)
    ]
    assert not silent


@pytest.mark.parametrize(
    "name", sorted(name for name, kind in CLASSES.items() if dataclasses.is_dataclass(kind))
)
def test_public_values_name_their_fields(name: str) -> None:
    kind = CLASSES[name]
    text = " ".join(each.__doc__ or "" for each in kind.__mro__)
    fields: Any = dataclasses.fields(kind)  # type: ignore[arg-type]
    public = [field.name for field in fields if not field.name.startswith("_")]
    assert not [field for field in public if not re.search(rf"\b{field}\b", text)]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_public_errors_name_what_they_carry(name: str) -> None:
    kind = CLASSES[name]
    if (
        not issubclass(kind, BaseException)
        or issubclass(kind, enum.Enum)
        or "__init__" not in vars(kind)
    ):
        return
    carried = [
        each
        for each in inspect.signature(kind.__init__).parameters
        if each not in ("self", "message")
    ]
    text = " ".join(each.__doc__ or "" for each in kind.__mro__)
    assert not [each for each in carried if not re.search(rf"\b{each}\b", text)]
