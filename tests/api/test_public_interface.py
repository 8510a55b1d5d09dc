"""What editors show of the public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

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


def test_docstrings_name_no_requirement() -> None:
    named = {
        name: _REQUIREMENT.findall(inspect.getdoc(value) or "") for name, value in OBJECTS.items()
    }
    assert len(named) > 200
    assert {name: found for name, found in named.items() if found} == {}


def test_keyword_arguments_are_typed() -> None:
    keywords = {
        name: str(each.annotation)
        for name, value in OBJECTS.items()
        if inspect.isfunction(value)
        for each in inspect.signature(value).parameters.values()
        if each.kind is each.VAR_KEYWORD
    }
    assert keywords
    untyped = {name: said for name, said in keywords.items() if not said.startswith("Unpack[")}
    assert untyped == {}
