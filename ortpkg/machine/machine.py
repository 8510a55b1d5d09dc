"""Machine: a value with hardware devices, operating system, and notes."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.machine.hardware import DeviceType, HardwareDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Result of a probe; frozen. ``machine.machine_probe`` or a test creates it.

    Attributes:
        os: "linux", "macos" or "windows".
        os_version: release of the kernel or the system; None if unknown.
        hardware: the CPU first, then GPUs, then NPUs, each group in bus order.
        notes: sentences on hardware that does not count as a device, or could not be read.
    """

    os: str
    hardware: tuple[HardwareDevice, ...]
    os_version: str | None = None
    notes: tuple[str, ...] = ()

    def devices_of(self, device_type: DeviceType) -> tuple[HardwareDevice, ...]:
        """Return the devices of one type, in order."""
        return tuple(device for device in self.hardware if device.type is device_type)
