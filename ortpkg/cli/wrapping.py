"""Lines for a screen of some width, broken between words, but not inside names or quantities."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

#: What stays on one line: a quoted name with all its spaces, a name or a shape in brackets if it is
#: not long, a number with its unit, or whatever has no space.
_UNBROKEN = re.compile(
    r"(?:(?<!\w)'(?:[^'\\]|\\.){0,80}'(?!\w)"
    r"|\((?:[^()]|\([^()]{0,9}\)){0,40}\)"
    r"|\[[^\[\]]{0,60}\]"
    r"|\d[\d.,]{0,20} (?:[kMGT]?i?B|[mnµ]?s|%|bytes|files|nodes)(?!\w)"
    r"|\S)+"
)


def display_width(text: str) -> int:
    """How many columns ``text`` takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def unbroken_parts(text: str) -> list[str]:
    """The parts of ``text`` that must each stay on one line, without the spaces between them."""
    return _UNBROKEN.findall(text)


def wrapped(text: str, width: int, *, hang: str = "") -> list[str]:
    """``text`` as lines of at most ``width`` columns.

    A part that is longer has a line to itself, and is whole.

    ``hang`` stands before every line after the first. Line breaks of ``text`` stay, and so does
    what it begins with.
    """
    if len(text) <= width and text.isascii() and "\n" not in text:
        return [text]
    return [line for each in text.split("\n") for line in _wrapped_line(each, width, hang)]


def _wrapped_line(text: str, width: int, hang: str) -> Iterator[str]:
    if display_width(text) <= width:
        yield text
        return
    line, end = "", 0
    for part in _UNBROKEN.finditer(text):
        space = text[end : part.start()]
        if end and display_width(line) + len(space) + display_width(part[0]) > width:
            yield line
            line, space = hang, ""
        line += space + part[0]
        end = part.end()
    yield line
