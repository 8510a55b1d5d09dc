"""OrtDevice: the memory that a value lies in, under onnxruntime's names and numbers.

Imports neither numpy nor onnx.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.runtime.session.values.onnxruntime_enums import (
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtMemoryInfoDeviceType,
)

_CPU, _GPU = OrtMemoryInfoDeviceType.CPU, OrtMemoryInfoDeviceType.GPU
_FPGA, _NPU = OrtMemoryInfoDeviceType.FPGA, OrtMemoryInfoDeviceType.NPU

_DIRECTML = 4

#: Name of a device → its kind, and its vendor if the name implies one.
_NAMED: Mapping[str, tuple[OrtMemoryInfoDeviceType, OrtDeviceVendorId]] = {
    "cpu": (_CPU, OrtDeviceVendorId.NONE),
    "cuda": (_GPU, OrtDeviceVendorId.NVIDIA),
    "dml": (_GPU, OrtDeviceVendorId.MICROSOFT),
    "webgpu": (_GPU, OrtDeviceVendorId.NONE),
    "gpu": (_GPU, OrtDeviceVendorId.NONE),
    "cann": (_NPU, OrtDeviceVendorId.HUAWEI),
    "npu": (_NPU, OrtDeviceVendorId.NONE),
}


class OrtDevice:
    """A device by numbers: ``OrtDevice(type, memory type, [vendor,] id)``."""

    __slots__ = ("_device_id", "_device_type", "_mem_type", "_vendor_id")

    def __init__(self, device_type: int | OrtDevice, mem_type: int = 0, *numbers: int) -> None:
        """Create a device from numbers, or copy one; UsageError for numbers of no device."""
        values: tuple[int, ...]
        if isinstance(device_type, OrtDevice):
            values = (
                device_type.device_type(),
                device_type.mem_type(),
                device_type.vendor_id(),
                device_type.device_id(),
            )
        else:
            values = (device_type, mem_type, *numbers)
        if len(values) > 4 or not all(isinstance(number, int) for number in values):
            raise UsageError(
                f"OrtDevice takes a type, a memory type, an id or vendor and id, not {values}"
            )
        self._device_type = int(values[0])
        self._mem_type = int(values[1])
        self._vendor_id = int(values[2]) if len(values) == 4 else 0
        self._device_id = int(values[-1]) if len(values) > 2 else 0

    @staticmethod
    def make(
        ort_device_name: str, device_id: int, vendor_id: int | OrtDeviceVendorId = -1
    ) -> OrtDevice:
        """Return the device of a name ("cpu", "cuda", "gpu", ...).

        Raises:
            UsageError: an unknown name.
            TypeError: the name is not a string, or the number not an int.
        """
        arguments: tuple[Any, Any] = (ort_device_name, device_id)
        if not isinstance(arguments[0], str) or not isinstance(arguments[1], int):
            raise TypeError("a device is made of a name and a number")
        if ort_device_name not in _NAMED:
            raise UsageError(
                f"there is no device {quoted(ort_device_name)}; there are {', '.join(_NAMED)}"
            )
        kind, vendor = _NAMED[ort_device_name]
        return OrtDevice(int(kind), 0, int(vendor if vendor_id < 0 else vendor_id), device_id)

    def device_id(self) -> int:
        """Return the device's number among those of its kind."""
        return self._device_id

    def device_type(self) -> int:
        """Return the kind of device.

        See :class:`~ortpkg.runtime.session.values.onnxruntime_enums.OrtMemoryInfoDeviceType`.
        """
        return self._device_type

    def device_vendor_id(self) -> int:
        """Return the vendor's PCI number; 0 if unknown."""
        return self._vendor_id

    vendor_id = device_vendor_id

    def device_mem_type(self) -> int:
        """Return the memory type.

        See :class:`~ortpkg.runtime.session.values.onnxruntime_enums.OrtDeviceMemoryType`.
        """
        return self._mem_type

    mem_type = device_mem_type

    def _get_c_device(self) -> OrtDevice:
        return self

    @staticmethod
    def cpu() -> int:
        """Return the number of the CPU as a kind of device."""
        return int(_CPU)

    @staticmethod
    def gpu() -> int:
        """Return the number of GPUs as a kind of device; also as ``cuda`` and ``webgpu``."""
        return int(_GPU)

    @staticmethod
    def fpga() -> int:
        """Return the number of FPGAs as a kind of device."""
        return int(_FPGA)

    @staticmethod
    def npu() -> int:
        """Return the number of NPUs as a kind of device; also as ``cann``."""
        return int(_NPU)

    cuda = webgpu = gpu
    cann = npu

    @staticmethod
    def dml() -> int:
        """Return DirectML's number, as in onnxruntime's native class.

        ``make("dml", 0)`` returns a GPU, in contrast.
        """
        return _DIRECTML

    @staticmethod
    def default_memory() -> int:
        """Return the number of a device's default memory."""
        return int(OrtDeviceMemoryType.DEFAULT)

    def __repr__(self) -> str:
        return (
            f"OrtDevice({self._device_type}, {self._mem_type}, {self._vendor_id},"
            f" {self._device_id})"
        )


def check_is_host(device: str | OrtDevice, device_id: int = 0) -> None:
    """Raise UsageError for any device but the CPU."""
    if isinstance(device, OrtDevice):
        name, device_id = (
            ("cpu" if device.device_type() == _CPU else repr(device)),
            device.device_id(),
        )
    else:
        name = device
    if name != "cpu":
        raise UsageError(
            f"values lie on device 'cpu'; {quoted(name)}, id {device_id} is not supported"
        )
