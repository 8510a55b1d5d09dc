"""Enumerations of onnxruntime's Python module, with its names and numbers.

Imports neither numpy nor onnx. Source: ``dir(onnxruntime)`` of 1.31. The enumerations for options
of a session are in the module of the options.
"""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag


class NamedNumber(IntEnum):
    """Base of the enumerations; members print as onnxruntime's do in every version of Python."""

    __str__ = Enum.__str__


class ExecutionOrder(NamedNumber):
    """Order of nodes that could all run next; the session's plan shows the order in use."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(NamedNumber):
    """Kind of allocator."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(NamedNumber):
    """Purpose of a piece of memory, seen from an execution provider."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtMemoryInfoDeviceType(NamedNumber):
    """Kinds of devices that have memory."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtDeviceMemoryType(NamedNumber):
    """Kind of device memory: for the device alone, or accessible to the host."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtDeviceVendorId(NamedNumber):
    """PCI vendor numbers of device makers."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtHardwareDeviceType(NamedNumber):
    """Kind of hardware device."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtExecutionProviderDevicePolicy(NamedNumber):
    """Choice of devices for a session that names no execution provider."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtSparseFormat(NamedNumber):
    """Format in which a sparse tensor stores the indices of its values."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtCompileApiFlags(IntFlag):
    """Conditions under which compiling a model is an error."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class OrtCompiledModelCompatibility(NamedNumber):
    """Rating of a compiled model on a device."""

    EP_NOT_APPLICABLE = 0
    EP_SUPPORTED_OPTIMAL = 1
    EP_SUPPORTED_PREFER_RECOMPILATION = 2
    EP_UNSUPPORTED = 3


class OrtDeviceEpIncompatibilityReason(NamedNumber):
    """Reason why an execution provider cannot use a device; several reasons add up."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = -(1 << 31)
