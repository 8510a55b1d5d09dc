"""Where a JSON pointer points to in a document's text, for editors and code review tools."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ortpkg.documents.findings import json_pointer

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_LINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text; lines and columns count from 1, columns in characters."""

    line: int
    column: int


@dataclass(slots=True)
class _Container:
    """An object or array that is being read.

    ``pointer`` is None where nothing in it is asked for.
    """

    pointer: str | None
    is_object: bool
    index: int = 0
    key: str | None = None
    expects_key: bool = True


def find_positions(text: str, pointers: Collection[str]) -> dict[str, Position]:
    """Pointer → where its member's key, or its element, begins in the document ``text``.

    A pointer to what is not there gets the place of the nearest thing around it that is. Of a key
    that comes twice the last one counts. Text that is no JSON is read as far as it goes; a pointer
    of which nothing is found is left out.
    """
    offsets = _find_offsets(text, {prefix for pointer in pointers for prefix in _prefixes(pointer)})
    line_starts = [0, *(match.end() for match in _LINE.finditer(text))]
    found = {}
    for pointer in pointers:
        offset = next((offsets[prefix] for prefix in _prefixes(pointer) if prefix in offsets), None)
        if offset is not None:
            line = bisect_right(line_starts, offset)
            found[pointer] = Position(line=line, column=offset - line_starts[line - 1] + 1)
    return found


def _prefixes(pointer: str) -> Iterator[str]:
    """The pointer, and those to everything around what it points to, from the inside out."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def _find_offsets(text: str, wanted: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
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
            if inner.key is not None and inner.key in wanted:
                found[inner.key] = offset
        else:
            pointer = _place(inner)
            if pointer is not None and (inner is None or not inner.is_object) and pointer in wanted:
                found.setdefault(pointer, offset)
            if written in ("{", "["):
                stack.append(_Container(pointer if pointer in wanted else None, written == "{"))
    return found


def _member(container: _Container, key: str) -> str | None:
    if container.pointer is None:
        return None
    try:
        return container.pointer + json_pointer(json.loads(key))
    except (ValueError, RecursionError):
        return None


def _place(container: _Container | None) -> str | None:
    """The pointer to the value that comes next."""
    if container is None:
        return ""
    if container.is_object or container.pointer is None:
        return container.key
    return f"{container.pointer}/{container.index}"
