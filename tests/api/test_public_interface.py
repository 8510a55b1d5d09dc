"""What editors show of the public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import ortpkg

_REQUIREMENT = re.compile(r"\b[DEKMPX][0-9]{2}\b")


def public_objects() -> Iterator[tuple[str, Any]]:
    """Every public name, with the public methods of classes."""
    for name in sorted(set(ortpkg.__all__) - {"devices", "errors"}):
        value = getattr(ortpkg, name)
        yield name, value
        if inspect.isclass(value):
            for member, function in inspect.getmembers(value):
                if not member.startswith("_") and (
                    inspect.isfunction(function) or isinstance(function, property)
                ):
                    yield f"{name}.{member}", function


OBJECTS = dict(public_objects())


@pytest.mark.parametrize("name", OBJECTS)
def test_docstrings_name_no_requirement(name: str) -> None:
    assert not _REQUIREMENT.findall(inspect.getdoc(OBJECTS[name]) or "")


@pytest.mark.parametrize(
    "name", [name for name, value in OBJECTS.items() if inspect.isfunction(value)]
)
def test_keyword_arguments_are_typed(name: str) -> None:
    keywords = [
        each
        for each in inspect.signature(OBJECTS[name]).parameters.values()
        if each.kind is each.VAR_KEYWORD
    ]
    assert [
        each.annotation for each in keywords if not str(each.annotation).startswith("Unpack[")
    ] == []
