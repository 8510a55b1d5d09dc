"""Quotients, remainders, maxima, minima of sizes, what two broadcast to, products and sums."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from functools import reduce

from ortpkg.graph.load_control import polled_parts
from ortpkg.shapes.expression_bounds import is_at_least, is_one_with, is_positive
from ortpkg.shapes.expressions import (
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
    """``left // right``, exactly divided where every coefficient allows it.

    ZeroDivisionError for a divisor of 0.
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
        # What the divisor divides stands outside: (4*N + 3) // 2 is 2*N + 1.
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
    """The quotient where ``right``, a number or one term, divides every term of ``left``.

    None where it does not.

    A symbol of the divisor may be 0, and then there is no quotient; whoever divides has ruled that
    out.
    """
    if right == 0:
        return None
    divisor = terms_of(right)
    if len(divisor) != 1:
        return 1 if left == right else None
    monomial, coefficient = divisor[0]
    found = []
    for own, count in terms_of(left):
        remaining = list(own)
        for atom in monomial:
            if atom not in remaining:
                return None
            remaining.remove(atom)
        if count % coefficient:
            return None
        found.append((tuple(remaining), count // coefficient))
    return size_of_terms(tuple(found))


def remainder(left: Size, right: Size) -> Size:
    """``left % right``. ZeroDivisionError for a divisor of 0."""
    if right == 0:
        raise ZeroDivisionError("a size is divided by 0")
    if right == 1 or divide_exactly(left, right) is not None:
        return 0
    return operation("mod", left, right)


def ceil_divide(left: Size, right: Size) -> Size:
    """The least whole number of ``right``, which is 1 or more, that cover ``left``."""
    return floor_divide(left + right - 1, right)


def larger(left: Size, right: Size) -> Size:
    """The larger of two, without an operation where it is clear which."""
    if is_at_least(left, right):
        return left
    if is_at_least(right, left):
        return right
    first, second = sorted((left, right), key=str)
    return operation("max", first, second)


def smaller(left: Size, right: Size) -> Size:
    """The smaller of two, without an operation where it is clear which."""
    if is_at_least(left, right):
        return right
    if is_at_least(right, left):
        return left
    first, second = sorted((left, right), key=str)
    return operation("min", first, second)


def broadcast(left: Size, right: Size) -> Size:
    """The size that two dimensions broadcast to. ValueError where they are known not to."""
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int) and isinstance(right, int):
        return broadcast_numbers(left, right)
    if isinstance(left, int) or isinstance(right, int):
        return left if isinstance(left, int) else right  # the other is it, or 1
    if _is_either(right, left) or _is_either(left, right):
        return left if _is_either(right, left) else right
    first, second = sorted((left, right), key=lambda size: (atom_count_of(size), str(size)))
    # a size that is 1 only where the other is is what both are wherever they broadcast
    if is_one_with(second, first):
        return first
    if is_one_with(first, second):
        return second
    first, second = sorted((left, right), key=str)
    return operation("broadcast", first, second)


def either(size: Size, otherwise: Size) -> Size:
    """``size``, or ``otherwise`` where it is 0."""
    if size == 0 or is_positive(size) or size == otherwise:
        return otherwise if size == 0 else size
    return operation("or", size, otherwise)


def _is_either(size: Expression, first: Expression) -> bool:
    """Whether ``size`` is ``first`` where that is not 0."""
    (monomial, count), *rest = size.terms
    if rest or count != 1 or len(monomial) != 1:
        return False
    (atom,) = monomial
    return isinstance(atom, Operation) and atom.kind == "or" and atom.left == first


def product(sizes: Iterator[Size] | tuple[Size, ...] | list[Size]) -> Size:
    """The product of all; 1 where there are none. TooLargeError where it is too large."""
    found = list(sizes)
    if any(isinstance(size, int) and size == 0 for size in found):
        return 0
    known = bounded(math.prod(size for size in found if isinstance(size, int)))
    symbolic = [size for size in found if not isinstance(size, int)]
    return reduce(operator.mul, polled_parts(symbolic), known)


def total(*sizes: Size) -> Size:
    """The sum of all; 0 where there are none."""
    return reduce(operator.add, polled_parts(sizes), 0)
