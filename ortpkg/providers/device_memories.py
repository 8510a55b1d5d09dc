"""The memories of devices that are open in this process, by name and by onnxruntime's numbers.

A memory is open from the first session on its device until the process ends: values that a program
holds there outlive the session that made them.
"""

from __future__ import annotations

from typing import NamedTuple

from ortpkg.providers.allocator import DeviceAllocator


class DeviceNumbers(NamedTuple):
    """A device by onnxruntime's numbers (``OrtDevice``).

    Attributes:
        device_type: kind of device.
        vendor_id: PCI number of its vendor; 0 where none is stated.
        device_id: which of several.
    """

    device_type: int
    vendor_id: int
    device_id: int


_open: dict[DeviceNumbers, DeviceAllocator] = {}


def open_memory(numbers: DeviceNumbers, memory: DeviceAllocator) -> None:
    """Make a memory known; of several for one device the first stays."""
    _open.setdefault(numbers, memory)


def memory_of_device(numbers: DeviceNumbers) -> DeviceAllocator | None:
    """Return the open memory of a device; None where no session is on it.

    Where no vendor is stated, the only memory of such a device is meant.
    """
    exact = _open.get(numbers)
    if exact is not None or numbers.vendor_id:
        return exact
    alike = [
        memory
        for known, memory in tuple(_open.items())  # another thread may open one meanwhile
        if (known.device_type, known.device_id) == (numbers.device_type, numbers.device_id)
    ]
    return alike[0] if len(alike) == 1 else None


def memory_named(name: str) -> DeviceAllocator | None:
    """Return the open memory of that name."""
    return next((memory for memory in tuple(_open.values()) if memory.name == name), None)


def numbers_of(memory: DeviceAllocator) -> DeviceNumbers | None:
    """Return the device that an open memory belongs to."""
    return next((numbers for numbers, known in tuple(_open.items()) if known is memory), None)
