"""Wrapping of lines between words, but not inside names or quantities."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

#: Parts that stay on one line: a quoted name with its spaces, a short name or shape in brackets, a
#: number with its unit, or anything without a space. Compiled by the first long line, because most
#: commands print none.
_UNBROKEN = (
    r"(?:(?<!\w)'(?:[^'\\]|\\.){0,80}'(?!\w)"
    r"|\((?:[^()]|\([^()]{0,9}\)){0,40}\)"
    r"|\[[^\[\]]{0,60}\]"
    r"|\d[\d.,]{0,20} (?:[kMGT]?i?B|[mnµ]?s|%|bytes|files|nodes)(?!\w)"
    r"|\S)+"
)


def display_width(text: str) -> int:
    """Return the columns of ``text``: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def unbroken_parts(text: str) -> list[str]:
    """Return the parts of ``text`` that must each stay on one line, without spaces."""
    return re.findall(_UNBROKEN, text)


def wrapped(text: str, width: int, *, hang: str = "") -> list[str]:
    """Return ``text`` as lines of at most ``width`` columns.

    A longer part gets a whole line. ``hang`` begins every line after the first. Line breaks of
    ``text`` and its leading spaces stay.
    """
    if len(text) <= width and text.isascii() and "\n" not in text:
        return [text]
    return [
        line for text_line in text.split("\n") for line in _wrapped_line(text_line, width, hang)
    ]


def _wrapped_line(text: str, width: int, hang: str) -> Iterator[str]:
    if display_width(text) <= width:
        yield text
        return
    line, end = "", 0
    for part in re.finditer(_UNBROKEN, text):
        space = text[end : part.start()]
        if end and display_width(line) + len(space) + display_width(part[0]) > width:
            yield line
            line, space = hang, ""
        line += space + part[0]
        end = part.end()
    yield line
