"""Operations on sizes: quotients, remainders, maxima, minima, broadcasts, products, sums."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from functools import reduce

from ortpkg.graph.load_control import polled_parts
from ortpkg.graph.shapes.expression_bounds import is_at_least, is_one_with, is_positive
from ortpkg.graph.shapes.expressions import (
    Expression,
    Operation,
    Size,
    atom_count_of,
    bounded,
    broadcast_numbers,
    operation,
    size_of_terms,
    terms_of,
)


def floor_divide(left: Size, right: Size) -> Size:
    """Return ``left // right``, divided exactly if every coefficient allows it.

    Raises:
        ZeroDivisionError: for a divisor of 0.
    """
    if right == 0:
        raise ZeroDivisionError("a size is divided by 0")
    if right == 1:
        return left
    if left == right and is_positive(right):
        return 1
    exact = divide_exactly(left, right)
    if exact is not None:
        return exact
    if isinstance(right, int) and right > 0 and isinstance(left, Expression):
        # Terms that the divisor divides move outside: (4*N + 3) // 2 is 2*N + 1.
        outside = tuple(
            (monomial, count // right)
            for monomial, count in left.terms
            if not count % right or not monomial
        )
        inside = tuple(
            (monomial, count % right if not monomial else count)
            for monomial, count in left.terms
            if count % right
        )
        rest = size_of_terms(inside)
        quotient = 0 if rest == 0 else operation("floor", rest, right)
        return size_of_terms(tuple(term for term in outside if term[1])) + quotient
    return operation("floor", left, right)


def divide_exactly(left: Size, right: Size) -> Size | None:
    """Return the quotient if ``right``, a number or one term, divides every term of ``left``.

    None if it does not. If a symbol of the divisor may be 0, there is no quotient; the caller has
    excluded that.
    """
    if right == 0:
        return None
    divisor = terms_of(right)
    if len(divisor) != 1:
        return 1 if left == right else None
    monomial, coefficient = divisor[0]
    quotients = []
    for factors, count in terms_of(left):
        remaining = list(factors)
        for atom in monomial:
            if atom not in remaining:
                return None
            remaining.remove(atom)
        if count % coefficient:
            return None
        quotients.append((tuple(remaining), count // coefficient))
    return size_of_terms(tuple(quotients))


def remainder(left: Size, right: Size) -> Size:
    """Return ``left % right``; ZeroDivisionError for a divisor of 0."""
    if right == 0:
        raise ZeroDivisionError("a size is divided by 0")
    if right == 1 or divide_exactly(left, right) is not None:
        return 0
    return operation("mod", left, right)


def ceil_divide(left: Size, right: Size) -> Size:
    """Return the least multiple count of ``right``, which is 1 or more, that covers ``left``."""
    return floor_divide(left + right - 1, right)


def larger(left: Size, right: Size) -> Size:
    """Return the larger of two sizes, without an operation if it is known which."""
    if is_at_least(left, right):
        return left
    if is_at_least(right, left):
        return right
    first, second = sorted((left, right), key=str)
    return operation("max", first, second)


def smaller(left: Size, right: Size) -> Size:
    """Return the smaller of two sizes, without an operation if it is known which."""
    if is_at_least(left, right):
        return right
    if is_at_least(right, left):
        return left
    first, second = sorted((left, right), key=str)
    return operation("min", first, second)


def broadcast(left: Size, right: Size) -> Size:
    """Return the size that two dimensions broadcast to; ValueError if they certainly do not."""
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int) and isinstance(right, int):
        return broadcast_numbers(left, right)
    if isinstance(left, int) or isinstance(right, int):
        return left if isinstance(left, int) else right  # the other is equal, or 1
    if _is_or_of(right, left) or _is_or_of(left, right):
        return left if _is_or_of(right, left) else right
    first, second = sorted((left, right), key=lambda size: (atom_count_of(size), str(size)))
    # if one size is 1 only where the other is, too, it is the broadcast of both
    if is_one_with(second, first):
        return first
    if is_one_with(first, second):
        return second
    first, second = sorted((left, right), key=str)
    return operation("broadcast", first, second)


def either(size: Size, otherwise: Size) -> Size:
    """Return ``size``, or ``otherwise`` if it is 0."""
    if size == 0 or is_positive(size) or size == otherwise:
        return otherwise if size == 0 else size
    return operation("or", size, otherwise)


def _is_or_of(size: Expression, first: Expression) -> bool:
    """Return True if ``size`` equals ``first`` unless that is 0."""
    (monomial, count), *rest = size.terms
    if rest or count != 1 or len(monomial) != 1:
        return False
    (atom,) = monomial
    return isinstance(atom, Operation) and atom.kind == "or" and atom.left == first


def product(sizes: Iterator[Size] | tuple[Size, ...] | list[Size]) -> Size:
    """Return the product of sizes, 1 for none; TooLargeError if it is too large."""
    factors = list(sizes)
    if any(isinstance(size, int) and size == 0 for size in factors):
        return 0
    number = bounded(math.prod(size for size in factors if isinstance(size, int)))
    symbolic = [size for size in factors if not isinstance(size, int)]
    return reduce(operator.mul, polled_parts(symbolic), number)


def total(*sizes: Size) -> Size:
    """Return the sum of sizes; 0 for none."""
    return reduce(operator.add, polled_parts(sizes), 0)
