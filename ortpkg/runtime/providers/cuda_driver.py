"""Asks NVIDIA's driver for its GPUs; runs in a child process.

No context is made on a device, so that no memory is taken there. The driver lists the GPUs in the
order of the option ``device_id`` of onnxruntime's CUDA providers, and obeys
``CUDA_VISIBLE_DEVICES``.

Source: CUDA Driver API, "Initialization", "Version Management" and "Device Management".
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

_MOST_DEVICES = 1024
_MOST_CHARACTERS = 256
_NO_DEVICE = 100
#: Numbers of CUdevice_attribute.
_MAJOR, _MINOR = 75, 76


class CudaDevice(NamedTuple):
    """One GPU.

    Attributes:
        name: e.g. "NVIDIA H100 80GB HBM3".
        pci_address: as in sysfs, e.g. "0000:c1:00.0"; "" if the driver gives none.
        memory_nbytes: size of its memory.
        capability: compute capability, e.g. (9, 0) for sm_90.
    """

    name: str
    pci_address: str
    memory_nbytes: int
    capability: tuple[int, int]


class CudaDriver(NamedTuple):
    """Answer of the driver.

    Attributes:
        release: newest CUDA that it serves, e.g. (13, 0).
        devices: GPUs that this process may use.
        failure: why there are none; "" if there are some.
    """

    release: tuple[int, int]
    devices: tuple[CudaDevice, ...]
    failure: str


def ask_cuda_driver(library: Any = None) -> CudaDriver:
    """Return the release and the GPUs of the installed driver.

    Args:
        library: the driver's library; None for the system's.
    """
    if library is None:
        try:
            library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        except OSError:
            return _none("NVIDIA's driver is not installed, or this container does not have it")
    if error := library.cuInit(0):
        if error == _NO_DEVICE:
            return _none("NVIDIA's driver lists no GPU to this process")
        return _none(f"NVIDIA's driver does not start: {_name_of(library, error)}")
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    library.cuDeviceGetCount(ctypes.byref(count))
    devices = tuple(_device(library, index) for index in range(min(count.value, _MOST_DEVICES)))
    return CudaDriver(
        release=(version.value // 1000, version.value % 1000 // 10),
        devices=devices,
        failure="" if devices else "NVIDIA's driver lists no GPU to this process",
    )


def _none(failure: str) -> CudaDriver:
    return CudaDriver(release=(0, 0), devices=(), failure=failure)


def _device(library: Any, index: int) -> CudaDevice:
    handle = ctypes.c_int()
    library.cuDeviceGet(ctypes.byref(handle), index)
    name = ctypes.create_string_buffer(_MOST_CHARACTERS)
    library.cuDeviceGetName(name, _MOST_CHARACTERS, handle)
    address = ctypes.create_string_buffer(_MOST_CHARACTERS)
    library.cuDeviceGetPCIBusId(address, _MOST_CHARACTERS, handle)
    total = ctypes.c_size_t()
    library.cuDeviceTotalMem_v2(ctypes.byref(total), handle)
    return CudaDevice(
        name=name.value.decode("utf-8", "replace"),
        pci_address=address.value.decode("ascii", "replace").lower(),
        memory_nbytes=total.value,
        capability=(_attribute(library, _MAJOR, handle), _attribute(library, _MINOR, handle)),
    )


def _attribute(library: Any, number: int, handle: ctypes.c_int) -> int:
    value = ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
    return value.value


def _name_of(library: Any, error: int) -> str:
    text = ctypes.c_char_p()
    library.cuGetErrorName(error, ctypes.byref(text))
    return (text.value or b"").decode("ascii", "replace") or f"error {error}"
