"""Devices in a few words for people. Names come from hardware and drivers, so they are escaped."""

from __future__ import annotations

from ortpkg.devices.hardware import HardwareDevice
from ortpkg.errors import unquoted


def hardware_label(device: HardwareDevice) -> str:
    """E.g. "GPU (NVIDIA H200)"; the type alone where the name is unknown."""
    return (
        f"{device.type.value.upper()} ({unquoted(device.name)})"
        if device.name
        else device.type.value.upper()
    )
