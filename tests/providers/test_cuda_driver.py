"""NVIDIA's driver asked for its GPUs; a stand-in answers as the library's functions do."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from ortpkg.runtime.providers.cuda_driver import CudaDevice, ask_cuda_driver

_H100 = CudaDevice(
    name="NVIDIA H100 80GB HBM3",
    pci_address="0000:c1:00.0",
    memory_nbytes=80 << 30,
    capability=(9, 0),
)
_L4 = CudaDevice(
    name="NVIDIA L4", pci_address="0000:03:00.0", memory_nbytes=24 << 30, capability=(8, 9)
)
_NOT_INITIALIZED = 3


class _Driver:
    """libcuda with these devices, whose first call answers ``error``."""

    def __init__(self, *devices: CudaDevice, error: int = 0) -> None:
        self._devices = devices
        self._error = error

    def cuInit(self, _flags: int) -> int:  # noqa: N802 - the library's name
        return self._error

    def cuGetErrorName(self, _error: int, text: Any) -> int:  # noqa: N802
        text._obj.value = b"CUDA_ERROR_NOT_INITIALIZED"
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = 13010
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self._devices)
        return 0

    def cuDeviceGet(self, handle: Any, index: int) -> int:  # noqa: N802
        handle._obj.value = index
        return 0

    def cuDeviceGetName(self, name: Any, _size: int, handle: Any) -> int:  # noqa: N802
        name.value = self._devices[handle.value].name.encode()
        return 0

    def cuDeviceGetPCIBusId(self, name: Any, _size: int, handle: Any) -> int:  # noqa: N802
        name.value = self._devices[handle.value].pci_address.upper().encode()
        return 0

    def cuDeviceTotalMem_v2(self, total: Any, handle: Any) -> int:  # noqa: N802
        total._obj.value = self._devices[handle.value].memory_nbytes
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, handle: Any) -> int:  # noqa: N802
        value._obj.value = self._devices[handle.value].capability[number - 75]
        return 0


def test_devices_come_in_the_drivers_order_with_their_facts() -> None:
    driver = ask_cuda_driver(_Driver(_H100, _L4))

    assert driver.devices == (_H100, _L4)
    assert (driver.release, driver.failure) == ((13, 1), "")


@pytest.mark.parametrize(
    ("driver", "failure"),
    [
        (_Driver(), "NVIDIA's driver lists no GPU to this process"),
        (_Driver(error=100), "NVIDIA's driver lists no GPU to this process"),
        (
            _Driver(error=_NOT_INITIALIZED),
            "NVIDIA's driver does not start: CUDA_ERROR_NOT_INITIALIZED",
        ),
    ],
)
def test_why_there_are_none_is_said(driver: _Driver, failure: str) -> None:
    assert ask_cuda_driver(driver).failure == failure


def test_a_machine_without_the_drivers_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", refuse)

    assert ask_cuda_driver().failure == (
        "NVIDIA's driver is not installed, or this container does not have it"
    )
