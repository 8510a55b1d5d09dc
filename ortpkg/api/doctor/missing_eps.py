"""Accelerators that no execution provider here runs on, and what to install for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES, IMPLIED_VENDORS

#: (vendor, type) → what to install so that an execution provider claims the device.
REMEDIES: dict[tuple[str, DeviceType], str] = {
    ("Intel", DeviceType.GPU): (
        "pip install openvino or onnxruntime-ep-openvino, and the driver's user space:"
        " intel-opencl-icd (Linux) or the graphics driver (Windows)"
    ),
    ("Intel", DeviceType.NPU): (
        "pip install openvino, and Intel's NPU driver: intel-driver-compiler-npu and"
        " intel-level-zero-npu (Linux)"
    ),
    ("NVIDIA", DeviceType.GPU): (
        "pip install onnxruntime-ep-nv-tensorrt-rtx (RTX GPUs), or onnxruntime-gpu[cuda,cudnn]"
        " instead of onnxruntime, or onnxruntime-ep-webgpu"
    ),
    ("AMD", DeviceType.GPU): (
        "install onnxruntime-migraphx and ROCm (Linux), or onnxruntime-directml (Windows), instead"
        " of onnxruntime; or pip install onnxruntime-ep-webgpu"
    ),
    (
        "AMD",
        DeviceType.NPU,
    ): "install AMD's Ryzen AI software, which brings VitisAIExecutionProvider",
    ("Qualcomm", DeviceType.NPU): "pip install onnxruntime-qnn",
    ("Qualcomm", DeviceType.GPU): "pip install onnxruntime-qnn",
    (
        "Apple",
        DeviceType.GPU,
    ): "pip install onnxruntime, whose macOS wheel has CoreMLExecutionProvider",
    (
        "Apple",
        DeviceType.NPU,
    ): "pip install onnxruntime, whose macOS wheel has CoreMLExecutionProvider",
    ("Rockchip", DeviceType.NPU): "use an onnxruntime that was built with RknpuExecutionProvider",
    ("Huawei", DeviceType.NPU): "install onnxruntime-cann and CANN",
}
#: EPs that list no devices and run on GPUs of every vendor.
_EPS_OF_ALL_GPUS = frozenset({"DmlExecutionProvider", "WebGpuExecutionProvider"})


_ANY_GPU = "pip install onnxruntime-ep-webgpu, which runs on GPUs of all vendors"
_ANY = "install the vendor's execution provider"


class MissingEp(NamedTuple):
    """An accelerator without an execution provider, and what brings one."""

    device: HardwareDevice
    remedy: str


def missing_eps(
    hardware: Iterable[HardwareDevice], ep_devices: Iterable[EpDevice]
) -> Iterator[MissingEp]:
    """Yield each accelerator in ``hardware`` that no EP device is on, with what to install."""
    offers = tuple(ep_devices)
    for device in hardware:
        if device.type is DeviceType.CPU or _is_claimed(offers, device):
            continue
        default = _ANY_GPU if device.type is DeviceType.GPU else _ANY
        yield MissingEp(device, REMEDIES.get((device.vendor, device.type), default))


def _is_claimed(ep_devices: Iterable[EpDevice], device: HardwareDevice) -> bool:
    """Return True if an EP lists the device, or lists none and runs on its kind and vendor."""
    for offer in ep_devices:
        if offer.device is not None:
            if _place(offer.device) == _place(device):
                return True
        elif offer.ep_name in _EPS_OF_ALL_GPUS:
            if device.type is DeviceType.GPU:
                return True
        elif offer.ep_name == "CoreMLExecutionProvider":
            if device.vendor == "Apple":
                return True
        elif (
            IMPLIED_DEVICE_TYPES.get(offer.ep_name) is device.type
            and IMPLIED_VENDORS.get(offer.ep_name) == device.vendor
        ):
            return True
    return False


def _place(device: HardwareDevice) -> tuple[object, ...]:
    at = device.metadata.get("pci_address") or device.metadata.get("platform_device") or device.name
    return (device.type, device.vendor_id, device.device_id, at)
