"""Choice of how to join a model's requests, by recorded or new measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.arrays.array_files import read_npz
from ortpkg.foundations.quantities import time_limit_text
from ortpkg.package.formats.samples import SampleSet
from ortpkg.package.package_info import PackageInfo
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.scale.serving.batching import BatchPlan, plan_batches
from ortpkg.scale.serving.protocol_tensors import Array
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.selection.matching.verdict import Verdict
from ortpkg.selection.measuring.batch_times import (
    can_be_joined,
    measure_batches,
    recorded_batch_times,
)
from ortpkg.selection.measuring.workloads import package_feed

#: Numbers of rows to time if nothing is recorded.
_ROWS = tuple(1 << power for power in range(11))
_MOST_MEASURING_S = 10.0
#: Share of the best rate below which, twice in a row, larger numbers of rows are not tried.
_WORTHWHILE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChoice:
    """Choice of the joining of requests of a model, with the reason.

    Attributes:
        plan: How to join requests; None to run each alone.
        reason: Basis of the plan, or reason why there is none.
    """

    plan: BatchPlan | None
    reason: str


def choose_batches(
    model: ServedModel,
    package: PackageInfo,
    verdict: Verdict | None,
    samples: Sequence[SampleSet],
    *,
    bound_s: float,
    models: Mapping[str, Path | None],
) -> BatchChoice:
    """Choose how to join requests of ``model`` so that each is answered within ``bound_s``.

    Args:
        model: The model; nothing else runs on it now.
        package: Its package.
        verdict: Verdict of its variant; None for a pipeline, which has no records.
        samples: Samples of the package; runs are timed with rows of them, if there are any.
        bound_s: Longest time from a request to its answer, in seconds.
        models: Model file of the variant of each component.

    Raises:
        Exception: Any error of a run.
    """
    session = model.session
    pipeline = getattr(session, "pipeline", None)
    if not can_be_joined(session.get_inputs(), session.get_outputs(), models, pipeline):
        reason = "its inputs and outputs do not all have the same free first dimension"
        return BatchChoice(plan=None, reason=reason)
    times_s = {} if verdict is None else _recorded(package, verdict)
    source = "recorded"
    if not times_s:
        feed = _one_row(model, package, samples)
        times_s = measure_batches(
            model.infer,
            feed,
            _ROWS,
            most_s=_MOST_MEASURING_S,
            is_enough=lambda times: not _is_worthwhile(times, bound_s),
        )
        source = "measured"
    plan = plan_batches(times_s, bound_s)
    if plan is None:
        reason = f"two runs of it do not fit into {time_limit_text(bound_s)}"
        return BatchChoice(plan=None, reason=reason)
    return BatchChoice(plan=plan, reason=source)


def _is_worthwhile(times_s: Mapping[int, float], bound_s: float) -> bool:
    """Return True if runs of more rows than were timed may fit and be faster per row.

    A single size without gain may have been disturbed.
    """
    rates = [rows / max(time_s, 1e-9) for rows, time_s in times_s.items()]
    return 2 * max(times_s.values()) <= bound_s and max(rates[-2:]) >= _WORTHWHILE * max(rates)


def _recorded(package: PackageInfo, verdict: Verdict) -> dict[int, float]:
    ep = verdict.variant.constraints.ep
    return recorded_batch_times(package, verdict, this_machine(named={ep} if ep else set()))


def _one_row(
    model: ServedModel, package: PackageInfo, samples: Sequence[SampleSet]
) -> dict[str, Array]:
    """Return inputs of one row, from the first samples with rows, else synthetic."""
    for sample_set in samples:
        if sample_set.batch_axis == 0:
            arrays = read_npz(sample_set.inputs)
            return {name: array[:1] for name, array in arrays.items()}
    return package_feed(package, model.session.get_inputs())
