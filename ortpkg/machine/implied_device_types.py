"""Kinds and vendors of devices that an execution provider's name implies."""

from __future__ import annotations

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.machine.hardware import DeviceType

#: Kind of device that a provider is for, if its name implies it. Used to rank and filter only if a
#: provider reports no devices; a provider for several kinds (OpenVINO, QNN, DirectML, WebNN,
#: CoreML) is not listed.
IMPLIED_DEVICE_TYPES: dict[str, DeviceType] = {
    "NvTensorRTRTXExecutionProvider": DeviceType.GPU,
    "TensorrtExecutionProvider": DeviceType.GPU,
    "CUDAExecutionProvider": DeviceType.GPU,
    "MIGraphXExecutionProvider": DeviceType.GPU,
    "ROCMExecutionProvider": DeviceType.GPU,
    "WebGpuExecutionProvider": DeviceType.GPU,
    "VitisAIExecutionProvider": DeviceType.NPU,
    "RknpuExecutionProvider": DeviceType.NPU,
    "VSINPUExecutionProvider": DeviceType.NPU,
    "CANNExecutionProvider": DeviceType.NPU,
    "DnnlExecutionProvider": DeviceType.CPU,
    "XnnpackExecutionProvider": DeviceType.CPU,
    "ACLExecutionProvider": DeviceType.CPU,
    "ArmNNExecutionProvider": DeviceType.CPU,
    CPU_EP: DeviceType.CPU,
}

#: Vendor of a provider's devices, if it supports only one vendor.
IMPLIED_VENDORS: dict[str, str] = {
    "NvTensorRTRTXExecutionProvider": "NVIDIA",
    "TensorrtExecutionProvider": "NVIDIA",
    "CUDAExecutionProvider": "NVIDIA",
    "MIGraphXExecutionProvider": "AMD",
    "ROCMExecutionProvider": "AMD",
    "VitisAIExecutionProvider": "AMD",
    "RknpuExecutionProvider": "Rockchip",
    "CANNExecutionProvider": "Huawei",
}
