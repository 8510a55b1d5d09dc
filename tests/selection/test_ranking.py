"""The canonical order of EP devices, apart from selection."""

from __future__ import annotations

import itertools

from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.policies import POLICIES
from ortpkg.selection.matching.ranking import MEASURED_CRITERIA, deciding_criterion, order_devices


def _gpu(name: str, *, memory: int | None = None, address: str = "") -> HardwareDevice:
    return HardwareDevice(
        type=DeviceType.GPU,
        name=name,
        is_discrete=True,
        memory_nbytes=memory,
        metadata={"pci_address": address},
    )


def _cuda(device: HardwareDevice | None) -> EpDevice:
    return EpDevice(ep_name="CUDAExecutionProvider", device=device, backend="onnxruntime")


def test_more_memory_comes_first_then_the_address() -> None:
    small, big = _cuda(_gpu("a", memory=8)), _cuda(_gpu("b", memory=24))
    left, right = (
        _cuda(_gpu("c", memory=4, address="0000:01:00.0")),
        _cuda(_gpu("c", memory=4, address="0000:41:00.0")),
    )

    for found in itertools.permutations([left, right, small, big]):
        assert order_devices(found, POLICIES["default"], ()) == [big, small, left, right]


def test_an_ep_without_devices_counts_as_the_best_device_that_its_name_implies() -> None:
    cpu = EpDevice(ep_name="CPUExecutionProvider", device=HardwareDevice(type=DeviceType.CPU))
    npu = EpDevice(ep_name="QNNExecutionProvider", device=HardwareDevice(type=DeviceType.NPU))
    azure = EpDevice(ep_name="AzureExecutionProvider", device=None)
    every = [azure, cpu, npu, _cuda(None)]

    with_discrete_gpu = order_devices(every, POLICIES["default"], [_gpu("a")])
    without = order_devices(every, POLICIES["default"], [])

    assert with_discrete_gpu == [_cuda(None), npu, cpu, azure]
    assert without == [npu, _cuda(None), cpu, azure]


def test_the_first_difference_decides() -> None:
    n = len(MEASURED_CRITERIA)

    assert [
        deciding_criterion([0] * i + [1] + [9] * (n - 1 - i), [0] * n) for i in range(n)
    ] == list(MEASURED_CRITERIA)
