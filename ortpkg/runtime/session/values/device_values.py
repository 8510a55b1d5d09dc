"""Values that stay in the memory of a device between runs.

A session's plan decides which inputs and outputs may: inputs that only kernels on the device read,
and outputs that one of them makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.graph.graph import ONNX_DOMAIN
from ortpkg.graph.types import ElementType, TensorType, ValueType, numpy_dtype
from ortpkg.runtime.engine.device_copies import MEMCPY_FROM_HOST, MEMCPY_TO_HOST
from ortpkg.runtime.engine.executable_graph import ExecutableGraph
from ortpkg.runtime.engine.execution_plan import NodeStep
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Tensor
from ortpkg.runtime.providers.allocator import DeviceAllocator
from ortpkg.runtime.providers.device_memories import DeviceNumbers, memory_named, open_memory_of
from ortpkg.runtime.session.values.ort_device import OrtDevice, check_is_host

_CPU = "cpu"


class Left(NamedTuple):
    """Target of an output that stays on a device.

    Attributes:
        memory: name of the device's memory.
    """

    memory: str


class DeviceBorders(NamedTuple):
    """Memories in which a session reads inputs and leaves outputs without a copy.

    Attributes:
        inputs, outputs: name → memory, for values on a device; the others are arrays.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


NO_BORDERS = DeviceBorders({}, {})


def device_borders(executable: ExecutableGraph) -> DeviceBorders:
    """Return the inputs and outputs that may stay on a device by the plan of a session."""
    plan = executable.plan
    if all(device.is_host_accessible for device in executable.memories.devices.values()):
        return NO_BORDERS
    readers: dict[int, list[str]] = {}
    makers: dict[int, str] = {}
    for step in plan.steps:
        for slot, index in enumerate(step.inputs):
            readers.setdefault(index, []).append(_memory_of_input(step, slot))
        for index in step.implicit_inputs:
            readers.setdefault(index, []).append("")
        for slot, index in enumerate(step.outputs):
            makers[index] = _memory_of_output(step, slot)
    outputs = frozenset(plan.outputs)
    inputs = {
        plan.values.name_of(index): memories.pop()
        for index in plan.inputs
        if index not in outputs and len(memories := {*readers.get(index, [""])}) == 1
    }
    left = {
        plan.values.name_of(index): makers[index]
        for index in plan.outputs
        if index in makers and index not in readers
    }
    return DeviceBorders(_named(inputs), _named(left))


def _named(memories: Mapping[str, str]) -> Mapping[str, str]:
    return {name: memory for name, memory in memories.items() if memory}


def _is_copy(step: NodeStep, op_type: str) -> bool:
    return step.op_type == op_type and step.kernel.domain == ONNX_DOMAIN


def _memory_of_input(step: NodeStep, slot: int) -> str:
    """Return the memory in which a step reads an input without a copy; "" for the CPU's."""
    slots = step.kernel.device_slots
    takes = _is_copy(step, MEMCPY_FROM_HOST) or (slots is not None and slot in slots.movable_inputs)
    return step.device.name if takes and not step.device.is_divisible else ""


def _memory_of_output(step: NodeStep, slot: int) -> str:
    slots = step.kernel.device_slots
    leaves = _is_copy(step, MEMCPY_TO_HOST) or (slots is not None and slot in slots.movable_outputs)
    return step.device.name if leaves and not step.device.is_divisible else ""


def memory_of(device: str | OrtDevice, device_id: int = 0, vendor_id: int = -1) -> DeviceAllocator:
    """Return the open memory of a device.

    Raises:
        UsageError: no session of this process is on the device, or its name is unknown.
    """
    if isinstance(device, str):
        device = OrtDevice.make(device, device_id, vendor_id)
    memory = open_memory(device)
    if memory is None:
        raise UsageError(
            f"no memory of {device!r} is open in this process: values lie there once there is a"
            " session on it"
        )
    return memory


def open_memory(device: OrtDevice) -> DeviceAllocator | None:
    """Return the memory of a device; None for the CPU, and for one that is not open."""
    if not device.device_type():
        return None
    return open_memory_of(
        DeviceNumbers(device.device_type(), device.device_vendor_id(), device.device_id())
    )


def is_host(device: str | OrtDevice, device_id: int = 0, vendor_id: int = -1) -> bool:
    """Return True for the CPU, False for a device whose memory is open.

    Raises:
        UsageError: any other device.
    """
    name = device if isinstance(device, str) else ""
    if name == _CPU or (not name and isinstance(device, OrtDevice) and not device.device_type()):
        check_is_host(device, device_id)
        return True
    try:
        memory_of(device, device_id, vendor_id)
    except UsageError:
        check_is_host(device, device_id)  # its error says what is possible
    return False


def open_memory_named(name: str) -> DeviceAllocator:
    """Return the memory of a name; UsageError if it is not open in this process."""
    memory = memory_named(name)
    if memory is None:
        raise UsageError(f"there is no memory {quoted(name)} in this process")
    return memory


def may_be(tensor: DeviceTensor, declared: ValueType | None) -> bool:
    """Return True unless a value of the declared type has another element type or shape."""
    if not isinstance(declared, TensorType):
        return declared is None
    if declared.element_type is ElementType.UNDEFINED:
        return True
    if tensor.dtype != numpy_dtype(declared.element_type):
        return False
    sizes = tensor.shape if declared.shape is None else declared.shape
    return len(sizes) == tensor.ndim and all(
        not isinstance(size, int) or size == actual
        for size, actual in zip(sizes, tensor.shape, strict=True)
    )


def as_array(value: Any) -> Any:
    """Return a value in the CPU's memory: itself, or a copy of one on a device."""
    return (
        open_memory_named(value.memory).download(value)
        if isinstance(value, DeviceTensor)
        else value
    )


def copy_tensor(source: Tensor | DeviceTensor, target: Tensor | DeviceTensor) -> None:
    """Copy elements between any two memories; shapes and types must be equal."""
    if isinstance(target, DeviceTensor):
        memory = open_memory_named(target.memory)
        if not isinstance(source, DeviceTensor):
            memory.copy_from_host(np.ascontiguousarray(source).reshape(source.shape), target)
        elif source.memory == target.memory:
            memory.copy(source, target)
        else:
            memory.copy_from_host(as_array(source), target)
    elif isinstance(source, DeviceTensor):
        memory = open_memory_named(source.memory)
        if target.flags.c_contiguous:
            memory.copy_to_host(source, target)
        else:
            np.copyto(target, memory.download(source))
    else:
        np.copyto(target, source)


def placed(value: Any, target: object) -> Any:
    """Return a result of a run in the memory that its caller wants.

    Args:
        value: an array, a tensor on a device, or a value that is no tensor.
        target: a :class:`Left` for a device, None for an array. Texts, sequences and maps stay in
            the CPU's memory.
    """
    if not isinstance(target, Left):
        return as_array(value)
    if isinstance(value, DeviceTensor) and value.memory == target.memory:
        return value
    array = as_array(value)
    is_number = isinstance(array, np.ndarray) and not array.dtype.hasobject
    if not is_number:
        return array  # texts, sequences and maps always lie in the CPU's memory
    source = array if array.flags.c_contiguous else array.copy(order="C")
    return open_memory_named(target.memory).upload(source)
