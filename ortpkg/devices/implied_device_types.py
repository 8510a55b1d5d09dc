"""Kinds and vendors of devices that the name alone of an execution provider implies."""

from __future__ import annotations

from ortpkg.devices.hardware import DeviceType
from ortpkg.ep_names import CPU_EP

#: What kind of device a provider is for, where its name alone decides. Used to rank and filter only
#: where a provider reports no devices; a provider for several kinds (OpenVINO, QNN, DirectML,
#: WebNN, CoreML) is not listed.
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

#: Vendor of the devices that a provider runs on, where it is for one vendor's alone.
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
