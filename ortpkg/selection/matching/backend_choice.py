"""Choose a variant's backend on a device: the one recorded as fastest, if it was accurate.

No file is read: records come in as arguments. Only candidates that are equal in every criterion
before "backend", on one device, are compared, and they exchange ranks only among themselves:
records decide where a variant runs, never which variant is selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ortpkg.foundations.quantities import duration_text
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.policies import DeviceKind, device_kind
from ortpkg.selection.matching.candidate import Candidate

if TYPE_CHECKING:
    from ortpkg.selection.matching.measurements import Measurement

#: Least number of measured backends: a single one need not be fast.
_LEAST_COMPARED = 2


def choose_backends(
    candidates: Iterable[Candidate], hardware: Sequence[HardwareDevice]
) -> list[Candidate]:
    """Return the candidates of one variant, in the same order, with ranks by measurements.

    On each device the fastest candidate with accurate outputs comes first, together with those
    whose median lies within its interval, in their usual order; then slower ones; then those that
    were not measured, or not compared with expected outputs. If fewer than two were measured, the
    usual order stays.
    """
    ranked = list(candidates)
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, candidate in enumerate(ranked):
        if candidate.rank is not None and candidate.ep_device is not None:
            equal = candidate.rank._replace(backend=0, declared_at=0, ep_device_at=0)
            key = (equal, *_device_of(candidate.ep_device, hardware))
            groups.setdefault(key, []).append(position)
    for key, positions in groups.items():
        usual = sorted(positions, key=lambda position: ranked[position].rank or ())
        ranks = [ranked[position].rank for position in usual]
        for rank, position in zip(ranks, _by_time(usual, ranked), strict=False):
            ranked[position] = ranked[position]._replace(rank=rank, compared=key)
    return ranked


def _by_time(usual: Sequence[int], candidates: Sequence[Candidate]) -> list[int]:
    """Return the positions in order of measured times; empty if nothing was compared."""
    times = {
        position: measurement
        for position in usual
        if (measurement := accurate_measurement(candidates[position])) is not None
    }
    if len(times) < _LEAST_COMPARED:
        return []
    fastest = min(times.values(), key=lambda timed: timed.p50_s)
    equal = [
        position for position in usual if position in times and is_within(times[position], fastest)
    ]
    slower = sorted(
        (position for position in times if position not in equal),
        key=lambda index: times[index].p50_s,
    )
    return [*equal, *slower, *(position for position in usual if position not in times)]


def accurate_measurement(candidate: Candidate) -> Measurement | None:
    """Return the candidate's measurement if its outputs were within the package's tolerance."""
    measurement = candidate.judgement.measurement
    return measurement if measurement is not None and measurement.is_accurate else None


def is_within(measurement: Measurement, fastest: Measurement) -> bool:
    """Return True if the median is no higher than the highest median of a round of the fastest."""
    return measurement.p50_s <= max(fastest.p50_s, fastest.highest_s or 0.0)


def _device_of(ep_device: EpDevice, hardware: Sequence[HardwareDevice]) -> tuple[object, ...]:
    """Return a key of the device: a machine has one CPU; an EP without devices counts as one."""
    kind, device = device_kind(ep_device, hardware), ep_device.device
    if kind is DeviceKind.CPU or device is None:
        return (kind, "" if kind is DeviceKind.CPU else ep_device.ep_name)
    address = device.metadata.get("pci_address") or device.metadata.get("pci_bus_id") or ""
    return (kind, device.vendor_id, device.device_id, device.name, address)


# --- in words -------------------------------------------------------------------------------------


def choice_reason(loser: Candidate, winner: Candidate, decided_by: str, which: str) -> str:
    """Return a sentence on why the winner was preferred, if measurements decided that; else "".

    At least one of the two was compared; ``which`` names the winner in the sentence.
    """
    is_rival = loser.compared == winner.compared and loser.variant is winner.variant
    loser_measurement, winner_measurement = (
        accurate_measurement(loser),
        accurate_measurement(winner),
    )
    if not is_rival or winner_measurement is None:
        text = (
            f"it can run, but {which} comes first in the order of backends, where what was measured"
            " here counts"
        )
        return text if decided_by == "backend" else ""
    text = (
        f"on {_backend_on_ep(winner)} it was measured here as accurate, with a median of"
        f" {duration_text(winner_measurement.p50_s)}"
    )
    if loser_measurement is None:
        gap = (
            "not measured here"
            if loser.judgement.measurement is None
            else "not compared with expected outputs"
        )
        return f"it can run, but {text}; this one was {gap}"
    # Among candidates that cannot be told apart, the usual order decides; the first need not be
    # the fastest.
    is_slower = loser_measurement.p50_s > winner_measurement.p50_s and not is_within(
        loser_measurement, winner_measurement
    )
    comparison = (
        "which is faster"
        if is_slower
        else "which cannot be told apart and comes first by the usual order"
    )
    loser_text = duration_text(loser_measurement.p50_s)
    return f"it can run, but {text}, {comparison}: this one has {loser_text}"


def choice_note(winner: Candidate) -> str:
    """Return a text to add to the winner's reason if measurements chose its backend; else ""."""
    measurement = accurate_measurement(winner)
    if winner.compared is None or measurement is None:
        return ""
    return (
        f"; of its backends on this device {_backend_on_ep(winner)} was measured as accurate, and"
        " as fast as any"
    )


def _backend_on_ep(candidate: Candidate) -> str:
    assert candidate.ep_device is not None
    return candidate.ep_device.ep_and_backend
