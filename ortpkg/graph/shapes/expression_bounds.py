"""Bounds of sizes for all values of their symbols, and when sizes are 0 or 1."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ortpkg.graph.shapes.expressions import Atom, Expression, Monomial, Size, Symbol, terms_of


def least(size: Size) -> float:
    """Return a lower bound of the size for symbols of 0 or more.

    It is minus infinity if there is none.
    """
    return size if isinstance(size, int) else _least_sum(size.terms)


def _least_sum(terms: Iterable[tuple[Monomial, int]]) -> float:
    low = 0.0
    for monomial, coefficient in terms:
        low += _least_term(monomial, coefficient)
        if low == -math.inf:
            break
    return low


def _least_term(monomial: Monomial, coefficient: int) -> float:
    """Return a lower bound of a term; it visits each atom once, since operations nest."""
    if not monomial:
        return coefficient
    if coefficient < 0:
        return -math.inf
    low = float(coefficient)
    for atom in monomial:
        least_factor = _least_atom(atom)
        if least_factor < 0:
            return -math.inf
        low *= least_factor
    return low


def _least_atom(atom: Atom) -> float:
    if isinstance(atom, Symbol):
        return 0
    left, right = least(atom.left), least(atom.right)
    if atom.kind == "max":
        return max(left, right)
    if atom.kind == "min":
        return min(left, right)
    if atom.kind == "floor" and isinstance(atom.right, int) and atom.right > 0:
        return left // atom.right if left > -math.inf else left
    if atom.kind in {"broadcast", "or"}:  # the value is one of the two
        return 0 if min(left, right) >= 0 else -math.inf
    return 0 if left >= 0 and right > 0 else -math.inf


def is_at_least(left: Size, right: Size) -> bool:
    """Return True if ``left >= right`` for all values of the symbols; False if unknown."""
    rest = dict(terms_of(left))  # left - right, unsorted, since it is not kept
    for monomial, coefficient in terms_of(right):
        rest[monomial] = rest.get(monomial, 0) - coefficient
    return _least_sum(term for term in rest.items() if term[1]) >= 0


def is_positive(size: Size) -> bool:
    """Return True if the size is 1 or more for all values of the symbols."""
    return least(size) >= 1


def fits(size: Size, low: int, high: int, *, largest_symbol: int) -> bool:
    """Return True if ``low <= size <= high`` for symbols up to ``largest_symbol``."""
    magnitude = _magnitude(size, largest_symbol)
    return magnitude <= high and (-magnitude >= low or least(size) >= low)


def _magnitude(size: Size, largest_symbol: int) -> float:
    """Return an upper bound of the size's absolute value."""
    if isinstance(size, int):
        return abs(size)
    return sum(
        abs(count) * math.prod(_magnitude_of_atom(atom, largest_symbol) for atom in monomial)
        for monomial, count in size.terms
    )


def _magnitude_of_atom(atom: Atom, largest_symbol: int) -> float:
    if isinstance(atom, Symbol):
        return largest_symbol
    left, right = (_magnitude(operand, largest_symbol) for operand in (atom.left, atom.right))
    return left / max(least(atom.right), 1) + 1 if atom.kind == "floor" else max(left, right)


def is_zero_whenever(size: Size, other: Size) -> bool:
    """Return True if ``size`` is 0 whenever ``other``, a sum of products of sizes, is 0."""
    if size == 0 or size == other:
        return True
    if not (isinstance(size, Expression) and isinstance(other, Expression)):
        return False
    if any(count < 0 for _, count in other.terms) or least(other) < 0:
        return False
    # If the sum is 0, so is each product in it, and one of the product's factors.
    return all(
        any(
            all(_is_zero_product(monomial, factor) for factor in factors)
            for factors, _ in other.terms
        )
        for monomial, _ in size.terms
    )


def is_one_with(size: Size, other: Size) -> bool:
    """Return True if ``size`` is 1 whenever ``other`` is."""
    return _ones(size) <= _ones(other)


def _ones(size: Size) -> frozenset[Size]:
    """Return sizes that are all 1 exactly when ``size`` is; the size itself if it never is."""
    if isinstance(size, int):
        return frozenset() if size == 1 else frozenset({size})
    (monomial, count), *rest = size.terms
    if rest or count != 1 or len(monomial) != 1 or isinstance(monomial[0], Symbol):
        return frozenset({size})
    atom = monomial[0]
    if atom.kind == "broadcast":
        return _ones(atom.left) | _ones(atom.right)
    for bound, other in ((atom.left, atom.right), (atom.right, atom.left)):
        if isinstance(bound, int) and (
            (atom.kind == "min" and bound > 1) or (atom.kind == "max" and bound < 1)
        ):
            return _ones(other)
    return frozenset({size})


def _is_zero_product(monomial: Monomial, factor: Atom) -> bool:
    return any(_is_zero_atom(atom, factor) for atom in monomial)


def _is_zero_atom(atom: Atom, factor: Atom) -> bool:
    if atom == factor:
        return True
    if isinstance(atom, Symbol):
        return False
    left, right = (
        operand == 0
        if isinstance(operand, int)
        else all(_is_zero_product(monomial, factor) for monomial, _ in operand.terms)
        for operand in (atom.left, atom.right)
    )
    if atom.kind in {"max", "or"}:
        return left and right
    if atom.kind == "broadcast":
        return left or right
    if atom.kind == "min":
        return (left and least(atom.right) >= 0) or (right and least(atom.left) >= 0)
    return left
