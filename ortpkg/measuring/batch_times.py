"""How long runs of several rows take: what servers and batch jobs choose their batches by."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.measuring.record_store import load_records
from ortpkg.package.package_info import PackageInfo
from ortpkg.providers.machine_offer import MachineOffer
from ortpkg.selection.measurements import place_of
from ortpkg.selection.verdict import Verdict

Arrays = Mapping[str, npt.NDArray[Any]]
#: Of each number of rows, besides a first run, which may allocate or compile.
_MOST_RUNS = 5


def can_be_joined(shapes: Iterable[Sequence[int | str | None] | None]) -> bool:
    """Whether requests of a model can be joined, by the shapes that it declares.

    The first dimension of every input and output has to be free, and one and the same symbol where
    it has a name: then rows do not know of each other.
    """
    firsts = {shape[0] if shape else 0 for shape in shapes}
    return len(firsts) == 1 and not isinstance(firsts.pop(), int)


def measure_batches(
    run: Callable[[Arrays], object],
    feed: Arrays,
    rows: Iterable[int],
    *,
    most_s: float,
    is_enough: Callable[[Mapping[int, float]], bool] = lambda _times: False,
) -> dict[int, float]:
    """Rows → seconds of a run of so many (the median), in the order of ``rows``.

    Args:
        run: runs inputs once.
        feed: inputs with at least one row; their rows are repeated as often as need be.
        rows: how many, the smallest first.
        most_s: no run is begun after so long; numbers of rows without a timed run are left out.
        is_enough: asked after each number of rows; larger ones are not measured then.
    """
    found: dict[int, float] = {}
    ends_s = time.perf_counter() + most_s
    for count in rows:
        joined = {name: np.resize(array, (count, *array.shape[1:])) for name, array in feed.items()}
        times_s: list[float] = []
        while len(times_s) <= _MOST_RUNS and (began_s := time.perf_counter()) < ends_s:
            run(joined)
            times_s.append(time.perf_counter() - began_s)
        if len(times_s) < 2:
            break
        found[count] = statistics.median(times_s[1:])
        if is_enough(found):
            break
    return found


def recorded_batch_times(
    package: PackageInfo, verdict: Verdict, offer: MachineOffer
) -> dict[int, float]:
    """Rows → seconds, as ``ortpkg bench --batch-rows`` recorded for the variant in its place here.

    Empty where nothing is recorded, or the machine has changed since.
    """
    records = load_records(package, offer)
    if records is None or records.stale_reason or verdict.ep_device is None:
        return {}
    place = place_of(
        verdict.variant.component_name, verdict.variant.name, verdict.ep_device, offer.ep_devices
    )
    times = (each.batch_times for each in records.measurements if each.key == place.key)
    return dict(next(times, ()))
