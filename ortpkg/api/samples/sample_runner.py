"""Run a package's samples: compare outputs, measure errors and latency."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.arrays.array_files import read_npz
from ortpkg.foundations.documents.json_documents import read_document
from ortpkg.foundations.errors import PackageError, PackageFormatError, UsageError, quoted
from ortpkg.package.formats.samples import (
    Display,
    DisplayKind,
    SampleSet,
    TaskKind,
    Tolerance,
)
from ortpkg.runtime.pipelines.run_limits import SharedRunOptions
from ortpkg.runtime.session.options import RunOptions
from ortpkg.selection.matching.variant_facts import Precision
from ortpkg.selection.measuring.accuracy import default_tolerance, is_within, largest_difference
from ortpkg.selection.measuring.output_variation import variation_fault
from ortpkg.selection.measuring.task_check import TaskResult, check_answers, check_task

Array = npt.NDArray[Any]

_MOST_SHOWN_VALUES = 6
_MOST_SHOWN_WORDS = 10_000
_MOST_SHOWN_CHARACTERS = 200


class RunnableSession(Protocol):
    """Session or pipeline that the runner can use."""

    def run(
        self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Run the model, like :meth:`InferenceSession.run`."""

    def get_inputs(self) -> Any:
        """Return the inputs, in order; each has ``name`` and ``shape``."""

    def get_outputs(self) -> Any:
        """Return the outputs, in order; each has ``name``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResult:
    """Result of one sample.

    Attributes:
        index: of the sample in the set.
        shown: the displayed output, as text.
        label: the right answer as text; None if unknown.
        latency_s: time of its run, divided by the number of samples in the run.
        is_expected: True if all outputs are within tolerance; None if the package expects nothing.
    """

    index: int
    shown: str
    label: str | None
    latency_s: float
    is_expected: bool | None

    @property
    def is_right(self) -> bool | None:
        """True if the displayed output is the right answer; None if no answer is known."""
        return None if self.label is None else self.shown == self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReport:
    """Results of running a sample set.

    Attributes:
        sample_set: the set.
        results: one per sample, in order.
        errors: output → the largest absolute difference from the expected one.
        tolerances: output → the tolerance that was applied.
        task: result of comparing answers, if these decide for an output; None otherwise.
        are_others_expected: True if all other outputs are within tolerance; None if there are none.
        outputs: output → actual values, samples along the leading axis (a list if their shapes
            differ); empty unless requested.
        faults: outputs of int8 and int4 that vary otherwise than expected from sample to sample,
            though each sample is within its tolerance; in words, with error and limit.
    """

    sample_set: SampleSet
    results: tuple[SampleResult, ...]
    errors: Mapping[str, float] = field(default_factory=dict)
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    task: TaskResult | None = None
    are_others_expected: bool | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    @property
    def matches(self) -> bool | None:
        """True if every output is as the package expects.

        If answers decide, as many of them may differ as the package allows. None if the package
        expects nothing.
        """
        if self.faults:
            return False
        if self.task is not None:
            return self.task.is_within is not False and self.are_others_expected is not False
        judged = [result.is_expected for result in self.results if result.is_expected is not None]
        return all(judged) if judged else None

    @property
    def labelled(self) -> int:
        """Number of samples with a right answer."""
        return sum(result.label is not None for result in self.results)

    @property
    def right(self) -> int:
        """Number of samples that were answered rightly."""
        return sum(result.is_right is True for result in self.results)

    @property
    def median_latency_s(self) -> float:
        """Median latency of one sample, in seconds; 0 without samples."""
        return (
            float(np.median([result.latency_s for result in self.results])) if self.results else 0.0
        )


def run_samples(
    session: RunnableSession,
    sample_set: SampleSet,
    *,
    variant: str | None = None,
    precision: Precision | None = None,
    run_options: Any = None,
    keep_outputs: bool = False,
) -> SampleReport:
    """Run every sample of ``sample_set``: one at a time, or as many as the model's batch holds.

    Args:
        session: runs the samples.
        sample_set: the samples.
        variant: the variant whose tolerances apply.
        precision: in which the variant computes, for outputs without a stated tolerance.
        run_options: their ``timeout_s`` applies to all samples together, and to a first run that is
            not counted. Pass :class:`SharedRunOptions` to share it between several sets.
        keep_outputs: return the outputs too.

    Raises:
        PackageError: a file of the samples cannot be read.
        PackageFormatError: the samples do not fit together, or not the model.
        LimitExceededError: the samples take longer than allowed.
        SessionError: a run failed.
    """
    limits = SharedRunOptions.of(RunOptions() if run_options is None else run_options)
    inputs = _read(sample_set.inputs)
    names = [argument.name for argument in session.get_outputs()]
    expected = _expected(sample_set, names)
    count = _sample_count(sample_set, inputs, expected)
    judge = _Judge(sample_set, names, expected, count, variant, precision)

    results: list[SampleResult] = []
    kept_values: dict[str, list[Any]] = {name: [] for name in names}
    is_batched = sample_set.batch_axis is not None
    with limits.whole_time():
        first = next((dict(feed) for _, feed in _feeds(session, sample_set, inputs, count)), None)
        if first is not None:
            # the first run allocates memory and is slower than later ones
            session.run(None, first, limits)
        for indices, feed in _feeds(session, sample_set, inputs, count):
            limits.check()
            start = time.perf_counter()
            outputs = dict(zip(names, session.run(None, feed, limits), strict=True))
            latency_s = (time.perf_counter() - start) / len(indices)
            rows = next((len(array) for array in feed.values()), 0) if is_batched else None
            for position, index in enumerate(indices):
                sample_outputs = {
                    name: _sample_of(name, value, position, sample_set, rows)
                    for name, value in outputs.items()
                }
                for name in names:
                    if keep_outputs or (judge.task is not None and name == judge.task.output):
                        kept_values[name].append(sample_outputs[name])
                results.append(judge.result(index, sample_outputs, latency_s))
    return SampleReport(
        sample_set=sample_set,
        results=tuple(results),
        errors=judge.errors,
        tolerances=judge.tolerances,
        task=judge.task_result(kept_values),
        are_others_expected=judge.are_others_expected,
        outputs=(
            {name: _joined(values, sample_set) for name, values in kept_values.items()}
            if keep_outputs
            else {}
        ),
        faults=judge.faults(),
    )


def present(sample_set: SampleSet, outputs: Mapping[str, Any]) -> list[str]:
    """Return the displayed text of each sample in outputs of the caller's own run.

    ``sample_set`` decides how outputs are displayed.
    """
    presenter = _Presenter(sample_set, list(outputs))
    if sample_set.batch_axis is None:
        return [presenter.text(outputs)]
    count = min(len(np.atleast_1d(value)) for value in outputs.values())
    return [
        presenter.text(
            {name: _sample_of(name, value, position, sample_set) for name, value in outputs.items()}
        )
        for position in range(count)
    ]


def _read(path: Path) -> dict[str, Array]:
    try:
        return read_npz(path)
    except UsageError as error:  # the file belongs to the package, not to the caller
        raise PackageError(f"samples: {error}", path=path) from error


def _misfit(sample_set: SampleSet, message: str, path: Path | None = None) -> PackageFormatError:
    return PackageFormatError(
        f"samples {quoted(sample_set.name)}: {message}", path=path or sample_set.inputs
    )


def _expected(sample_set: SampleSet, names: list[str]) -> dict[str, Array]:
    """Return the outputs that the package expects; {} if it expects nothing."""
    expected = _read(sample_set.expected_outputs) if sample_set.expected_outputs else {}
    for name in expected:
        if name not in names:
            raise _misfit(
                sample_set, f"they expect the output {quoted(name)}, which the model does not have"
            )
    return expected


def _sample_count(
    sample_set: SampleSet, inputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> int:
    if sample_set.batch_axis is None:
        return 1
    lengths = {
        array.shape[0] if array.ndim else None for array in (*inputs.values(), *expected.values())
    }
    if len(lengths) != 1 or None in lengths:
        raise _misfit(
            sample_set,
            "with batch_axis 0, inputs and outputs must have one leading axis of the same length; "
            f"lengths here: {', '.join(sorted(str(length) for length in lengths)) or 'none'}",
        )
    return int(next(iter(lengths)) or 0)


def _labels(sample_set: SampleSet, count: int) -> Array | None:
    if sample_set.labels is None:
        return None
    labels = _read(sample_set.labels.file).get(sample_set.labels.name)
    if labels is None or labels.ndim != 1 or len(labels) != count:
        have = "none of that name" if labels is None else f"an array of shape {list(labels.shape)}"
        raise _misfit(
            sample_set,
            f"{quoted(sample_set.labels.file.name)} needs an array {quoted(sample_set.labels.name)}"
            f" of {count} labels, one per sample; it has {have}",
            sample_set.labels.file,
        )
    return labels


def _feeds(
    session: RunnableSession, sample_set: SampleSet, inputs: Mapping[str, Array], count: int
) -> Iterator[tuple[list[int], dict[str, Array]]]:
    """Yield sample indices with the feed that carries them.

    A last, incomplete batch repeats its last sample.
    """
    if sample_set.batch_axis is None:
        yield [0], dict(inputs)
        return
    fixed = [argument.shape[0] for argument in session.get_inputs() if argument.shape]
    size = max((length for length in fixed if isinstance(length, int) and length > 0), default=1)
    for start in range(0, count, size):
        indices = list(range(start, min(start + size, count)))
        padded = indices + [indices[-1]] * (size - len(indices))
        yield indices, {name: array[padded] for name, array in inputs.items()}


def _sample_of(
    name: str, value: Any, index: int, sample_set: SampleSet, rows: int | None = None
) -> Any:
    """Return sample ``index`` of an output that carries several.

    ``rows`` is the number of samples in the feed, if known; another number of entries are not
    samples, e.g. objects that a detector found.
    """
    if sample_set.batch_axis is None:
        return value
    if (
        not isinstance(value, np.ndarray)
        or value.ndim == 0
        or len(value) <= index
        or rows not in {None, len(value)}
    ):
        problem = (
            f"has the shape {list(np.shape(value))}"
            if isinstance(value, np.ndarray)
            else "is no tensor"
        )
        raise _misfit(
            sample_set,
            "with batch_axis 0, outputs have samples in their leading axis;"
            f" {quoted(name)} {problem}",
        )
    return value[index]


def _joined(values: list[Any], sample_set: SampleSet) -> Any:
    if sample_set.batch_axis is None:
        return values[0]
    is_one = len({(np.shape(value), np.asarray(value).dtype) for value in values}) == 1
    return np.stack(values) if is_one else values


class _Judge:
    """Comparison of each sample's outputs with the expected ones."""

    def __init__(
        self,
        sample_set: SampleSet,
        names: list[str],
        expected: Mapping[str, Array],
        count: int,
        variant: str | None,
        precision: Precision | None,
    ) -> None:
        self.tolerances = {
            name: sample_set.tolerance(name, variant=variant) or default_tolerance(array, precision)
            for name, array in expected.items()
        }
        task = sample_set.task_of(variant)
        check_answers(sample_set, [task], expected)
        self.task = task if task is not None and task.output in expected else None
        self.are_others_expected: bool | None = None
        self.errors = dict.fromkeys(expected, 0.0)  # output -> the largest difference until now
        self._precision = precision
        #: Output that is judged by the precision → actual and expected rows of its samples.
        self._rows: dict[str, list[tuple[Any, Array]]] = {
            name: []
            for name in expected
            if sample_set.tolerance(name, variant=variant) is None
            and (self.task is None or name != self.task.output)
            and precision in {Precision.INT8, Precision.INT4}
        }
        self._sample_set = sample_set
        self._expected = expected
        self._labels = _labels(sample_set, count)
        self._presenter = _Presenter(sample_set, names)

    def result(self, index: int, outputs: Mapping[str, Any], latency_s: float) -> SampleResult:
        """Return the result of sample ``index`` from its own outputs."""
        expected = {
            name: _sample_of(name, value, index, self._sample_set)
            for name, value in self._expected.items()
        }
        for name, array in expected.items():
            self.errors[name] = max(self.errors[name], largest_difference(outputs[name], array))
            if name in self._rows:
                self._rows[name].append((self._row(outputs[name]), self._row(array)))
        are_within = [
            is_within(outputs[name], array, self.tolerances[name])
            for name, array in expected.items()
            if self.task is None or name != self.task.output
        ]
        if are_within:
            self.are_others_expected = self.are_others_expected is not False and all(are_within)
        fits = (
            are_within
            if self.task is None
            else [*are_within, self._has_same_answer(outputs, expected)]
        )
        return SampleResult(
            index=index,
            shown=self._presenter.text(outputs),
            label=None if self._labels is None else self._presenter.label(self._labels[index]),
            latency_s=latency_s,
            is_expected=all(fits) if fits else None,
        )

    def _has_same_answer(self, outputs: Mapping[str, Any], expected: Mapping[str, Array]) -> bool:
        """Compare one sample's answer; the order of neighbours needs all samples together."""
        assert self.task is not None
        if self.task.kind is TaskKind.NEIGHBOURS:
            return True
        name = self.task.output
        return not any(check_task(self.task, [outputs[name]], [expected[name]]).differs)

    def _row(self, value: Any) -> Any:
        """Return a sample's value as a row; whole feeds have rows of their own."""
        is_sample = self._sample_set.batch_axis is not None
        return np.asarray(value)[np.newaxis] if is_sample else value

    def faults(self) -> tuple[str, ...]:
        """Return how outputs of all samples vary otherwise than expected, one text each."""
        faults = [
            variation_fault(
                name, [actual for actual, _ in rows], [row for _, row in rows], self._precision
            )
            for name, rows in self._rows.items()
        ]
        return tuple(fault for fault in faults if fault)

    def task_result(self, values: Mapping[str, Sequence[Any]]) -> TaskResult | None:
        """Return the result of all answers; ``values`` has the task's output of each sample."""
        if self.task is None:
            return None
        name, expected = self.task.output, self._expected[self.task.output]
        rows = [
            _sample_of(name, expected, index, self._sample_set)
            for index in range(len(values[name]))
        ]
        return check_task(self.task, values[name], rows)


class _Presenter:
    """Conversion of outputs and labels to text, according to the samples' ``display``."""

    def __init__(self, sample_set: SampleSet, output_names: list[str]) -> None:
        self._display = sample_set.display or Display(
            output=output_names[0], kind=DisplayKind.TENSOR
        )
        if self._display.output not in output_names:
            raise _misfit(
                sample_set,
                f"they display the output {quoted(self._display.output)}, which the model does not"
                " have",
            )
        self._vocabulary: Mapping[str, Any] = {}
        if self._display.vocabulary is not None:
            self._vocabulary = read_document(self._display.vocabulary)

    def text(self, outputs: Mapping[str, Any]) -> str:
        """Return an output as text: a class, a text, or its first numbers."""
        value = outputs[self._display.output]
        if not isinstance(value, np.ndarray | np.generic):
            return repr(value)[:_MOST_SHOWN_CHARACTERS]
        value = np.asarray(value)
        if self._display.kind is DisplayKind.CLASS and value.size:
            return self._class_text(value)
        if self._display.kind is DisplayKind.TEXT and value.dtype.kind in "iubOU":
            words = value.ravel()[:_MOST_SHOWN_WORDS]
            return "".join(
                str(word) if value.dtype.kind in "OU" else self._word(int(word)) for word in words
            )
        flat = value.ravel()[:_MOST_SHOWN_VALUES]
        shown = ", ".join(
            f"{number:.4g}" if value.dtype.kind in "fc" else str(number) for number in flat
        )
        return (
            f"[{shown}{', ...' if value.size > _MOST_SHOWN_VALUES else ''}] {value.dtype}"
            f" {list(value.shape)}"
        )

    def _class_text(self, value: Array) -> str:
        """Return the most likely class; a single whole number or text is the class itself."""
        if value.size == 1 and value.dtype.kind in "OU":
            return str(value.item())
        if value.size == 1 and value.dtype.kind in "iu":
            return self._class_name(int(value.item()))
        return self._class_name(int(np.argmax(value)))

    def label(self, label: Any) -> str:
        """Return a label as text: the class of that number, or the label itself."""
        if self._display.kind is DisplayKind.CLASS and np.asarray(label).dtype.kind in "iu":
            return self._class_name(int(label))
        return str(label)

    def _class_name(self, index: int) -> str:
        classes = self._display.classes
        return classes[index] if classes is not None and 0 <= index < len(classes) else str(index)

    def _word(self, token: int) -> str:
        words = self._vocabulary.get("words")
        if isinstance(words, list) and 0 <= token < len(words):
            return str(words[token])
        return str(self._vocabulary.get(str(token), "\N{REPLACEMENT CHARACTER}"))
