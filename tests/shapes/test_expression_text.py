"""Sizes read back from the text that types hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.graph.shapes.expression_text import size_of_text
from ortpkg.graph.shapes.expressions import Size, TooLargeError, symbol
from ortpkg.graph.shapes.size_operations import (
    broadcast,
    either,
    floor_divide,
    larger,
    remainder,
    smaller,
)

N, M = symbol("N"), symbol("M")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("N", N),
        ("12", 12),
        ("N + 1", N + 1),
        ("-N + 8", 8 - N),
        ("4*M*N - 3*M", 4 * M * N - 3 * M),
        ("floor((N - 1)/2) + 1", floor_divide(N - 1, 2) + 1),
        ("mod(N, 4)", remainder(N, 4)),
        ("max(3, N)", larger(N, 3)),
        ("min(M, N + 1)", smaller(M, N + 1)),
        ("broadcast(M, N)", broadcast(M, N)),
        ("or(N, 3)", either(N, 3)),
        ("max", symbol("max")),
        ("floor*2", 2 * symbol("floor")),
        ("encoder.length + 1", symbol("encoder.length") + 1),
    ],
)
def test_expressions_are_read_as_they_are_written(text: str, size: Size) -> None:
    assert size_of_text(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "batch size",
        "N +",
        "N)",
        "(N",
        "N//2",
        "1/2",
        "floor(N/0)",
        "max(N)",
        "?",
        "2 N",
        "N" * 9999 + "*",
        "9" * 400,
        f"max({'9' * 400}*N, M)",
        f"max({'9' * 4000}, N)",
    ],
)
def test_what_is_no_expression_is_a_name(text: str) -> None:
    assert size_of_text(text) == symbol(text)


def test_many_brackets_are_a_name_too() -> None:
    text = "(" * 5000 + "N" + ")" * 5000
    assert size_of_text(text[:4000]) == symbol(text[:4000])
    assert size_of_text("(" * 200 + "N" + ")" * 200) == symbol("(" * 200 + "N" + ")" * 200)


def test_a_dimension_that_the_model_calls_like_an_expression_is_a_symbol() -> None:
    names = {"2*N", "batch size"}
    assert size_of_text("2*N", names) == symbol("2*N")
    assert size_of_text("(2*N)", {"3*N"}) == 2 * N
    assert size_of_text("3*(2*N) + (batch size)", names) == 3 * symbol("2*N") + symbol("batch size")


@pytest.mark.timeout(30)
def test_a_model_may_have_very_many_dimensions_with_names_that_need_brackets() -> None:
    names = frozenset(f"batch {index}" for index in range(100_000))
    for index in range(1000):
        assert size_of_text(f"2*(batch {index})", names) == 2 * symbol(f"batch {index}")


_NAMES = ("N", "M", "batch size", "a.b")


@st.composite
def sizes(draw: st.DrawFn, depth: int = 3) -> Size:
    if depth == 0 or draw(st.booleans()):
        return draw(st.one_of(st.integers(-9, 99), st.sampled_from(_NAMES).map(symbol)))
    left, right = draw(sizes(depth - 1)), draw(sizes(depth - 1))
    kind = draw(st.sampled_from(["+", "-", "*", "floor", "mod", "max", "min", "broadcast", "or"]))
    try:
        match kind:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "floor" | "mod":
                return (floor_divide if kind == "floor" else remainder)(
                    left, draw(st.integers(1, 7))
                )
            case "max" | "min":
                return (larger if kind == "max" else smaller)(left, right)
            case "or":
                return either(left, right)
            case _:
                return broadcast(left, right)
    except (ValueError, TooLargeError, ZeroDivisionError):
        return left


@settings(max_examples=300, deadline=None)
@given(sizes())
def test_what_is_written_is_read_back(size: Size) -> None:
    assert size_of_text(str(size), {"batch size"}) == size
