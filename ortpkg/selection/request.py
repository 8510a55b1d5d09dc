"""What a selection is made by: the caller's words, checked for typos, and what is known of the
machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.errors import UnknownBackendError, UsageError, quoted
from ortpkg.names import did_you_mean
from ortpkg.package.frozen import EMPTY
from ortpkg.selection.matches_variant import CompatibilityOf
from ortpkg.selection.policies import Policy
from ortpkg.selection.wished_limits import NO_LIMITS, Limits

if TYPE_CHECKING:
    from ortpkg.selection.measurements import SelectionRecords
    from ortpkg.selection.operators import OperatorEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRequest:
    """What a selection is made by, checked.

    Attributes:
        policy: the order of preference.
        hardware: what the machine has, for reasons and for EPs that report no devices.
        compatibility: an EP's rating of a compatibility string; where it raises, the string counts
            as not applicable.
        device, ep: filters; the EP by its full name.
        backend: a filter: whose EP devices count; None for all.
        check_architecture: evaluate architecture constraints too.
        provider_options: EP → options that the caller gives it.
        limits: what a variant must keep.
        sizes: variant → bytes of its files, where the package does not record them.
        records: what was measured and what failed on this machine.
        machine: the name of the machine profile; "" for this machine.
        notes: what discovery could not find out; carried into the warnings.
        asked_memory: see :class:`~ortpkg.providers.machine_offer.MachineOffer`.
        operators: what models need that not everybody has, and what EP devices have; None: not
            looked at.
        package_version: the version of variants that state none of their own.
    """

    policy: Policy
    hardware: tuple[HardwareDevice, ...]
    compatibility: CompatibilityOf
    device: DeviceType | None = None
    ep: str | None = None
    backend: str | None = None
    check_architecture: bool = False
    provider_options: Mapping[str, Mapping[str, str]] = EMPTY
    limits: Limits = NO_LIMITS
    sizes: Mapping[str, int] = EMPTY
    records: SelectionRecords | None = None
    machine: str = ""
    notes: tuple[str, ...] = ()
    asked_memory: Collection[HardwareDevice] = ()
    operators: OperatorEvidence | None = None
    package_version: str | None = None


def device_type_named(text: str) -> DeviceType:
    """The device type of that name. UsageError with the list otherwise."""
    try:
        return DeviceType(text.lower())
    except ValueError:
        known = [device.value for device in DeviceType]
        hint = did_you_mean(text, known)
        raise UsageError(
            f"there is no device type {quoted(text)}{hint}; known are: {', '.join(known)}"
        ) from None


def backend_named(text: str, ep_devices: Iterable[EpDevice]) -> str:
    """The backend of that name: one of ours, whether or not it is here, or one that has an EP
    device here.

    Raises UnknownBackendError with the list for a name that nobody knows.
    """
    from ortpkg.providers.plugins import BUILT_IN_BACKENDS  # only where somebody names a backend

    known = list(
        dict.fromkeys(("auto", *BUILT_IN_BACKENDS, *(each.backend for each in ep_devices)))
    )
    if text not in known:
        raise UnknownBackendError(
            f"there is no backend {quoted(text)}{did_you_mean(text, known)}; known are:"
            f" {', '.join(known)}",
            backend=text,
        )
    return text
