"""Check whether outputs lead to the expected answers, however their numbers differ.

A model in 8-bit integers may be off by several percent and still name the same class for every
sample. A package may state that as its tolerance (samples.json, ``task``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import PackageFormatError, quoted
from ortpkg.package.formats.samples import SampleSet, TaskKind, TaskTolerance
from ortpkg.package.formats.task_shapes import LEAST_NEIGHBOURS, why_no_answers

Array = npt.NDArray[Any]

#: Number of nearest neighbours that must be in the same order.
NEIGHBOURS = 3
_DIFFERS = {
    TaskKind.CLASS: "another top class",
    TaskKind.NEIGHBOURS: "another order of nearest neighbours",
    TaskKind.TEXT: "another text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """Result of comparing answers.

    Attributes:
        task: the task whose answers were compared.
        differs: True for each answer that differs.
    """

    task: TaskTolerance
    differs: tuple[bool, ...]

    @property
    def wrong(self) -> int:
        """Number of answers that differ."""
        return sum(self.differs)

    @property
    def is_within(self) -> bool | None:
        """True if few enough answers differ.

        None if there are no answers, or so few that one wrong one says nothing about the rate.
        """
        allowed = self.task.error_rate * len(self.differs)
        if self.wrong <= allowed:
            return True if self.differs else None
        return None if 0 < allowed < 1 and self.wrong == 1 else False

    @property
    def text(self) -> str:
        """One line for people: how many answers differ, and how many may."""
        count = len(self.differs)
        return (
            f"{quoted(self.task.output)} has {_DIFFERS[self.task.kind]} for {self.wrong} of {count}"
            f" samples ({self.wrong / max(count, 1):.1%}; at most {self.task.error_rate:.1%} may"
            " differ)"
        )


def check_answers(
    sample_set: SampleSet, tasks: Iterable[TaskTolerance | None], expected: Mapping[str, Array]
) -> None:
    """Raise PackageFormatError for a task without answers in any output that the samples expect."""
    for task in tasks:
        if task is None or task.output not in expected:
            continue
        array = expected[task.output]
        reason = why_no_answers(
            task.kind,
            array.dtype.kind,
            array.shape,
            is_batched=sample_set.batch_axis is not None,
        )
        if reason:
            raise PackageFormatError(
                f"samples {quoted(sample_set.name)}: the task compares {task.kind.value}, and"
                f" output {quoted(task.output)} {reason}",
                path=sample_set.expected_outputs,
            )


def check_task(task: TaskTolerance, actual: Sequence[Any], expected: Sequence[Array]) -> TaskResult:
    """Compare the answers of outputs.

    Args:
        task: the output, the kind of its answer, and how many may differ.
        actual, expected: the output of each run, samples along the leading axis if it has one; a
            run without such an output, or with another shape, has only wrong answers.
    """
    pairs = [
        (_like(array, expected_array), expected_array)
        for array, expected_array in zip(actual, expected, strict=True)
    ]
    if task.kind is TaskKind.NEIGHBOURS:
        return TaskResult(task=task, differs=tuple(_other_neighbours(pairs)))
    answers = _top_classes if task.kind is TaskKind.CLASS else _rows
    differs: list[bool] = []
    for array, expected_array in pairs:
        expected_answers = answers(expected_array)
        if array is None:
            differs += [True] * len(expected_answers)
            continue
        differs += [
            not np.array_equal(answer, expected_answer)
            for answer, expected_answer in zip(answers(array), expected_answers, strict=True)
        ]
    return TaskResult(task=task, differs=tuple(differs))


def _like(actual: Any, expected: Array) -> Array | None:
    array = None if actual is None else np.asarray(actual)
    return array if array is not None and array.shape == expected.shape else None


def _top_classes(array: Array) -> list[Any]:
    """Return the index of the largest score along the last axis.

    A number without scores is a class.

    -1 if a score is NaN.
    """
    if array.ndim == 0 or array.dtype.kind not in "fiu" or array.shape[-1] == 0:
        return list(array.ravel())
    if array.dtype.kind in "iu":
        return list(array.ravel())
    return list(np.where(np.isnan(array).any(axis=-1), -1, np.argmax(array, axis=-1)).ravel())


def _rows(array: Array) -> list[Any]:
    """Return texts or tokens, one for each sample along the leading axis."""
    return list(array) if array.ndim > 1 else [array]


def _other_neighbours(pairs: Sequence[tuple[Array | None, Array]]) -> list[bool]:
    """Return, for each row, True if its nearest other rows, by cosine, are in another order."""
    if any(array is None for array, _ in pairs):
        return [True] * sum(len(_vectors(expected)) for _, expected in pairs)
    if not pairs:
        return []
    vectors = np.concatenate([_vectors(array) for array, _ in pairs if array is not None])
    expected_vectors = np.concatenate([_vectors(expected) for _, expected in pairs])
    if len(expected_vectors) < LEAST_NEIGHBOURS:
        return []
    nearest = zip(_nearest(vectors), _nearest(expected_vectors), strict=True)
    is_lost = np.isnan(vectors).any(axis=1) & ~np.isnan(expected_vectors).any(axis=1)
    return [
        bool(lost) or not np.array_equal(order, expected)
        for lost, (order, expected) in zip(is_lost, nearest, strict=True)
    ]


def _vectors(array: Array) -> Array:
    wide = np.asarray(array, dtype=np.float64)
    return wide.reshape(1, -1) if wide.ndim < 2 else wide.reshape(len(wide), -1)


def _nearest(vectors: Array) -> Array:
    """Return the indices of the nearest other vectors of each, the nearest first."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths == 0, 1, lengths)
    similar = unit @ unit.T
    np.fill_diagonal(similar, -np.inf)
    order = np.argsort(-similar, axis=1, kind="stable")
    return order[:, : min(NEIGHBOURS, len(vectors) - 1)]
