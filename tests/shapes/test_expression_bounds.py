"""What holds of sizes whatever their symbols are, against the numbers that they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.graph.shapes import expression_bounds
from ortpkg.graph.shapes.expression_bounds import fits, is_at_least, is_one_with, is_zero_whenever
from ortpkg.graph.shapes.expressions import Atom, Size, evaluate, symbol, symbols_of
from ortpkg.graph.shapes.size_operations import (
    broadcast,
    either,
    floor_divide,
    larger,
    smaller,
    total,
)
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
    ("size", "n", "number"),
    [
        (broadcast(N, -1 - N), 1, -2),
        (broadcast(-1 - N, N), 1, -2),
        (either(N, M - 1), 0, -1),
    ],
)
def test_one_of_two_sizes_that_may_be_negative_is_no_size(size: Size, n: int, number: int) -> None:
    assert evaluate(size, {"N": n, "M": 0}) == number
    assert not fits(size, 0, 50, largest_symbol=3)
    assert fits(size, -50, 50, largest_symbol=3)


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
    assert is_zero_whenever(size, other)


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
    assert not is_zero_whenever(size, other)


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
    assert other_number or not is_zero_whenever(size, other) or not number
    assert number >= other_number or not is_at_least(size, other)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (N + 3, N + 2, True),
        (N + 2, N + 3, False),
        (2 * N, N, True),
        (N, M, False),
        (N * larger(N, M) + 1, N * larger(N, M), True),
        (N, N, True),
        (5, 4, True),
        (N, 1, False),
    ],
)
def test_sizes_that_another_is_never_below(left: Size, right: Size, *, expected: bool) -> None:
    assert is_at_least(left, right) == expected


def test_sizes_of_more_terms_than_are_kept_are_compared() -> None:
    some = total(*(symbol(f"A{number}") for number in range(20)))
    others = total(*(symbol(f"B{number}") for number in range(20)))
    assert not is_at_least(some, others)
    assert not is_at_least(others, some)


def test_operations_in_operations_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    size: Size = N
    for _ in range(12):
        size = floor_divide(size * M, 3)
    asked = []
    least_atom = expression_bounds._least_atom

    def counting(atom: Atom) -> float:
        asked.append(atom)
        return least_atom(atom)

    monkeypatch.setattr(expression_bounds, "_least_atom", counting)
    assert is_at_least(size, 0)
    assert len(asked) <= 3 * 12


@given(sizes(), sizes(), st.lists(st.integers(0, 3), min_size=3, max_size=3))
@settings(max_examples=200)
def test_a_size_that_is_one_with_another_is_one_wherever_that_is(
    size: Size, other: Size, numbers: list[int]
) -> None:
    names = sorted({each.name for each in symbols_of(size) | symbols_of(other)})
    values = dict(zip(names, [*numbers, *numbers, *numbers], strict=False))
    try:
        one, two = evaluate(size, values), evaluate(other, values)
    except (ArithmeticError, ValueError, KeyError):
        return
    if is_one_with(size, other) and two == 1:
        assert one == 1


@pytest.mark.parametrize(
    ("left", "right", "made"),
    [
        (N, smaller(512, N), N),
        (smaller(512, N), N, N),
        (smaller(512, N), smaller(7, N), "min(512, N)"),
        (broadcast(N, M), N, "broadcast(M, N)"),
        (N, M, "broadcast(M, N)"),
        (smaller(1, N), N, "broadcast(N, min(1, N))"),
    ],
)
def test_sizes_that_are_one_together_are_alike_where_they_broadcast(
    left: Size, right: Size, made: Size | str
) -> None:
    assert str(broadcast(left, right)) == str(made)
