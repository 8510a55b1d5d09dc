"""The total order among eligible candidates, as docs/selection.md defines it.

A rank is a tuple of integers, compared from the left; smaller is better. It does not depend on the
order in which execution providers and devices were discovered: EP devices are first put into a
canonical order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.foundations.ep_names import ep_priority
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.policies import Policy, device_kind
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility

if TYPE_CHECKING:
    from ortpkg.selection.matching.measurements import Measurement


class Rank(NamedTuple):
    """Position of a candidate in the order: the lesser rank is better, and earlier fields decide.

    Attributes:
        measured: 0 if measured here, 1 if not, which comes after; 0 for every candidate if the
            policy does not use measurements.
        latency: median time in nanoseconds; 0 if it was not measured, or does not count.
        device: the policy's number of the device's kind.
        speed: speed of a compiled variant, beside its plain one; see ``compiled_speed``.
        compatibility: the EP's rating, the best first.
        architecture: 0 for the device's own architecture, more for an ancestor, or for the one that
            the EP says was compiled for; 0 if it is not checked and the EP says nothing.
        named_ep: 0 for a variant that names its EP, 1 for one that runs on any.
        backend: number of the backend, the fastest known first.
        declared_at: the variant's position in the package.
        ep_device_at: the EP device's position in :func:`order_devices`.
    """

    measured: int
    latency: int
    device: int
    speed: int
    compatibility: int
    architecture: int
    named_ep: int
    backend: int
    declared_at: int
    ep_device_at: int


#: Names of a rank's numbers, in order, without those of measurements.
CRITERIA: tuple[str, ...] = (
    "device",
    "speed",
    "compatibility",
    "architecture",
    "named EP",
    "backend",
    "declaration order",
    "EP device order",
)
#: Names of all numbers of a rank, in order.
MEASURED_CRITERIA: tuple[str, ...] = ("measured", "latency", *CRITERIA)

_COMPATIBILITY_ORDER: dict[CompiledModelCompatibility, int] = {
    CompiledModelCompatibility.OPTIMAL: 0,
    CompiledModelCompatibility.NOT_APPLICABLE: 1,
    CompiledModelCompatibility.UNKNOWN: 1,
    CompiledModelCompatibility.PREFER_RECOMPILATION: 2,
}
#: Fastest known first; a plug-in (any other name) comes before ortpkg's own: machine code, then the
#: embedded engine, which is always available.
_BACKEND_ORDER: dict[str, int] = {
    "openvino": 0,
    "onnxruntime": 1,
    "llvm": 3,
    "embedded": 4,
}
_PLUGIN_BACKEND = 2


def order_devices(
    ep_devices: Iterable[EpDevice], policy: Policy, hardware: Sequence[HardwareDevice]
) -> list[EpDevice]:
    """Return the EP devices in the policy's order.

    Among equals the EP's priority decides, then more memory, then names and addresses. The result
    is the same for every order of discovery.
    """
    rows = [(_first_key(ep_device, policy, hardware), ep_device) for ep_device in ep_devices]
    if len({key for key, _ in rows}) < len(
        rows
    ):  # rare: few machines have several devices that are still equal
        return [row[1] for row in sorted(rows, key=lambda row: (row[0], _second_key(row[1])))]
    return [row[1] for row in sorted(rows, key=lambda row: row[0])]


def _first_key(
    ep_device: EpDevice, policy: Policy, hardware: Sequence[HardwareDevice]
) -> tuple[int | str, ...]:
    return (
        policy.preference(device_kind(ep_device, hardware)),
        backend_preference(ep_device.backend),
        ep_priority(ep_device.ep_name),
        ep_device.ep_name,
        ep_device.backend,
        ep_device.device is None,
    )


def _second_key(ep_device: EpDevice) -> tuple[object, ...]:
    device = ep_device.device
    facts: tuple[object, ...] = ()
    if device is not None:
        identity = sorted(device.metadata.items())
        facts = (
            -(device.memory_nbytes or 0),
            device.type,
            device.vendor_id,
            device.device_id,
            device.name,
            identity,
            device.vendor,
            device.architecture or "",
            device.source,
            str(device.is_discrete),
            -(device.free_memory_nbytes or 0),
        )
    return (
        facts,
        sorted(ep_device.ep_metadata.items()),
        sorted(ep_device.ep_options.items()),
        ep_device.ep_version,
        ep_device.ep_vendor,
    )


def backend_preference(backend: str) -> int:
    """Return the position of a backend; 0 for the one known to be fastest."""
    return _BACKEND_ORDER.get(backend, _PLUGIN_BACKEND)


def compatibility_preference(compatibility: CompiledModelCompatibility) -> int:
    """Return the position of a rating; 0 for the best. UNSUPPORTED has none, being a rejection."""
    return _COMPATIBILITY_ORDER[compatibility]


def measured_rank(rank: Rank, measurement: Measurement | None) -> Rank:
    """Return the rank with a measurement: measured candidates come first, by their median time."""
    if measurement is None:
        return rank._replace(measured=1)
    return rank._replace(latency=round(measurement.p50_s * 1e9))


def numbers_for(rank: Rank, criteria: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the rank for ``criteria``, which are some of ``MEASURED_CRITERIA``."""
    return tuple(
        number for name, number in zip(MEASURED_CRITERIA, rank, strict=True) if name in criteria
    )


def are_tied(rank: Rank, other: Rank) -> bool:
    """Return True if only the publisher's order, or that of EP devices, separates the two."""
    return rank._replace(declared_at=0, ep_device_at=0) == other._replace(
        declared_at=0, ep_device_at=0
    )


def deciding_criterion(
    loser: Sequence[int], winner: Sequence[int], criteria: Sequence[str] = MEASURED_CRITERIA
) -> str:
    """Return the first criterion by which ``loser`` ranks worse than ``winner``.

    They must differ.
    """
    return next(
        name for name, lost, won in zip(criteria, loser, winner, strict=True) if lost != won
    )
