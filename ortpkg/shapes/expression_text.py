"""Reads sizes back from the text in types: ``"4*batch*(past + 1)"``, all that expressions print."""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from itertools import islice

from ortpkg.shapes.expressions import Size, TooLargeError, bounded, symbol
from ortpkg.shapes.size_operations import (
    broadcast,
    either,
    floor_divide,
    larger,
    remainder,
    smaller,
)

#: Longer texts are no expressions of ours; nor are more brackets in each other, or in a name.
_MOST_CHARACTERS = 4096
_MOST_BRACKETS = 32
_TOKEN = re.compile(r"\s*(?:(\d+)|([^\W\d][\w.]*)|([-+*/(),]))")
_CLOSING_BRACKET = re.compile(r"\)")
_OPERATIONS: dict[str, Callable[[Size, Size], Size]] = {
    "mod": remainder,
    "max": larger,
    "min": smaller,
    "broadcast": broadcast,
    "or": either,
}


class _NoExpressionError(ValueError):
    """The text is a name."""


def size_of_text(text: str, names: Set[str] = frozenset()) -> Size:
    """The size that ``text`` stands for; a symbol of that name where it is no expression.

    Args:
        text: of a dimension.
        names: dimensions that the model itself names so, which are symbols whatever they look like.
    """
    if text in names or len(text) > _MOST_CHARACTERS:
        return symbol(text)
    try:
        found = _Reader(text, names).read()
        return bounded(found) if isinstance(found, int) else found
    except (_NoExpressionError, TooLargeError, ZeroDivisionError, ValueError):
        return symbol(text)


class _Reader:
    def __init__(self, text: str, names: Set[str]) -> None:
        self._text = text
        self._names = names
        self._place = 0
        self._depth = 0

    def read(self) -> Size:
        """The whole text as one size; _NoExpressionError for anything else."""
        found = self._sum()
        if self._text[self._place :].strip():
            raise _NoExpressionError
        return found

    def _sum(self) -> Size:
        found = -self._product() if self._take("-") else self._product()
        while True:
            if self._take("+"):
                found = found + self._product()
            elif self._take("-"):
                found = found - self._product()
            else:
                return found

    def _product(self) -> Size:
        found = self._factor()
        while self._take("*"):
            found = found * self._factor()
        return found

    def _factor(self) -> Size:
        if self._take("("):
            return self._bracket()
        token = _TOKEN.match(self._text, self._place)
        if token is None or token[3]:
            raise _NoExpressionError
        self._place = token.end()
        if token[1]:
            return bounded(int(token[1]))
        name = token[2]
        if name == "floor" and name not in self._names and self._take("("):
            return self._pair("/", floor_divide)
        if name in _OPERATIONS and self._take("("):
            return self._pair(",", _OPERATIONS[name])
        return symbol(name)

    def _bracket(self) -> Size:
        """What stands in brackets that are open: a name that needs them, or an expression."""
        ends = islice(_CLOSING_BRACKET.finditer(self._text, self._place), _MOST_BRACKETS)
        for end in reversed([found.start() for found in ends]):
            name = self._text[self._place : end]
            if name in self._names and not name.replace(".", "_").isidentifier():
                self._place = end + 1
                return symbol(name)
        return self._inside(self._sum)

    def _pair(self, separator: str, operation: Callable[[Size, Size], Size]) -> Size:
        def both() -> Size:
            left = self._sum()
            self._expect(separator)
            return operation(left, self._sum())

        return self._inside(both)

    def _inside(self, read: Callable[[], Size]) -> Size:
        self._depth += 1
        if self._depth > _MOST_BRACKETS:
            raise _NoExpressionError
        found = read()
        self._expect(")")
        self._depth -= 1
        return found

    def _take(self, sign: str) -> bool:
        token = _TOKEN.match(self._text, self._place)
        if token is None or token[3] != sign:
            return False
        self._place = token.end()
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise _NoExpressionError
