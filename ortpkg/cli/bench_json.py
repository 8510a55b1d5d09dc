"""Benchmark results and quarantine as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from ortpkg.api.bench.benchmark import BenchReport
from ortpkg.machine.json_form import ep_device_to_json
from ortpkg.selection.measuring.measured_candidates import CandidateResult


def report_json(report: BenchReport) -> dict[str, Any]:
    """Return a report as JSON, with times in seconds and sizes in bytes.

    Values are null if they are unknown, and distances if they are infinite.
    """
    plan = report.plan
    return {
        "package": report.package_name,
        "threads": plan.threads,
        "rounds": plan.rounds,
        "workloads": dict(report.workloads),
        "results": [_result_json(result) for result in report.results],
        "quarantined": [asdict(entry) for entry in report.quarantined],
        "is_recorded": report.is_recorded,
        "was_interrupted": report.was_interrupted,
        "notes": list(report.notes),
    }


def _result_json(result: CandidateResult) -> dict[str, Any]:
    candidate = result.candidate
    times, distance = result.times, result.distance
    return {
        "component": candidate.component_name,
        "variant": candidate.variant_name,
        "ep_device": ep_device_to_json(candidate.ep_device),
        "outcome": result.outcome.value,
        "reason": result.reason,
        "times": None if times is None else asdict(times),
        "cold_start_s": result.cold_start_s if times else None,
        "session_creation_s": result.session_creation_s if times else None,
        "first_run_s": result.first_run_s if times else None,
        "peak_memory_nbytes": result.peak_memory_nbytes,
        "gpu_memory_nbytes": result.gpu_memory_nbytes,
        "is_accurate": None if distance is None else distance.is_within,
        "max_abs_error": None if distance is None else _finite(distance.max_abs_error),
        "max_relative_error": None if distance is None else _finite(distance.max_relative_error),
        "cosine": None if distance is None else distance.cosine,
        "compared_runs": result.compared,
        "batch_times": [{"rows": rows, "p50_s": time_s} for rows, time_s in result.batch_times],
    }


def _finite(error: float) -> float | None:
    return error if math.isfinite(error) else None
