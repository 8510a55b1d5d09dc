"""Feeds for benchmarks and canaries: a package's samples if it has some, else random values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from ortpkg.foundations.arrays.array_files import read_npz
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import PackageFormatError, quoted
from ortpkg.graph.declared_values import DeclaredValue
from ortpkg.graph.model_signature import ValueSignature, read_model_signature
from ortpkg.graph.synthetic_inputs import SEED, synthetic_feed
from ortpkg.package.formats.samples import SampleSet, TaskTolerance, Tolerance, read_samples
from ortpkg.package.package_info import PackageInfo
from ortpkg.selection.measuring.bench_candidate import BenchCandidate
from ortpkg.selection.measuring.measured_candidates import Feed, Workload
from ortpkg.selection.measuring.task_check import check_answers

Array = npt.NDArray[Any]
#: Most samples that are run and compared.
_MOST_FEEDS = 64


def component_samples(package: PackageInfo, component: str) -> tuple[SampleSet, ...]:
    """Return the sample sets for one component model by itself."""
    return tuple(
        sample_set for sample_set in read_samples(package) if sample_set.component == component
    )


def tolerances_of(samples: Sequence[SampleSet], variant: str) -> dict[str, Tolerance]:
    """Return output → tolerance for a variant; the first sample set that states one counts."""
    tolerances: dict[str, Tolerance] = {}
    for sample_set in samples:
        for output in (*sample_set.variant_tolerances.get(variant, {}), *sample_set.tolerances):
            tolerance = sample_set.tolerance(output, variant=variant)
            if tolerance is not None:
                tolerances.setdefault(output, tolerance)
    return tolerances


def tasks_of(samples: Sequence[SampleSet], variant: str) -> dict[str, TaskTolerance]:
    """Return output → task for a variant; the first sample set that states it counts."""
    tasks: dict[str, TaskTolerance] = {}
    for sample_set in samples:
        task = sample_set.task_of(variant)
        if task is not None:
            tasks.setdefault(task.output, task)
    return tasks


def sample_workload(samples: Sequence[SampleSet], inputs: Sequence[DeclaredValue]) -> Workload:
    """Return the feeds and expected outputs of the samples.

    Of several sets, only those are used that have expected outputs if the first has, or have none
    if it has none.

    Raises:
        UsageError: a file cannot be read.
        PackageFormatError: the arrays do not fit together.
    """
    feeds: list[Feed] = []
    expected: list[Feed] = []
    names: list[str] = []
    total = 0
    for sample_set in samples:
        own_feeds, own_expected, own_total = _runs_of(sample_set, batch_size(inputs))
        if names and bool(own_expected) != bool(expected):
            continue
        feeds += own_feeds
        expected += own_expected
        names.append(sample_set.name)
        total += own_total
    used = feeds[:_MOST_FEEDS]
    what = f"the first {len(used)} of {total} runs" if total > len(used) else f"{len(used)} runs"
    return Workload(
        feeds=used,
        expected=expected[:_MOST_FEEDS],
        sample_set=next(iter(names), ""),
        description=f"the package's samples {', '.join(map(quoted, names))} ({what})",
    )


def component_workload(
    package: PackageInfo,
    component: str,
    candidates: Sequence[BenchCandidate],
    *,
    sizes: Mapping[str, int] = EMPTY,
) -> Workload:
    """Return the feeds and expected outputs of the component's samples.

    Their shapes are those that all candidates accept. Without samples, random values are fed.
    """
    inputs = _inputs(candidates)
    samples = component_samples(package, component)
    if samples:
        return sample_workload(samples, inputs)
    why = f"component {quoted(component)} has no samples"
    return synthetic_workload(package, inputs, sizes=sizes, why=why)


def synthetic_workload(
    package: PackageInfo, inputs: Sequence[DeclaredValue], *, sizes: Mapping[str, int], why: str
) -> Workload:
    """Return a workload with one feed of random values; see :func:`package_feed`."""
    feed = package_feed(package, inputs, sizes=sizes)
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in feed.items())
    return Workload(
        feeds=[feed],
        has_tolerances=False,
        is_synthetic=True,
        description=f"{why}: random inputs, seed {SEED}: {shapes}",
    )


def package_feed(
    package: PackageInfo, inputs: Sequence[DeclaredValue], *, sizes: Mapping[str, int] = EMPTY
) -> dict[str, Array]:
    """Return random values in the ranges that the package states.

    See :func:`~ortpkg.graph.synthetic_inputs.synthetic_feed`.
    """
    ranges = {
        value.name: value.value_range for value in package.inputs if value.value_range is not None
    }
    return synthetic_feed(inputs, sizes=sizes, ranges=ranges)


def pipeline_feeds(
    package: PackageInfo, inputs: Sequence[DeclaredValue], *, sizes: Mapping[str, int]
) -> tuple[Sequence[Feed], str]:
    """Return the feeds for the whole pipeline, and a text on their origin."""
    samples = [sample_set for sample_set in read_samples(package) if sample_set.component is None]
    if samples:
        workload = sample_workload(samples, inputs)
    else:
        workload = synthetic_workload(
            package, inputs, sizes=sizes, why="the package has no samples for its pipeline"
        )
    return workload.feeds, workload.description


def batch_size(inputs: Sequence[DeclaredValue]) -> int:
    """Return the number of samples per run: the inputs' fixed first dimension, else 1."""
    fixed = [declared.shape[0] for declared in inputs if declared.shape]
    return max((size for size in fixed if isinstance(size, int)), default=1)


def _runs_of(sample_set: SampleSet, batch: int) -> tuple[list[Feed], list[Feed], int]:
    """Return feeds, expected outputs (or none), and the number of runs of the whole set."""
    inputs = read_npz(sample_set.inputs)
    expected = read_npz(sample_set.expected_outputs) if sample_set.expected_outputs else {}
    check_answers(sample_set, [sample_set.task, *sample_set.variant_tasks.values()], expected)
    if sample_set.batch_axis is None:
        return [inputs], [expected] if expected else [], 1
    count = _sample_count(sample_set, [*inputs.values(), *expected.values()])
    feeds: list[Feed] = []
    wanted: list[Feed] = []
    for start in range(0, min(count, _MOST_FEEDS * batch), batch):
        # a last, incomplete batch repeats its last sample
        rows = [min(row, count - 1) for row in range(start, start + batch)]
        feeds.append({name: array[rows] for name, array in inputs.items()})
        if expected:
            wanted.append({name: array[rows] for name, array in expected.items()})
    return feeds, wanted, -(-count // batch)


def _sample_count(sample_set: SampleSet, arrays: Sequence[Array]) -> int:
    lengths = {array.shape[0] if array.ndim else 0 for array in arrays}
    if len(lengths) != 1 or 0 in lengths:
        raise PackageFormatError(
            f"samples {quoted(sample_set.name)}: with batch_axis 0, inputs and outputs must have"
            f" one leading axis of the same length, at least 1; lengths here: {sorted(lengths)}",
            path=sample_set.inputs,
        )
    return lengths.pop()


def _inputs(candidates: Sequence[BenchCandidate]) -> tuple[ValueSignature, ...]:
    """Return the inputs as all variants accept them.

    A dimension that one variant fixes is fixed for all.
    """
    paths = dict.fromkeys(
        candidate.model_path for candidate in candidates if candidate.model_path is not None
    )
    signatures = [
        {value.name: value for value in read_model_signature(path).inputs} for path in paths
    ]
    return tuple(
        replace(
            value,
            shape=_fixed([signature[name].shape for signature in signatures if name in signature]),
        )
        for name, value in signatures[0].items()
    )


def _fixed(
    shapes: Sequence[Sequence[int | str | None] | None],
) -> tuple[int | str | None, ...] | None:
    first = shapes[0]
    if first is None:
        return None
    alike = [shape for shape in shapes if shape is not None and len(shape) == len(first)]
    columns = zip(*alike, strict=True)
    return tuple(
        next((size for size in column if isinstance(size, int)), column[0]) for column in columns
    )
