"""Sequences and optionals: positions, ownership, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op

SEQUENCE = [np.array([1.0]), np.array([2.0]), np.array([3.0])]


def values(sequence: list[Tensor]) -> list[Any]:
    return [element.tolist() for element in sequence]


def position(value: int) -> Tensor:
    return np.array(value, np.int64)


@pytest.mark.parametrize(("at", "expected"), [(0, 0), (3, 3), (-1, 2), (-3, 0), (None, 3)])
def test_insert_puts_the_element_before_a_position(at: int | None, expected: int) -> None:
    found = run_op(
        "SequenceInsert", SEQUENCE, np.array([9.0]), None if at is None else position(at)
    )
    assert [element.item() for element in found].index(9.0) == expected
    assert len(SEQUENCE) == 3


@pytest.mark.parametrize(("at", "left"), [(0, [2, 3]), (-1, [1, 2]), (None, [1, 2])])
def test_erase_takes_one_element_out(at: int | None, left: list[int]) -> None:
    found = run_op("SequenceErase", SEQUENCE, None if at is None else position(at))
    assert [element.item() for element in found] == left


@pytest.mark.parametrize("op_type", ["SequenceAt", "SequenceErase"])
@pytest.mark.parametrize("at", [3, -4])
def test_position_outside_is_an_error(op_type: str, at: int) -> None:
    with pytest.raises(ValueError, match=rf"position {at} is not in \[-3, 2\] for a sequence of 3"):
        run_op(op_type, SEQUENCE, position(at))


def test_elements_are_copied_on_their_way_in_and_out() -> None:
    x = np.ones(3)
    (inside,) = run_op("SequenceConstruct", x)
    outside = run_op("SequenceAt", [x], position(0))
    inserted = run_op("SequenceInsert", [], x)[0]
    optional = run_op("Optional", x)
    element = run_op("OptionalGetElement", x)
    for copy in (inside, outside, inserted, optional, element):
        assert not np.may_share_memory(copy, x)


@pytest.mark.parametrize(
    ("split", "keepdims", "expected"),
    [
        (position(2), 1, [[0, 1], [2, 3], [4]]),
        (np.array([1, 0, 4]), 1, [[0], [], [1, 2, 3, 4]]),
        (None, 1, [[0], [1], [2], [3], [4]]),
        (None, 0, [0, 1, 2, 3, 4]),
    ],
)
def test_split(split: Tensor | None, keepdims: int, expected: list[Any]) -> None:
    x = np.arange(5)
    found = run_op("SplitToSequence", x, split, keepdims=keepdims)
    assert values(found) == expected
    assert not any(np.may_share_memory(part, x) for part in found)


@pytest.mark.parametrize(
    ("split", "problem"),
    [
        (np.array([2, 2]), r"parts of lengths \(2, 2\) do not make up an axis of size 5"),
        (position(0), "parts have a positive length, not 0"),
    ],
)
def test_split_that_does_not_fit_is_an_error(split: Tensor, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        run_op("SplitToSequence", np.arange(5), split)


def test_concat_stacks_along_a_new_axis() -> None:
    assert run_op("ConcatFromSequence", SEQUENCE, axis=-1, new_axis=1).tolist() == [[1, 2, 3]]
    assert run_op("ConcatFromSequence", SEQUENCE, axis=0).tolist() == [1, 2, 3]


def test_concat_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="an empty sequence cannot be concatenated"):
        run_op("ConcatFromSequence", [], axis=0)


def test_concat_asks_before_it_allocates() -> None:
    element = np.zeros(1000)
    with pytest.raises(LimitExceededError):
        run_op("ConcatFromSequence", [element] * 1000, axis=0, limit_nbytes=1_000_000)


def test_length_and_emptiness() -> None:
    assert run_op("SequenceLength", SEQUENCE).item() == 3
    assert run_op("SequenceEmpty") == []


def test_optional_without_element() -> None:
    assert run_op("OptionalHasElement", None).item() is False
    assert run_op("OptionalHasElement", np.zeros(1)).item() is True
    with pytest.raises(ValueError, match="the optional has no element to get"):
        run_op("OptionalGetElement", None)
