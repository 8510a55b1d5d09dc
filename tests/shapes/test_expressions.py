"""Sizes as expressions, against the numbers that they stand for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.graph.shapes.expression_bounds import is_at_least
from ortpkg.graph.shapes.expressions import (
    Expression,
    Size,
    TooLargeError,
    evaluate,
    symbol,
    symbols_of,
)
from ortpkg.graph.shapes.size_operations import (
    broadcast,
    ceil_divide,
    either,
    floor_divide,
    larger,
    product,
    remainder,
    smaller,
)

N, M = symbol("N"), symbol("M")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (N + 1, "N + 1"),
        (2 * N - 3, "2*N - 3"),
        (N * M * 4, "4*M*N"),
        (N - N, "0"),
        (symbol("batch size") * 2, "2*(batch size)"),
        (floor_divide(N + 1, 2), "floor((N + 1)/2)"),
        (floor_divide(4 * N + 3, 2), "2*N + 1"),
        (floor_divide(6 * N, 4), "floor(6*N/4)"),
        (floor_divide(8 * N, 8), "N"),
        (remainder(N, 4), "mod(N, 4)"),
        (remainder(4 * N, 4), "0"),
        (larger(N, 3), "max(3, N)"),
        (larger(N, N + 1), "N + 1"),
        (smaller(N, N + 1), "N"),
        (larger(N, 0), "N"),
        (broadcast(N, 1), "N"),
        (broadcast(N, 5), "5"),
        (broadcast(M, N), "broadcast(M, N)"),
        (either(N, M), "or(N, M)"),
        (either(N + 1, M), "N + 1"),
        (either(0, M), "M"),
        (broadcast(N, either(N, M)), "N"),
        (broadcast(either(N, M), N), "N"),
        (product([2, N, 3]), "6*N"),
        (product([N, 0]), "0"),
    ],
)
def test_sizes_as_people_write_them(size: Size, text: str) -> None:
    assert str(size) == text


def test_equal_sizes_are_equal_whatever_way_they_were_computed() -> None:
    assert (N + M) * 2 == M * 2 + N + N
    assert hash((N + M) * 2) == hash(M * 2 + N + N)
    assert broadcast(N, M) == broadcast(M, N)


def test_sizes_that_are_known_not_to_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="sizes 2 and 3 do not broadcast"):
        broadcast(2, 3)


@pytest.mark.parametrize("divide", [floor_divide, remainder])
def test_nothing_is_divided_by_zero(divide: Callable[[Size, Size], Size]) -> None:
    with pytest.raises(ZeroDivisionError):
        divide(N, 0)


START: Size = N


def _third(size: Size, _round: int) -> Size:
    return floor_divide(size + 1, 3)


def test_expressions_stay_small() -> None:
    """A stranger's model may compute with sizes as often as it likes."""
    with pytest.raises(TooLargeError):
        product([symbol(f"s{i}") for i in range(20)])
    with pytest.raises(TooLargeError):
        reduce(_third, range(100), START)
    with pytest.raises(TooLargeError):
        sum(symbol(f"s{index}") for index in range(100))


def test_the_symbols_of_an_expression() -> None:
    assert {each.name for each in symbols_of(floor_divide(N + 1, 2) * M)} == {"N", "M"}
    assert symbols_of(3) == frozenset()


_OPERATIONS: dict[str, tuple[Callable[[Size, Size], Size], Callable[[int, int], int]]] = {
    "+": (operator.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (operator.mul, operator.mul),
    "floor": (floor_divide, operator.floordiv),
    "ceil": (ceil_divide, lambda a, b: -(-a // b)),
    "mod": (remainder, operator.mod),
    "max": (larger, max),
    "min": (smaller, min),
    "or": (either, lambda a, b: a or b),
}
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(sorted(_OPERATIONS)), st.sampled_from(["N", "M", "last", 1, 2, 3, 4, 7])
    ),
    max_size=6,
)


@settings(max_examples=400, deadline=None)
@given(_STEPS, st.integers(0, 9), st.integers(1, 9))
def test_an_expression_has_the_value_of_what_it_was_computed_from(
    steps: list[tuple[str, str | int]], n: int, m: int
) -> None:
    values = {"N": n, "M": m}
    size: Size = N
    number, last_size, last_number = n, M, m
    for name, operand in steps:
        right: Size = (
            last_size
            if operand == "last"
            else symbol(operand)
            if isinstance(operand, str)
            else operand
        )
        right_number = (
            last_number
            if operand == "last"
            else values[operand]
            if isinstance(operand, str)
            else operand
        )
        symbolic, plain = _OPERATIONS[name]
        if name in {"floor", "ceil", "mod"} and (right_number < 1 or not is_at_least(right, 1)):
            continue
        try:
            made = symbolic(size, right)
        except TooLargeError:
            return
        last_size, last_number = M, m
        size, number = made, plain(number, right_number)
        assert evaluate(size, values) == number
    if isinstance(size, Expression) and is_at_least(size, 0):
        assert number >= 0


@pytest.mark.parametrize("factors", [2, 4, 8])
def test_what_would_hold_too_many_atoms_is_refused_before_anybody_has_to_look_at_them(
    factors: int,
) -> None:
    """Each level holds so many times what the one below holds: 8^12 atoms of one name."""
    size: Size = N
    for _ in range(12):
        try:
            size = floor_divide(product([size] * factors), 3)
        except TooLargeError:
            return
        assert is_at_least(size, 0)
        assert len(str(size)) < 10_000
    pytest.fail("no level was too large")


def test_symbols_with_long_names_are_kept_alone_and_not_written_into_expressions() -> None:
    """A name may be as long as the model's file, and each value with it would have its text."""
    long = symbol("n" * 5000)

    assert long + 0 == long
    for make, other in ((operator.add, 1), (operator.mul, 2), (larger, N)):
        with pytest.raises(TooLargeError):
            make(long, other)


def test_numbers_in_expressions_have_64_bits() -> None:
    """Flattened products square a size; after 40 of them no memory holds the number."""
    for make in (operator.mul, operator.add, larger):
        with pytest.raises(TooLargeError):
            make(N, 2**65)
    assert str(N * 2**63) == "9223372036854775808*N"
