"""A machine as a value: hardware devices, operating system, what could not be found out."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.devices.hardware import DeviceType, HardwareDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a probe found out; frozen. ``devices.machine_probe`` makes it, or a test.

    Attributes:
        os: "linux", "macos" or "windows".
        os_version: the kernel's or the system's release; None where unknown.
        hardware: the CPU first, then GPUs, then NPUs, each group in bus order.
        notes: what is there but does not count as a device, or could not be read, a sentence each.
    """

    os: str
    hardware: tuple[HardwareDevice, ...]
    os_version: str | None = None
    notes: tuple[str, ...] = ()

    def devices_of(self, device_type: DeviceType) -> tuple[HardwareDevice, ...]:
        """Its devices of one type, in order."""
        return tuple(device for device in self.hardware if device.type is device_type)
