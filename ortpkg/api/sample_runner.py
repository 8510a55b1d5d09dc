"""Runs a package's own samples: are the outputs what the package expects, how right are they, how long do they take?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ortpkg.api.array_files import read_npz
from ortpkg.errors import PackageFormatError, quoted
from ortpkg.package.documents import read_document
from ortpkg.package.samples import Display, DisplayKind, SampleSet, Tolerance

Array = npt.NDArray[Any]

#: What an output may differ by where the samples do not say: float32 rounding over a few hundred operations.
DEFAULT_TOLERANCE = Tolerance(absolute=1e-4, relative=1e-3)
_MOST_SHOWN_VALUES = 6


class RunnableSession(Protocol):
    """What the runner needs of a session or pipeline."""

    def run(self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None) -> list[Any]: ...
    def get_inputs(self) -> Any: ...
    def get_outputs(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResult:
    """What came out of one sample.

    Attributes:
        index: which sample of the set.
        shown: the displayed output, as text.
        label: the right answer as text, or None where there is none.
        latency_s: of its run; runs that carry several samples are divided by their number.
        is_expected: whether all outputs are within tolerance; None where the package expects nothing in particular.
    """

    index: int
    shown: str
    label: str | None
    latency_s: float
    is_expected: bool | None

    @property
    def is_right(self) -> bool | None:
        return None if self.label is None else self.shown == self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReport:
    """What came out of a sample set.

    Attributes:
        sample_set: what was run.
        results: one per sample, in order.
        errors: output → the largest absolute difference from what the package expects.
        tolerances: output → the tolerance that was applied.
    """

    sample_set: SampleSet
    results: tuple[SampleResult, ...]
    errors: Mapping[str, float] = field(default_factory=dict)
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)

    @property
    def matches(self) -> bool | None:
        """Whether every output is what the package expects; None where it expects nothing in particular."""
        judged = [result.is_expected for result in self.results if result.is_expected is not None]
        return all(judged) if judged else None

    @property
    def labelled(self) -> int:
        return sum(result.label is not None for result in self.results)

    @property
    def right(self) -> int:
        return sum(result.is_right is True for result in self.results)

    @property
    def median_latency_s(self) -> float:
        return float(np.median([result.latency_s for result in self.results])) if self.results else 0.0


def run_samples(
    session: RunnableSession, sample_set: SampleSet, *, variant: str | None = None, run_options: Any = None
) -> SampleReport:
    """Runs every sample of ``sample_set``, one at a time where the model allows, else as many as its batch is fixed to.

    Raises:
        UsageError: a file of the samples cannot be read.
        PackageFormatError: the samples do not fit together (lengths differ, labels or outputs are missing).
        SessionError: a run failed.
    """
    inputs = read_npz(sample_set.inputs)
    expected = read_npz(sample_set.expected_outputs) if sample_set.expected_outputs else {}
    names = [argument.name for argument in session.get_outputs()]
    expected = {name: array for name, array in expected.items() if name in names}
    tolerances = {name: sample_set.tolerance(name, variant=variant) or DEFAULT_TOLERANCE for name in expected}
    count = _sample_count(sample_set, inputs, expected)
    labels = _labels(sample_set, count)
    presenter = _Presenter(sample_set, names)
    first = next((dict(feed) for _, feed in _feeds(session, sample_set, inputs, count)), None)
    if first is not None:
        session.run(None, first, run_options)  # a first run lays out memory; it is not what later runs take

    results: list[SampleResult] = []
    errors = dict.fromkeys(expected, 0.0)
    for indices, feed in _feeds(session, sample_set, inputs, count):
        start = time.perf_counter()
        outputs = dict(zip(names, session.run(None, feed, run_options), strict=True))
        latency_s = (time.perf_counter() - start) / len(indices)
        for place, index in enumerate(indices):
            own = {n: _one(value, place, sample_set) for n, value in outputs.items()}
            wanted = {n: _one(value, index, sample_set) for n, value in expected.items()}
            for name, array in wanted.items():
                errors[name] = max(errors[name], largest_difference(own[name], array))
            fits = [is_within(own[name], array, tolerances[name]) for name, array in wanted.items()]
            results.append(
                SampleResult(
                    index=index,
                    shown=presenter.text(own),
                    label=None if labels is None else presenter.label(labels[index]),
                    latency_s=latency_s,
                    is_expected=all(fits) if fits else None,
                )
            )
    return SampleReport(sample_set=sample_set, results=tuple(results), errors=errors, tolerances=tolerances)


def present(sample_set: SampleSet, outputs: Mapping[str, Any]) -> list[str]:
    """Outputs of the caller's own run as ``sample_set`` displays its samples: a text per sample."""
    presenter = _Presenter(sample_set, list(outputs))
    if sample_set.batch_axis is None:
        return [presenter.text(outputs)]
    count = min(len(np.atleast_1d(value)) for value in outputs.values())
    return [
        presenter.text({name: _one(value, place, sample_set) for name, value in outputs.items()})
        for place in range(count)
    ]


def is_within(actual: Any, expected: Array, tolerance: Tolerance) -> bool:
    """Whether shapes agree and every element is within tolerance; NaN agrees with NaN only."""
    array = np.asarray(actual)
    if array.shape != expected.shape:
        return False
    if array.dtype.kind not in "fciub" or expected.dtype.kind not in "fciub":
        return bool(np.array_equal(array.astype(str), expected.astype(str)))
    return bool(np.allclose(array, expected, rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True))


def largest_difference(actual: Any, expected: Array) -> float:
    """The largest absolute difference; infinite where shapes differ or only one of two elements is NaN."""
    array = np.asarray(actual)
    if array.shape != expected.shape:
        return float("inf")
    if array.dtype.kind not in "fciub" or expected.dtype.kind not in "fciub":
        return 0.0 if np.array_equal(array.astype(str), expected.astype(str)) else float("inf")
    with np.errstate(all="ignore"):
        difference = np.abs(array.astype(np.float64) - expected.astype(np.float64))
    difference[(array == expected) | (np.isnan(array) & np.isnan(expected))] = 0.0
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0))


def _sample_count(sample_set: SampleSet, inputs: Mapping[str, Array], expected: Mapping[str, Array]) -> int:
    if sample_set.batch_axis is None:
        return 1
    lengths = {array.shape[0] if array.ndim else None for array in (*inputs.values(), *expected.values())}
    if len(lengths) != 1 or None in lengths:
        raise PackageFormatError(
            f"samples {quoted(sample_set.name)}: with batch_axis 0, inputs and outputs must have one leading axis "
            f"of the same length; lengths here: {sorted(str(each) for each in lengths)}",
            path=sample_set.inputs,
        )
    return int(next(iter(lengths)) or 0)


def _labels(sample_set: SampleSet, count: int) -> Array | None:
    if sample_set.labels is None:
        return None
    arrays = read_npz(sample_set.labels.file)
    labels = arrays.get(sample_set.labels.name)
    if labels is None or labels.ndim == 0 or len(labels) < count:
        raise PackageFormatError(
            f"samples {quoted(sample_set.name)}: {sample_set.labels.file.name} has no array "
            f"{quoted(sample_set.labels.name)} with {count} labels",
            path=sample_set.labels.file,
        )
    return labels


def _feeds(
    session: RunnableSession, sample_set: SampleSet, inputs: Mapping[str, Array], count: int
) -> Iterator[tuple[list[int], dict[str, Array]]]:
    """Sample indices with the feed that carries them; a last, incomplete batch repeats its last sample."""
    if sample_set.batch_axis is None:
        yield [0], dict(inputs)
        return
    fixed = [argument.shape[0] for argument in session.get_inputs() if argument.shape]
    size = max((each for each in fixed if isinstance(each, int)), default=1)
    for start in range(0, count, size):
        indices = list(range(start, min(start + size, count)))
        padded = indices + [indices[-1]] * (size - len(indices))
        yield indices, {name: array[padded] for name, array in inputs.items()}


def _one(value: Any, place: int, sample_set: SampleSet) -> Any:
    """Sample ``place`` of an output that carries several."""
    return value if sample_set.batch_axis is None else np.asarray(value)[place]


class _Presenter:
    """Turns outputs and labels into text, as the samples' ``display`` says."""

    def __init__(self, sample_set: SampleSet, output_names: list[str]) -> None:
        self._display = sample_set.display or Display(output=output_names[0], kind=DisplayKind.TENSOR)
        if self._display.output not in output_names:
            raise PackageFormatError(
                f"samples {quoted(sample_set.name)} display the output {quoted(self._display.output)}, "
                f"which the model does not have",
                path=sample_set.inputs,
            )
        self._vocabulary: Mapping[str, Any] = {}
        if self._display.vocabulary is not None:
            self._vocabulary = read_document(self._display.vocabulary)

    def text(self, outputs: Mapping[str, Any]) -> str:
        value = np.asarray(outputs[self._display.output])
        if self._display.kind is DisplayKind.CLASS:
            return self._class_name(int(np.argmax(value))) if value.size else ""
        if self._display.kind is DisplayKind.TEXT:
            return "".join(self._word(int(token)) for token in value.ravel())
        flat = value.ravel()[:_MOST_SHOWN_VALUES]
        shown = ", ".join(f"{each:.4g}" if value.dtype.kind in "fc" else str(each) for each in flat)
        return f"[{shown}{', ...' if value.size > _MOST_SHOWN_VALUES else ''}] {value.dtype} {list(value.shape)}"

    def label(self, label: Any) -> str:
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
