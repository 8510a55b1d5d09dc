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


#: No sentence in plain English begins with them: a docstring begins with a verb or a noun.
_NO_BEGINNINGS = frozenset(
    {"As", "For", "From", "How", "If", "Of", "That", "Those", "What"}
    | {"When", "Where", "Whether", "Which", "Who", "Whom", "Whose"}
)


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    odd = [
        f"{path.relative_to(ROOT).as_posix()}:{node.body[0].lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (ast.get_docstring(node) or "-").split()[0].rstrip(",;:.") in _NO_BEGINNINGS
    ]
    assert odd == []


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


def test_a_public_name_says_what_it_is() -> None:
    told = {name: value.__doc__ or "" for name, value in PUBLIC.items()}
    assert len(told) > 150
    assert [name for name, text in told.items() if not text.strip()] == []
    # What dataclasses say where nobody says more.
    assert [name for name, text in told.items() if text.startswith(f"{name}(")] == []


def test_public_members_say_their_contract() -> None:
    members = {
        f"{name}.{member}": inspect.getdoc(value)
        for name, kind in CLASSES.items()
        for member, value in _public_members(kind)
    }
    assert len(members) > 100
    assert [name for name, text in members.items() if not text] == []


def test_public_values_name_their_fields() -> None:
    values = {name: kind for name, kind in CLASSES.items() if dataclasses.is_dataclass(kind)}
    fields = [
        (name, kind, field.name)
        for name, kind in values.items()
        for field in dataclasses.fields(kind)
        if not field.name.startswith("_")
    ]
    assert len(values) > 10
    assert [f"{name}.{field}" for name, kind, field in fields if not _is_told(field, kind)] == []


def test_public_errors_name_what_they_carry() -> None:
    errors = {
        name: kind
        for name, kind in CLASSES.items()
        if issubclass(kind, BaseException)
        and not issubclass(kind, enum.Enum)
        and "__init__" in vars(kind)
    }
    carried = [
        (name, kind, each)
        for name, kind in errors.items()
        for each in inspect.signature(vars(kind)["__init__"]).parameters
        if each not in ("self", "message")
    ]
    assert len(errors) > 5
    assert [f"{name}.{each}" for name, kind, each in carried if not _is_told(each, kind)] == []


def _is_told(name: str, kind: type) -> bool:
    """Whether the class, or one that it is made from, says the name."""
    return any(re.search(rf"\b{name}\b", each.__doc__ or "") for each in kind.__mro__)
