"""Which backend runs a variant on a device: the one recorded as fastest there, if as accurate.

It reads no file: records come in as arguments. Only what is equal in every criterion before
"backend", on one device, is compared, and the ranks of these candidates change hands among them:
records decide where a variant runs, never which variant is selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.quantities import duration_text
from ortpkg.selection.candidate import Candidate
from ortpkg.selection.policies import DeviceKind, device_kind

if TYPE_CHECKING:
    from ortpkg.selection.measurements import Measurement

#: With fewer nothing was compared, and what was measured alone need not be fast.
_LEAST_COMPARED = 2


def choose_backends(
    candidates: Iterable[Candidate], hardware: Sequence[HardwareDevice]
) -> list[Candidate]:
    """The candidates of one variant, with the ranks that measurements give them; in the same order.

    On each device the fastest of those whose outputs were accurate comes first, and with it, in
    their usual order, those whose median lies within its interval; then slower ones; then what was
    not measured, or was not compared with expected outputs. Where fewer than two were measured, the
    usual order stays.
    """
    found = list(candidates)
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, candidate in enumerate(found):
        if candidate.rank is not None and candidate.ep_device is not None:
            equal = candidate.rank._replace(backend=0, declared_at=0, ep_device_at=0)
            key = (equal, *_device_of(candidate.ep_device, hardware))
            groups.setdefault(key, []).append(position)
    for key, positions in groups.items():
        usual = sorted(positions, key=lambda position: found[position].rank or ())
        ranks = [found[position].rank for position in usual]
        for rank, position in zip(ranks, _by_time(usual, found), strict=False):
            found[position] = found[position]._replace(rank=rank, compared=key)
    return found


def _by_time(usual: Sequence[int], candidates: Sequence[Candidate]) -> list[int]:
    """Positions in the order that times give; none where nothing was compared."""
    times = {
        position: each
        for position in usual
        if (each := accurate_measurement(candidates[position])) is not None
    }
    if len(times) < _LEAST_COMPARED:
        return []
    fastest = min(times.values(), key=lambda each: each.p50_s)
    equal = [
        position for position in usual if position in times and is_within(times[position], fastest)
    ]
    slower = sorted(
        (position for position in times if position not in equal),
        key=lambda each: times[each].p50_s,
    )
    return [*equal, *slower, *(position for position in usual if position not in times)]


def accurate_measurement(candidate: Candidate) -> Measurement | None:
    """What was measured of it, where its outputs were within the package's tolerance."""
    measurement = candidate.judgement.measurement
    return measurement if measurement is not None and measurement.is_accurate else None


def is_within(measurement: Measurement, fastest: Measurement) -> bool:
    """Whether its median is no higher than the highest median of a round of the fastest."""
    return measurement.p50_s <= max(fastest.p50_s, fastest.highest_s or 0.0)


def _device_of(ep_device: EpDevice, hardware: Sequence[HardwareDevice]) -> tuple[object, ...]:
    """The device, whoever reports it: a machine has one CPU, an EP without devices its own."""
    kind, device = device_kind(ep_device, hardware), ep_device.device
    if kind is DeviceKind.CPU or device is None:
        return (kind, "" if kind is DeviceKind.CPU else ep_device.ep_name)
    address = device.metadata.get("pci_address") or device.metadata.get("pci_bus_id") or ""
    return (kind, device.vendor_id, device.device_id, device.name, address)


# --- in words -------------------------------------------------------------------------------------


def choice_reason(loser: Candidate, winner: Candidate, decided_by: str, which: str) -> str:
    """One sentence on why the winner was preferred, where measurements had a part in it; else "".

    At least one of the two was compared; ``which`` names the winner in the sentence.
    """
    is_rival = loser.compared == winner.compared and loser.variant is winner.variant
    own, won = accurate_measurement(loser), accurate_measurement(winner)
    if not is_rival or won is None:
        there = (
            f"it can run, but {which} comes first in the order of backends, where what was measured"
            " here counts"
        )
        return there if decided_by == "backend" else ""
    there = (
        f"on {_place(winner)} it was measured here as accurate, with a median of"
        f" {duration_text(won.p50_s)}"
    )
    if own is None:
        why = (
            "not measured here"
            if loser.judgement.measurement is None
            else "not compared with expected outputs"
        )
        return f"it can run, but {there}; this one was {why}"
    # Of those that cannot be told apart the usual order takes one, which need not be the fastest of
    # them.
    is_slower = own.p50_s > won.p50_s and not is_within(own, won)
    told = (
        "which is faster"
        if is_slower
        else "which cannot be told apart and comes first by the usual order"
    )
    return f"it can run, but {there}, {told}: this one has {duration_text(own.p50_s)}"


def choice_note(winner: Candidate) -> str:
    """What to add to the reason of a winner whose backend measurements chose.

    "" where they did not.
    """
    measurement = accurate_measurement(winner)
    if winner.compared is None or measurement is None:
        return ""
    return (
        f"; of its backends on this device {_place(winner)} was measured as accurate, and as fast"
        " as any"
    )


def _place(candidate: Candidate) -> str:
    assert candidate.ep_device is not None
    return f"{candidate.ep_device.ep_name} ({candidate.ep_device.backend})"
