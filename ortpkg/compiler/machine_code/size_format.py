"""Sizes as JSON: a number, or a sum as a list of terms ``[coefficient, factor, ...]``.

A factor is a symbol's name, ``["anonymous", name]`` for one that the model gives no name, or an
operation ``[kind, left, right]`` over two sizes: ``floor``, ``mod``, ``max``, ``min``,
``broadcast``, ``or``. Unlike text, this is unambiguous whatever symbols are called.
"""

from __future__ import annotations

from typing import Any

from ortpkg.foundations.errors import quoted
from ortpkg.graph.shapes.expressions import Atom, Size, Symbol, TooLargeError, operation, symbol

#: Kinds of operations of expressions.
_KINDS = frozenset({"floor", "mod", "max", "min", "broadcast", "or"})
_ANONYMOUS = "anonymous"
#: The compiler makes no expression with more terms, or with more factors in a term.
_MOST_TERMS = 24
_MOST_FACTORS = 8
_LONGEST_NAME = 4096


def size_to_json(size: Size) -> Any:
    """Return the size as a JSON value for :func:`size_from_json`."""
    if isinstance(size, int):
        return size
    return [[count, *map(_factor_to_json, factors)] for factors, count in size.terms]


def size_from_json(value: object) -> Size:
    """Return the size of a JSON value; the caller has bounded its nesting depth.

    Raises:
        ValueError: with the rest of a sentence that begins with the pointer, if it is no size.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_TERMS:
        raise ValueError(f"is no size: a number, or a list of 1 to {_MOST_TERMS} terms")
    total: Size = 0
    try:
        for term in value:
            total = total + _term_from_json(term)
    except TooLargeError:
        raise ValueError("is a size that is too large to compute with") from None
    except ZeroDivisionError:
        raise ValueError("divides by 0") from None
    return total


def _factor_to_json(atom: Atom) -> Any:
    if isinstance(atom, Symbol):
        return [_ANONYMOUS, atom.name] if atom.is_anonymous else atom.name
    return [atom.kind, size_to_json(atom.left), size_to_json(atom.right)]


def _term_from_json(term: object) -> Size:
    if not isinstance(term, list) or not 0 < len(term) <= _MOST_FACTORS + 1:
        raise ValueError(
            f"has a term that is no list of a coefficient and at most {_MOST_FACTORS} factors"
        )
    coefficient, *factors = term
    if not isinstance(coefficient, int) or isinstance(coefficient, bool):
        raise ValueError(  # noqa: TRY004 - the document is wrong, not the call
            "has a term that does not begin with a whole number"
        )
    product: Size = coefficient
    for factor in factors:
        product = product * _factor_from_json(factor)
    return product


def _factor_from_json(factor: object) -> Size:
    if isinstance(factor, str):
        return _named(factor, is_anonymous=False)
    if isinstance(factor, list) and len(factor) == 2 and factor[0] == _ANONYMOUS:
        return _named(factor[1], is_anonymous=True)
    if not isinstance(factor, list) or len(factor) != 3:
        raise ValueError("has a factor that is neither a symbol's name nor an operation")
    kind, left, right = factor
    if kind not in _KINDS:
        raise ValueError(
            f"has the unknown operation {quoted(kind)}; known are {', '.join(sorted(_KINDS))}"
        )
    return operation(kind, size_from_json(left), size_from_json(right))


def _named(name: object, *, is_anonymous: bool) -> Size:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise ValueError(f"has a symbol whose name is no text of 1 to {_LONGEST_NAME} characters")
    return symbol(name, is_anonymous=is_anonymous)
