"""Index of the records of one component by variant and EP device, with rules on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from ortpkg.foundations.errors import quoted, unquoted
from ortpkg.foundations.quantities import duration_text, nbytes_text
from ortpkg.machine.hardware import EpDevice
from ortpkg.selection.matching.measurements import (
    CanaryFailure,
    Measurement,
    QuarantineCause,
    QuarantineEntry,
    SelectionRecords,
    device_key,
)
from ortpkg.selection.matching.verdict import ReasonCode
from ortpkg.selection.matching.wished_limits import Limits

#: Most characters shown of a failure: enough for all that ``bench`` records.
_MOST_DETAIL_CHARACTERS = 500
_CAUSES: dict[QuarantineCause, str] = {
    QuarantineCause.CRASH: "crashed",
    QuarantineCause.HANG: "did not end",
    QuarantineCause.WRONG_OUTPUT: "gave wrong outputs",
    QuarantineCause.ERROR: "failed",
}

Rejection = tuple[ReasonCode, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndex:
    """Records of one component, by variant and position of the EP device.

    Attributes:
        measurements: fresh measurements.
        quarantined: entries whose EP and driver have the versions of this machine.
        canary_failures: first tries that just failed.
        variants: names of the variants with any record.
        compared: names of the variants measured on more than one EP device with accurate outputs.
    """

    measurements: dict[tuple[str, int], Measurement]
    quarantined: dict[tuple[str, int], QuarantineEntry]
    canary_failures: dict[tuple[str, int], CanaryFailure]
    variants: frozenset[str]
    compared: frozenset[str] = frozenset()

    def limit_rejection(self, key: tuple[str, int], limits: Limits) -> Rejection | None:
        """Return the rejection if a measurement exceeds the caller's limits."""
        measurement = self.measurements.get(key)
        return _latency_rejection(measurement, limits) or _error_rejection(measurement, limits)

    def failure_rejection(self, key: tuple[str, int]) -> Rejection | None:
        """Return the rejection if the variant failed there, or gave unexpected outputs."""
        failed, measurement = self.canary_failures.get(key), self.measurements.get(key)
        return _canary_rejection(failed, measurement) or _quarantine_rejection(
            self.quarantined.get(key)
        )

    def measured_notes(self, key: tuple[str, int]) -> tuple[str, ...]:
        """Return one line on the measurement there, or none."""
        measurement = self.measurements.get(key)
        return () if measurement is None else (_measured_note(measurement),)


def index_records(
    records: SelectionRecords, component_name: str, ep_devices: Sequence[EpDevice]
) -> RecordIndex | None:
    """Return the records of a component on these EP devices; None if there are none.

    Stale measurements and invalid times do not count. A quarantine entry is valid for its versions
    of EP and driver only, whatever else changed; later entries replace earlier ones.
    """
    positions = {
        (ep_device.ep_name, ep_device.backend, device_key(ep_device, ep_devices)): position
        for position, ep_device in enumerate(ep_devices)
    }
    measured: dict[tuple[str, int], Measurement] = {}
    for measurement in () if records.stale_reason else records.measurements:
        position = positions.get((measurement.ep_name, measurement.backend, measurement.device))
        if position is None or measurement.component_name != component_name:
            continue
        if isfinite(measurement.p50_s) and isfinite(measurement.p95_s):
            measured[measurement.variant_name, position] = measurement
    quarantined: dict[tuple[str, int], QuarantineEntry] = {}
    for entry in records.quarantined:
        position = positions.get((entry.ep_name, entry.backend, entry.device))
        if (
            position is not None
            and entry.component_name == component_name
            and entry.is_of_version(ep_devices[position])
        ):
            quarantined[entry.variant_name, position] = entry
    failed: dict[tuple[str, int], CanaryFailure] = {}
    for failure in records.canary_failures:
        position = positions.get((failure.ep_name, failure.backend, failure.device))
        if position is not None and failure.component_name == component_name:
            failed[failure.variant_name, position] = failure
    if not measured and not quarantined and not failed:
        return None
    variants = frozenset(name for name, _ in (*measured, *quarantined, *failed))
    accurate = Counter(
        name for (name, _), measurement in measured.items() if measurement.is_accurate
    )
    return RecordIndex(
        measurements=measured,
        quarantined=quarantined,
        canary_failures=failed,
        variants=variants,
        compared=frozenset(name for name, count in accurate.items() if count > 1),
    )


def _latency_rejection(measurement: Measurement | None, limits: Limits) -> Rejection | None:
    """Return the rejection of a measured time above ``max_latency_s``."""
    limit = limits.max_latency_s
    if limit is None or measurement is None or measurement.p95_s <= limit:
        return None
    return (
        ReasonCode.LATENCY_TOO_HIGH,
        (
            f"95% of its runs took up to {duration_text(measurement.p95_s)}; at most"
            f" {duration_text(limit)} was asked for"
        ),
    )


def _error_rejection(measurement: Measurement | None, limits: Limits) -> Rejection | None:
    """Return the rejection of a measured distance from the expected outputs above ``max_error``."""
    limit, error = limits.max_error, None if measurement is None else measurement.max_abs_error
    # NaN is not within any limit.
    if limit is None or error is None or error <= limit:
        return None
    return (
        ReasonCode.ERROR_TOO_LARGE,
        (
            f"its outputs are up to {error:g} away from the expected ones; at most {limit:g} was"
            " asked for"
        ),
    )


def _canary_rejection(
    failure: CanaryFailure | None, measurement: Measurement | None
) -> Rejection | None:
    """Return the rejection of a variant whose first try failed, or gave wrong outputs."""
    if failure is not None:
        return (
            ReasonCode.CANARY_FAILED,
            f"its first try in a child process failed: {failure.reason}",
        )
    if measurement is None or measurement.is_accurate is not False:
        return None
    distance = (
        "" if measurement.max_abs_error is None else f" (up to {measurement.max_abs_error:g} away)"
    )
    return (
        ReasonCode.CANARY_FAILED,
        f"its outputs were not the package's expected ones here{distance}",
    )


def _quarantine_rejection(entry: QuarantineEntry | None) -> Rejection | None:
    """Return the rejection of a variant that failed here with these versions of EP and driver."""
    if entry is None:
        return None
    versions = f"{unquoted(entry.ep_version or 'an unknown version')}"
    if entry.driver_version:
        versions += f", driver {unquoted(entry.driver_version)}"
    detail = f": {quoted(entry.detail, _MOST_DETAIL_CHARACTERS)}" if entry.detail else ""
    return (
        ReasonCode.QUARANTINED,
        (
            f"it {_CAUSES[entry.cause]} with {entry.ep_name} ({versions}) on"
            f" {unquoted(entry.recorded_at)}{detail}"
        ),
    )


def _measured_note(measurement: Measurement) -> str:
    """Return one line on the measurement."""
    parts = [
        f"median {duration_text(measurement.p50_s)}",
        f"95% within {duration_text(measurement.p95_s)}",
    ]
    if measurement.peak_memory_nbytes is not None:
        parts.append(f"{nbytes_text(measurement.peak_memory_nbytes)} of memory")
    if measurement.max_abs_error is not None:
        parts.append(f"outputs within {measurement.max_abs_error:g}")
    return f"measured here: {', '.join(parts)}"
