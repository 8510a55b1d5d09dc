"""What holds of sizes whatever their symbols are, against the numbers that they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.shapes.expression_bounds import fits, is_zero_with
from ortpkg.shapes.expressions import Size, evaluate, symbol, symbols_of
from ortpkg.shapes.size_operations import broadcast, either, floor_divide, larger, smaller
from tests.shapes.test_expression_text import sizes

N, M = symbol("N"), symbol("M")


@pytest.mark.parametrize(
    ("size", "is_held"),
    [
        (N, True),
        (N - 5, True),
        (5 - N, True),
        (floor_divide(100 * N, 50), True),
        (N * M, False),
        (100 * N, False),
        (20, True),
        (21, False),
    ],
)
def test_numbers_of_a_type_that_holds_twenty(size: Size, is_held: bool) -> None:
    assert fits(size, -20, 20, largest_symbol=10) == is_held


@pytest.mark.parametrize(
    ("size", "other"),
    [
        (N, N),
        (N * M, N),
        (N * M + 3 * N, N),
        (N * M, N * M),
        (N * M, N + M),
        (broadcast(N, M), N),
        (smaller(N, M), M),
        (floor_divide(N, 2) * 3, N),
        (broadcast(N, symbol("K")) * M, N * M),
        (0, N),
    ],
)
def test_sizes_that_are_nothing_where_another_is(size: Size, other: Size) -> None:
    assert is_zero_with(size, other)


@pytest.mark.parametrize(
    ("size", "other"),
    [
        (M, N),
        (N + 1, N),
        (N, N * M),
        (larger(N, M), N),
        (either(N, M), N),
        (N * M + M, N),
        (N, N - 1),
        (3, N),
    ],
)
def test_sizes_that_may_be_something_where_another_is_nothing(size: Size, other: Size) -> None:
    assert not is_zero_with(size, other)


@settings(max_examples=100, deadline=None)
@given(sizes(), sizes(), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_what_is_said_holds_for_numbers(size: Size, other: Size, numbers: list[int]) -> None:
    names = sorted(each.name for each in symbols_of(size) | symbols_of(other))
    values = dict(zip(names, numbers, strict=False))
    try:
        number, other_number = evaluate(size, values), evaluate(other, values)
    except (ValueError, ZeroDivisionError):
        return
    assert not fits(size, -50, 50, largest_symbol=3) or -50 <= number <= 50
    assert not fits(size, 0, 50, largest_symbol=3) or 0 <= number <= 50
    assert other_number or not is_zero_with(size, other) or not number
