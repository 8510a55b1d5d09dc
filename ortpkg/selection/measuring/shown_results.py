"""Results for pictures and pages: measurements made just now or recorded earlier."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortpkg.selection.matching.measurements import Measurement
from ortpkg.selection.measuring.measured_candidates import CandidateResult, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownResult:
    """Result of a variant on an EP device.

    Attributes:
        component_name, variant_name: the variant.
        ep_name, backend: the EP and the backend that ran it.
        p50_s, p95_s: median and 95th percentile of the time of one run; None if it did not run.
        lowest_s, highest_s: least and greatest median of a round; None if unknown.
        peak_memory_nbytes: most memory in use, in bytes; None if unknown.
        max_abs_error: distance from the expected outputs, infinite if shapes differ; None if it was
            not compared, or is not recorded.
        is_accurate: True if the outputs are within the tolerance; None if none is stated.
        problem: reason why there are no times, or what is wrong with them; "" for none.
        is_held_against: True if ``problem`` is the variant's fault.
    """

    component_name: str
    variant_name: str
    ep_name: str
    backend: str
    p50_s: float | None = None
    p95_s: float | None = None
    lowest_s: float | None = None
    highest_s: float | None = None
    peak_memory_nbytes: int | None = None
    max_abs_error: float | None = None
    is_accurate: bool | None = None
    problem: str = ""
    is_held_against: bool = False

    @property
    def is_wrong(self) -> bool:
        """True if its outputs exceed the package's tolerance."""
        return self.is_accurate is False


def shown_result(result: CandidateResult) -> ShownResult:
    """Return the result of a candidate that was just measured."""
    candidate, times, distance = result.candidate, result.times, result.distance
    problem = ""
    if result.outcome is not Outcome.MEASURED:
        problem = f"{result.outcome}: {result.reason}" if result.reason else str(result.outcome)
    return ShownResult(
        component_name=candidate.component_name,
        variant_name=candidate.variant_name,
        ep_name=candidate.ep_device.ep_name,
        backend=candidate.ep_device.backend,
        p50_s=None if times is None else times.p50_s,
        p95_s=None if times is None else times.p95_s,
        lowest_s=None if times is None else times.lowest_s,
        highest_s=None if times is None else times.highest_s,
        peak_memory_nbytes=result.peak_memory_nbytes,
        max_abs_error=None if distance is None else distance.max_abs_error,
        is_accurate=False
        if result.outcome is Outcome.WRONG_OUTPUT
        else None
        if distance is None
        else distance.is_within,
        problem=problem,
        is_held_against=result.is_held_against,
    )


def recorded_result(measurement: Measurement) -> ShownResult:
    """Return the result of a measurement that was recorded earlier."""
    error = measurement.max_abs_error
    return ShownResult(
        component_name=measurement.component_name,
        variant_name=measurement.variant_name,
        ep_name=measurement.ep_name,
        backend=measurement.backend,
        p50_s=measurement.p50_s,
        p95_s=measurement.p95_s,
        lowest_s=measurement.lowest_s,
        highest_s=measurement.highest_s,
        peak_memory_nbytes=measurement.peak_memory_nbytes,
        max_abs_error=error if error is None or math.isfinite(error) else math.inf,
        is_accurate=measurement.is_accurate,
    )
