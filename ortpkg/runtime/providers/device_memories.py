"""Registry of the device memories that are open in this process.

A memory is open from the first session on its device until the process ends, since values there may
outlive the session that made them.
"""

from __future__ import annotations

from typing import NamedTuple

from ortpkg.runtime.providers.allocator import DeviceAllocator


class DeviceNumbers(NamedTuple):
    """Numbers of a device in onnxruntime (``OrtDevice``).

    Attributes:
        device_type: kind of device; 1 for a GPU, 3 for an NPU.
        vendor_id: PCI number of its vendor; 0 if none is stated.
        device_id: number among the devices of its kind.
    """

    device_type: int
    vendor_id: int
    device_id: int


_open: dict[DeviceNumbers, DeviceAllocator] = {}


def open_memory(numbers: DeviceNumbers, memory: DeviceAllocator) -> None:
    """Register the memory of a device; the first one for a device stays."""
    _open.setdefault(numbers, memory)


def open_memory_of(numbers: DeviceNumbers) -> DeviceAllocator | None:
    """Return the open memory of a device; None if no session has been on it.

    Numbers without a vendor mean the only device of that kind and number, whatever its vendor.
    """
    exact = _open.get(numbers)
    if exact is not None or numbers.vendor_id:
        return exact
    alike = [
        memory
        for device, memory in tuple(_open.items())  # another thread may open one meanwhile
        if (device.device_type, device.device_id) == (numbers.device_type, numbers.device_id)
    ]
    return alike[0] if len(alike) == 1 else None


def memory_named(name: str) -> DeviceAllocator | None:
    """Return the open memory of a name, such as "WebGpu:0"; None if there is none."""
    return next((memory for memory in tuple(_open.values()) if memory.name == name), None)


def numbers_of(memory: DeviceAllocator) -> DeviceNumbers | None:
    """Return the numbers of the device that an open memory belongs to; None if it is not open."""
    return next((numbers for numbers, opened in tuple(_open.items()) if opened is memory), None)
