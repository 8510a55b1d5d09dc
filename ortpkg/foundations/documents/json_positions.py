"""Find the position of a JSON pointer in a document's text, for editors and code review tools."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ortpkg.foundations.documents.finding_collector import json_pointer

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_LINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Position:
    """Position in a text; lines and columns count from 1, columns in characters."""

    line: int
    column: int


@dataclass(slots=True)
class _Container:
    """Object or array that is being read.

    ``pointer`` is None if no requested pointer lies in it.
    """

    pointer: str | None
    is_object: bool
    index: int = 0
    key: str | None = None
    expects_key: bool = True


def find_positions(text: str, pointers: Collection[str]) -> dict[str, Position]:
    """Map each pointer to the start of its member's key, or of its element, in ``text``.

    A pointer to a missing value gets the position of the nearest existing one around it. The last
    of two equal keys counts. Text that is not JSON is read as far as possible; a pointer of which
    nothing is found is left out.
    """
    offsets = _find_offsets(text, {prefix for pointer in pointers for prefix in _prefixes(pointer)})
    line_starts = [0, *(match.end() for match in _LINE.finditer(text))]
    positions = {}
    for pointer in pointers:
        offset = next((offsets[prefix] for prefix in _prefixes(pointer) if prefix in offsets), None)
        if offset is not None:
            line = bisect_right(line_starts, offset)
            positions[pointer] = Position(line=line, column=offset - line_starts[line - 1] + 1)
    return positions


def _prefixes(pointer: str) -> Iterator[str]:
    """Yield the pointer, and those to everything around its value, from the inside out."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def _find_offsets(text: str, pointers: Collection[str]) -> dict[str, int]:
    offsets: dict[str, int] = {}
    stack: list[_Container] = []
    for match in _TOKEN.finditer(text):
        written, offset = match.group(), match.start()
        inner = stack[-1] if stack else None
        if written in ("}", "]"):
            if stack:
                stack.pop()
        elif written == ":":
            continue
        elif written == ",":
            if inner is not None:
                inner.index += 1
                inner.expects_key = True
        elif inner is not None and inner.is_object and inner.expects_key:
            inner.expects_key = False
            inner.key = _member(inner, written)
            if inner.key is not None and inner.key in pointers:
                offsets[inner.key] = offset
        else:
            pointer = _pointer_to_next(inner)
            if (
                pointer is not None
                and (inner is None or not inner.is_object)
                and pointer in pointers
            ):
                offsets.setdefault(pointer, offset)
            if written in ("{", "["):
                stack.append(_Container(pointer if pointer in pointers else None, written == "{"))
    return offsets


def _member(container: _Container, key: str) -> str | None:
    if container.pointer is None:
        return None
    try:
        return container.pointer + json_pointer(json.loads(key))
    except (ValueError, RecursionError):
        return None


def _pointer_to_next(container: _Container | None) -> str | None:
    """Return the pointer to the next value."""
    if container is None:
        return ""
    if container.is_object or container.pointer is None:
        return container.key
    return f"{container.pointer}/{container.index}"
