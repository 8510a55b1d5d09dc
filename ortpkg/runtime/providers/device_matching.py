"""Match the devices that a backend reports with the hardware that the operating system knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.machine.hardware import DeviceType, HardwareDevice


class ReportedDevice(NamedTuple):
    """Device described by a backend; "", 0 and None stand for facts that it does not state.

    Attributes:
        ordinal: position among the backend's devices of that type and vendor.
        source: the backend, for facts that only it knows.
    """

    type: DeviceType
    source: str
    name: str = ""
    vendor: str = ""
    vendor_id: int = 0
    device_id: int = 0
    pci_address: str = ""
    is_discrete: bool | None = None
    memory_nbytes: int | None = None
    ordinal: int = 0
    metadata: Mapping[str, str] = EMPTY


def match_hardware(reported: ReportedDevice, hardware: Sequence[HardwareDevice]) -> HardwareDevice:
    """Return the hardware device that ``reported`` is, with facts that only the backend knows.

    The PCI address decides, then vendor and device numbers, then vendor and position. A device that
    the operating system does not know (in a container, say) becomes one whose source is the
    backend.
    """
    candidates = [device for device in hardware if device.type is reported.type]
    match = _choose(reported, candidates)
    if match is None:
        return HardwareDevice(
            type=reported.type,
            name=reported.name,
            vendor=reported.vendor,
            vendor_id=reported.vendor_id,
            device_id=reported.device_id,
            is_discrete=reported.is_discrete,
            memory_nbytes=reported.memory_nbytes,
            metadata=dict(reported.metadata),
            source=reported.source,
        )
    learns_kind = match.is_discrete is None and reported.is_discrete is not None
    learns_memory = match.memory_nbytes is None and reported.memory_nbytes is not None
    if not (learns_kind or learns_memory):
        return match
    return replace(
        match,
        is_discrete=reported.is_discrete if learns_kind else match.is_discrete,
        memory_nbytes=reported.memory_nbytes if learns_memory else match.memory_nbytes,
        source=f"{match.source}, {reported.source}",
    )


def _choose(
    reported: ReportedDevice, candidates: Sequence[HardwareDevice]
) -> HardwareDevice | None:
    if reported.type is DeviceType.CPU:
        return candidates[0] if candidates else None
    if reported.pci_address:
        at_address = [
            device
            for device in candidates
            if device.metadata.get("pci_address") == reported.pci_address
        ]
        if at_address:
            return at_address[0]
    numbers = (reported.vendor_id, reported.device_id)
    same_model = [
        device
        for device in candidates
        if all(numbers) and (device.vendor_id, device.device_id) == numbers
    ]
    same_vendor = [
        device
        for device in candidates
        if reported.vendor_id and device.vendor_id == reported.vendor_id
    ]
    for matching in (same_model, same_vendor):
        if reported.ordinal < len(matching):
            return matching[reported.ordinal]
    return None
