"""Parses sizes from their text in types, e.g. ``"4*batch*(past + 1)"``.

It accepts anything that expressions print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from itertools import islice

from ortpkg.graph.shapes.expressions import Size, TooLargeError, bounded, symbol
from ortpkg.graph.shapes.size_operations import (
    broadcast,
    either,
    floor_divide,
    larger,
    remainder,
    smaller,
)

#: Longest text, and most nested brackets or brackets in a name, that are parsed as expressions.
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
    """The text is a name, not an expression."""


def size_of_text(text: str, names: Set[str] = frozenset()) -> Size:
    """Return the size that ``text`` expresses; a symbol of that name if it is no expression.

    Args:
        text: text of a dimension.
        names: names of dimensions in the model, which are symbols even if they look like
            expressions.
    """
    if text in names or len(text) > _MOST_CHARACTERS:
        return symbol(text)
    try:
        size = _Reader(text, names).read()
        return bounded(size) if isinstance(size, int) else size
    except (_NoExpressionError, TooLargeError, ZeroDivisionError, ValueError):
        return symbol(text)


class _Reader:
    def __init__(self, text: str, names: Set[str]) -> None:
        self._text = text
        self._names = names
        self._position = 0
        self._depth = 0

    def read(self) -> Size:
        """Return the whole text as one size; _NoExpressionError for anything else."""
        size = self._sum()
        if self._text[self._position :].strip():
            raise _NoExpressionError
        return size

    def _sum(self) -> Size:
        total = -self._product() if self._take("-") else self._product()
        while True:
            if self._take("+"):
                total = total + self._product()
            elif self._take("-"):
                total = total - self._product()
            else:
                return total

    def _product(self) -> Size:
        product = self._factor()
        while self._take("*"):
            product = product * self._factor()
        return product

    def _factor(self) -> Size:
        if self._take("("):
            return self._bracket()
        token = _TOKEN.match(self._text, self._position)
        if token is None or token[3]:
            raise _NoExpressionError
        self._position = token.end()
        if token[1]:
            return bounded(int(token[1]))
        name = token[2]
        if name == "floor" and name not in self._names and self._take("("):
            return self._pair("/", floor_divide)
        if name in _OPERATIONS and self._take("("):
            return self._pair(",", _OPERATIONS[name])
        return symbol(name)

    def _bracket(self) -> Size:
        """Read inside open brackets: a name that needs brackets, or an expression."""
        ends = islice(_CLOSING_BRACKET.finditer(self._text, self._position), _MOST_BRACKETS)
        for end in reversed([closing.start() for closing in ends]):
            name = self._text[self._position : end]
            if name in self._names and not name.replace(".", "_").isidentifier():
                self._position = end + 1
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
        size = read()
        self._expect(")")
        self._depth -= 1
        return size

    def _take(self, sign: str) -> bool:
        token = _TOKEN.match(self._text, self._position)
        if token is None or token[3] != sign:
            return False
        self._position = token.end()
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise _NoExpressionError
