"""Answers in place of numbers: the same class, the same neighbours, the same text."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.package.formats.samples import TaskKind, TaskTolerance
from ortpkg.selection.measuring.task_check import check_task

_LOGITS = np.array([[0.1, 2.0, 0.3], [3.0, 0.2, 0.1], [0.0, 0.1, 0.2]], np.float32)


def _task(kind: TaskKind, error_rate: float = 0.0) -> TaskTolerance:
    return TaskTolerance(output="y", kind=kind, error_rate=error_rate)


def test_the_same_top_classes_are_the_same_answers_however_far_off() -> None:
    found = check_task(_task(TaskKind.CLASS), [_LOGITS * 7 + 1], [_LOGITS])
    assert (found.differs, found.is_within) == ((False, False, False), True)


@pytest.mark.parametrize(
    ("error_rate", "is_within"), [(0.0, False), (0.34, True), (0.2, None), (0.01, None)]
)
def test_as_many_answers_may_differ_as_the_error_rate_says(
    error_rate: float, is_within: bool | None
) -> None:
    """One of three; where not even one may differ of so few, one wrong one says nothing."""
    other = _LOGITS.copy()
    other[1, 2] = 9
    found = check_task(_task(TaskKind.CLASS, error_rate), [other], [_LOGITS])
    assert found.differs == (False, True, False)
    assert found.is_within is is_within
    assert found.text == (
        f"'y' has another top class for 1 of 3 samples (33.3%; at most {error_rate:.1%} may differ)"
    )


def test_two_wrong_answers_of_three_are_too_many_for_a_small_rate() -> None:
    other = _LOGITS[[1, 2, 2]]
    assert check_task(_task(TaskKind.CLASS, 0.02), [other], [_LOGITS]).is_within is False


def test_classes_that_are_numbers_are_compared_as_such() -> None:
    found = check_task(_task(TaskKind.CLASS), [np.array([4, 5])], [np.array([4, 6])])
    assert found.differs == (False, True)


def test_nan_is_no_answer() -> None:
    other = _LOGITS.copy()
    other[1, 2] = np.nan
    found = check_task(_task(TaskKind.CLASS), [other], [_LOGITS])
    assert found.differs == (False, True, False)
    lost = check_task(_task(TaskKind.NEIGHBOURS), [np.full((4, 4), np.nan)], [np.eye(4)])
    assert lost.is_within is False


def test_texts_and_tokens_are_compared_one_sample_at_a_time() -> None:
    wanted = np.array([["a", "b"], ["c", "d"]])
    other = np.array([["a", "b"], ["c", "x"]])
    assert check_task(_task(TaskKind.TEXT), [other], [wanted]).differs == (False, True)
    assert check_task(_task(TaskKind.TEXT), [np.array([1, 2])], [np.array([1, 2])]).is_within


def test_neighbours_keep_their_order_under_noise_and_lose_it_under_nonsense() -> None:
    random = np.random.default_rng(1)
    vectors = np.concatenate([np.eye(6), np.eye(6)[:3] + 0.2]).astype(np.float32)
    vectors += random.normal(size=vectors.shape).astype(np.float32) * 0.3
    halves = [vectors[:5], vectors[5:]]
    noisy = [each * 3 + 0.0001 for each in halves]
    found = check_task(_task(TaskKind.NEIGHBOURS), noisy, halves)
    assert (len(found.differs), found.is_within) == (9, True)
    mixed = [each[::-1] for each in halves]
    assert check_task(_task(TaskKind.NEIGHBOURS, 0.1), mixed, halves).is_within is False


def test_of_fewer_than_three_vectors_nobody_can_tell_an_order() -> None:
    found = check_task(_task(TaskKind.NEIGHBOURS), [np.ones((2, 4))], [np.eye(4)[:2]])
    assert (found.differs, found.is_within) == ((), None)


@pytest.mark.parametrize("kind", list(TaskKind))
def test_an_output_that_is_missing_or_of_another_shape_has_wrong_answers_alone(
    kind: TaskKind,
) -> None:
    for wrong in (None, np.ones((2, 2), np.float32)):
        found = check_task(_task(kind), [wrong], [_LOGITS])
        assert (found.wrong, found.is_within) == (3, False)
