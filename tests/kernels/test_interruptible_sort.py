"""Sorting that ends where its run ends, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels import interruptible_sort, sorting
from ortpkg.runtime.kernels.interruptible_sort import sorted_with_indices, unique_elements
from tests.kernels.node_runner import RunContext, run_op

_NUMBERS = st.sampled_from([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, 1.5, -2.0, 7.0])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptible_sort, "SORTED_AT_ONCE", 4)
    monkeypatch.setattr(sorting, "SORTED_AT_ONCE", 4)


@settings(max_examples=200, deadline=None)
@given(arrays.arrays(np.float32, st.integers(0, 50), elements=_NUMBERS.map(np.float32)))
def test_long_lists_are_sorted_as_numpy_does(values: np.ndarray) -> None:
    ordered, places = sorted_with_indices(RunContext(), values)

    np.testing.assert_array_equal(places, np.argsort(values, kind="stable"))
    np.testing.assert_array_equal(ordered, values[places])


@settings(max_examples=200, deadline=None)
@given(arrays.arrays(np.float32, st.integers(0, 50), elements=_NUMBERS.map(np.float32)))
def test_unique_elements_are_those_of_numpy(values: np.ndarray) -> None:
    expected = np.unique(values, return_index=True, return_inverse=True, return_counts=True)

    for ours, theirs in zip(unique_elements(RunContext(), values), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class _EndsSoon(RunContext):
    """A run whose time is up after some questions."""

    left = 20

    def check_cancelled(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LimitExceededError("the run passed its time limit", limit="time")


def test_a_sort_ends_in_the_middle() -> None:
    with pytest.raises(LimitExceededError, match="the run passed its time limit"):
        sorted_with_indices(_EndsSoon(), np.arange(1000.0)[::-1])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_of_lines_that_are_sorted_in_blocks(axis: int, largest: int) -> None:
    x = np.random.default_rng(1).integers(0, 5, (3, 11, 6)).astype(np.float32)
    k = 3

    values, indices = run_op("TopK", x, np.array([k]), outputs=2, axis=axis, largest=largest)

    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    expected = np.take(order, range(k), axis=axis)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis=axis))
