"""Signatures of onnxruntime's module, native ones too, to be compared with ours."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: A native parameter: "name: type = default", "name" being argN where the library gives none.
_PARAMETER = re.compile(r"(?P<name>\*{0,2}\w+)(?::(?P<type>[^=]*))?(?:=(?P<default>.*))?")
_UNNAMED = re.compile(r"arg\d+")
NONE = "(none)"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One that a caller can give.

    Attributes:
        name: "" where it can be given by its place only.
        default: as text; NONE where it must be given.
    """

    name: str
    default: str = NONE


def public_members(kind: type) -> Iterator[str]:
    """Names of methods, properties and members of an enumeration."""
    inherited = dir(int) if issubclass(kind, int) else ()
    return (name for name in dir(kind) if not name.startswith("_") and name not in inherited)


def overloads(function: Any) -> list[list[Parameter]]:
    """The ways to call it, without ``self``; empty where nothing tells them."""
    try:
        found = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return [*_native(function.__doc__ or "")]
    return [[_parameter(each) for each in found if each.name not in ("self", "cls")]]


def _parameter(found: inspect.Parameter) -> Parameter:
    is_starred = found.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    star = "*" * is_starred
    by_place = found.kind is inspect.Parameter.POSITIONAL_ONLY
    default = NONE if found.default is inspect.Parameter.empty else _plain(found.default)
    return Parameter("" if by_place else star + found.name, default)


def _plain(value: Any) -> str:
    """Enumerations of both libraries by their numbers, so that they can be compared."""
    try:
        return str(int(value)) if not isinstance(value, bool | str | float) else str(value)
    except (TypeError, ValueError):
        return str(value)


def _native(text: str) -> Iterator[list[Parameter]]:
    for line in text.splitlines():
        found = re.match(r"^(?:\d+\. )?[\w.]+\((.*)\) -> ", line.strip())
        if found is None or found[1].startswith("*args"):
            continue
        parts = [_PARAMETER.fullmatch(part.strip()) for part in _split(found[1])]
        named = [part for part in parts if part is not None and part["name"] != "self"]
        yield [
            Parameter(
                "" if _UNNAMED.fullmatch(part["name"]) else part["name"],
                _native_default(part["default"]),
            )
            for part in named
        ]


def _native_default(text: str | None) -> str:
    if text is None:
        return NONE
    number = re.fullmatch(r"<\w+(?:\.\w+)*: (-?\d+)>", text.strip())
    return number[1] if number else text.strip()


def _split(text: str) -> Iterator[str]:
    """At the commas that stand outside of brackets."""
    depth, begin = 0, 0
    for place, character in enumerate(text):
        depth += (character in "[(<") - (character in "])>")
        if character == "," and not depth:
            yield text[begin:place]
            begin = place + 1
    if text[begin:].strip():
        yield text[begin:]


def takes(ours: list[Parameter], theirs: list[Parameter]) -> str:
    """Why a call that ``theirs`` allows may not be one of ``ours``; "" where all are."""
    if any(each.name.startswith("*") for each in theirs):
        theirs = [each for each in theirs if not each.name.startswith("*")]
    open_ended = any(each.name.startswith("*") for each in ours)
    for place, wanted in enumerate(theirs):
        mine = ours[place] if place < len(ours) else None
        if wanted.name and (mine is None or mine.name != wanted.name):
            mine = next((each for each in ours if each.name == wanted.name), None)
            if mine is None and not open_ended:
                return f"no argument {wanted.name!r}"
            if mine is not None and ours.index(mine) != place:
                return f"the argument {wanted.name!r} has another place"
        if mine is None:
            if open_ended:
                continue
            return f"no argument {place + 1}"
        if wanted.default != NONE and mine.default != wanted.default:
            return f"{wanted.name!r} is {mine.default} by default, not {wanted.default}"
    left = [
        each.name
        for each in ours[len(theirs) :]
        if each.default == NONE and not each.name.startswith("*")
    ]
    return f"{left} must be given" if left else ""
