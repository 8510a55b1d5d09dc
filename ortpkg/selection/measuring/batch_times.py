"""Duration of runs of several rows, by which servers and batch jobs choose their batches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.graph.declared_values import DeclaredValue
from ortpkg.package.formats.pipeline import Pipeline
from ortpkg.package.package_info import PackageInfo
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.selection.matching.measurements import versioned_variant
from ortpkg.selection.matching.verdict import Verdict
from ortpkg.selection.measuring.record_store import load_records
from ortpkg.selection.measuring.row_axes import (
    RowAxis,
    dimension_name,
    is_free,
    repeats_rows,
    row_axes,
    row_names,
)

Arrays = Mapping[str, npt.NDArray[Any]]
#: Timed runs for each number of rows, after a first run, which may allocate or compile.
_MOST_RUNS = 5


def can_be_joined(
    inputs: Sequence[DeclaredValue],
    outputs: Sequence[DeclaredValue],
    models: Mapping[str, Path | None],
    pipeline: Pipeline | None = None,
) -> bool:
    """Return True if requests of a model can be joined along their first dimension.

    The first dimension of every input has to be free, with the same symbol if it has a name. The
    first dimension of every output has to be the same, by its name or by shape inference, and no
    other dimension may count rows: then rows do not depend on each other. Arguments are those of
    :func:`~ortpkg.selection.measuring.row_axes.row_axes`.
    """
    if not inputs or not all(value.shape and is_free(value) for value in inputs):
        return False
    if len({dimension_name(value.shape[0]) for value in inputs if value.shape}) > 1:
        return False
    names = row_names(inputs)
    if any(repeats_rows(value, names) for value in inputs):
        return False
    axes = row_axes(inputs, outputs, models, pipeline)
    return all(axis is RowAxis.ROWS for axis in axes.values())


def measure_batches(
    run: Callable[[Arrays], object],
    feed: Arrays,
    rows: Iterable[int],
    *,
    most_s: float,
    is_enough: Callable[[Mapping[int, float]], bool] = lambda _times: False,
) -> dict[int, float]:
    """Return number of rows → median seconds of a run, in the order of ``rows``.

    Args:
        run: runs inputs once.
        feed: inputs with at least one row; their rows are repeated as needed.
        rows: numbers of rows, the smallest first.
        most_s: seconds after which no run is begun; numbers of rows without a timed run are left
            out.
        is_enough: called after each number of rows; if it returns True, larger ones are not
            measured.
    """
    medians_s: dict[int, float] = {}
    ends_s = time.perf_counter() + most_s
    for count in rows:
        joined = {name: np.resize(array, (count, *array.shape[1:])) for name, array in feed.items()}
        times_s: list[float] = []
        while len(times_s) <= _MOST_RUNS and (began_s := time.perf_counter()) < ends_s:
            run(joined)
            times_s.append(time.perf_counter() - began_s)
        if len(times_s) < 2:
            break
        medians_s[count] = statistics.median(times_s[1:])
        if is_enough(medians_s):
            break
    return medians_s


def recorded_batch_times(
    package: PackageInfo, verdict: Verdict, offer: MachineOffer
) -> dict[int, float]:
    """Return rows → seconds that ``ortpkg bench --batch-rows`` recorded for a variant here.

    Empty if nothing is recorded, or the machine has changed since.
    """
    records = load_records(package, offer)
    if records is None or records.stale_reason or verdict.ep_device is None:
        return {}
    versioned = versioned_variant(
        verdict.variant.component_name, verdict.variant.name, verdict.ep_device, offer.ep_devices
    )
    times = (
        measurement.batch_times
        for measurement in records.measurements
        if measurement.key == versioned.key
    )
    return dict(next(times, ()))
