"""OrtMemoryInfo and OrtArenaCfg: descriptions of memory and allocators under onnxruntime's names.

This engine's values lie in host memory, unless a session keeps them on a device. Imports neither
numpy nor onnx.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.runtime.session.values.onnxruntime_enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
)

#: Names that onnxruntime gives to memory, with the kind of device that each means.
_DEVICE_TYPES: Mapping[str, OrtMemoryInfoDeviceType] = {
    "Cpu": OrtMemoryInfoDeviceType.CPU,
    "Cuda": OrtMemoryInfoDeviceType.GPU,
    "CudaPinned": OrtMemoryInfoDeviceType.CPU,
    "DML": OrtMemoryInfoDeviceType.GPU,
    "Cann": OrtMemoryInfoDeviceType.NPU,
    "CannPinned": OrtMemoryInfoDeviceType.CPU,
}
_ARENA_OPTIONS = (
    "max_mem",
    "arena_extend_strategy",
    "initial_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
    "initial_growth_chunk_size_bytes",
    "max_power_of_two_extend_bytes",
)


class OrtMemoryInfo:
    """Kind of memory, its device, and how it is allocated.

    Attributes:
        name: name of the memory, e.g. "Cpu".
        device_id, device_vendor_id: numbers of the device.
        allocator_type, mem_type, device_mem_type: see the enumerations.
        device_type: kind of device.
    """

    def __init__(
        self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType
    ) -> None:
        """Describe a memory that onnxruntime knows by name; :meth:`create_v2` takes any name.

        Raises:
            UsageError: an unknown name.
        """
        if name not in _DEVICE_TYPES:
            names = ", ".join(_DEVICE_TYPES)
            raise UsageError(
                f"there is no memory {quoted(name)} ({names}); create_v2 takes any name"
            )
        self.name = name
        self.device_type = _DEVICE_TYPES[name]
        self.device_id = device_id
        self.device_vendor_id = 0
        self.allocator_type = OrtAllocatorType(allocator_type)
        self.mem_type = OrtMemType(mem_type)
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.alignment = 0

    @staticmethod
    def create_v2(
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """Describe a memory of any name, by the numbers of its device."""
        info = OrtMemoryInfo("Cpu", allocator_type, device_id, OrtMemType.DEFAULT)
        info.name = name
        info.device_type = OrtMemoryInfoDeviceType(device_type)
        info.device_vendor_id = vendor_id
        info.device_mem_type = OrtDeviceMemoryType(device_mem_type)
        info.alignment = alignment
        if info.device_mem_type is OrtDeviceMemoryType.HOST_ACCESSIBLE:
            info.mem_type = OrtMemType.CPU_OUTPUT
        return info

    def __repr__(self) -> str:
        return (
            f"OrtMemoryInfo({self.name!r}, {self.allocator_type.name}, {self.device_id},"
            f" {self.mem_type.name})"
        )


class OrtArenaCfg:
    """Growth of an arena; -1 (0 for ``max_mem``) leaves a value to the allocator.

    Attributes:
        max_mem, arena_extend_strategy, initial_chunk_size_bytes, max_dead_bytes_per_chunk,
            initial_growth_chunk_size_bytes, max_power_of_two_extend_bytes: as in onnxruntime.
    """

    def __init__(
        self,
        max_mem: int | Mapping[str, int],
        arena_extend_strategy: int = -1,
        initial_chunk_size_bytes: int = -1,
        max_dead_bytes_per_chunk: int = -1,
    ) -> None:
        """Take four numbers, or one mapping with any of the attributes.

        Raises:
            UsageError: an unknown name, or a value that is not an int.
        """
        options: Mapping[str, Any] = (
            max_mem
            if isinstance(max_mem, Mapping)
            else {
                "max_mem": max_mem,
                "arena_extend_strategy": arena_extend_strategy,
                "initial_chunk_size_bytes": initial_chunk_size_bytes,
                "max_dead_bytes_per_chunk": max_dead_bytes_per_chunk,
            }
        )
        for name, value in options.items():
            if name not in _ARENA_OPTIONS:
                raise UsageError(
                    f"OrtArenaCfg has no option {quoted(name)}; it has {', '.join(_ARENA_OPTIONS)}"
                )
            if isinstance(value, bool) or not isinstance(value, int):
                raise UsageError(f"OrtArenaCfg: {name} is a whole number, not {quoted(value)}")
        self.max_mem = int(options.get("max_mem", 0))
        self.arena_extend_strategy = int(options.get("arena_extend_strategy", -1))
        self.initial_chunk_size_bytes = int(options.get("initial_chunk_size_bytes", -1))
        self.max_dead_bytes_per_chunk = int(options.get("max_dead_bytes_per_chunk", -1))
        self.initial_growth_chunk_size_bytes = int(
            options.get("initial_growth_chunk_size_bytes", -1)
        )
        self.max_power_of_two_extend_bytes = int(options.get("max_power_of_two_extend_bytes", -1))
