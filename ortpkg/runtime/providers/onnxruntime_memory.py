"""Device memory of onnxruntime's execution providers, and runs with values in it.

onnxruntime tells in which memory a session reads each input and makes each output. A value on a
device is an OrtValue, which is passed from one session on the device to another without a copy.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ortpkg.graph.types import ElementType, element_type_of, numpy_dtype
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.kernel_registry import DeviceSlots
from ortpkg.runtime.kernels.op_kernel import Tensor
from ortpkg.runtime.providers.allocator import DeviceAllocator
from ortpkg.runtime.providers.device_memories import DeviceNumbers, memory_named, open_memory
from ortpkg.runtime.providers.onnxruntime_turns import takes_turns, turn
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime

onnxruntime = load_onnxruntime()

_log = logging.getLogger(__name__)
_SUFFIX, _CUDA_EP = "ExecutionProvider", "CUDAExecutionProvider"
#: onnxruntime's numbers (OrtDevice) of the kinds of devices that have memory of their own.
_DEVICE_TYPES = {"GPU": 1, "NPU": 3}
#: Names of devices for ``bind_output``, which takes no number of a vendor.
_WORDS = ("gpu", "webgpu", "cuda", "npu", "cann")


class _Block:
    """OrtValue on a device, with an object that must live as long (``keeps``)."""

    __slots__ = ("ep_name", "keeps", "value")

    def __init__(self, ep_name: str, value: Any, keeps: object = None) -> None:
        self.ep_name = ep_name
        self.value = value
        self.keeps = keeps

    def __del__(self) -> None:
        self.value = self.keeps = None  # in this order: the value lies in what is kept


class _BlockInTurns(_Block):
    """Block of an execution provider that must not free memory while a session runs."""

    __slots__ = ()

    def __del__(self) -> None:
        with contextlib.suppress(Exception), turn(self.ep_name):
            self.value = self.keeps = None


class OnnxRuntimeMemory(DeviceAllocator):
    """Memory of one device of an execution provider.

    Attributes:
        info: its ``OrtMemoryInfo``.
        word: name of the device for ``bind_output``; None if there is none for its vendor.
    """

    is_divisible = False

    def __init__(self, ep_name: str, info: Any, device_type: str) -> None:
        self.name = f"{ep_name.removesuffix(_SUFFIX)}:{info.device_id}"
        self.info = info
        self._ep_name = ep_name
        self._new_block = _BlockInTurns if takes_turns(ep_name) else _Block
        self._numbers = DeviceNumbers(
            _DEVICE_TYPES[device_type], int(info.device_vendor_id), int(info.device_id)
        )
        self.word = _word_of(self._numbers)

    def allocate(self, nbytes: int) -> Any:
        return self._new((nbytes,), ElementType.UINT8).block

    def upload(self, source: Tensor) -> DeviceTensor:
        target = self._new(source.shape, element_type_of(source.dtype))
        self.copy_from_host(source, target)
        return target

    def copy_from_host(self, source: Tensor, target: DeviceTensor) -> None:
        with turn(self._ep_name):
            onnxruntime.copy_tensors([_host_value(source)], [target.block.value])

    def copy_to_host(self, source: DeviceTensor, target: Tensor) -> None:
        with turn(self._ep_name):
            onnxruntime.copy_tensors([source.block.value], [_host_value(target)])

    def copy(self, source: DeviceTensor, target: DeviceTensor) -> None:
        with turn(self._ep_name):
            onnxruntime.copy_tensors([source.block.value], [target.block.value])

    def tensor_of(self, value: Any, keeps: object) -> DeviceTensor:
        """Return the tensor of an OrtValue on the device.

        Args:
            value: the OrtValue.
            keeps: object that must live as long as the tensor.
        """
        return DeviceTensor(
            memory=self.name,
            block=self._new_block(self._ep_name, value, keeps),
            offset=0,
            shape=tuple(value.shape()),
            dtype=_dtype(value.element_type()),
        )

    def is_open(self) -> bool:
        """Copy a few numbers to the device and back; return True if they come back unchanged.

        Call it once there is a session on the device, whose options the device then has.
        """
        memory = memory_named(self.name)
        if memory is not None:
            return True
        probe = np.arange(4, dtype=np.float32)
        try:
            uploaded = self.upload(probe)
            self.device_name = str(uploaded.block.value.device_name())
            returned = np.full_like(probe, -1)  # an empty array may have the very numbers
            self.copy_to_host(uploaded, returned)
            works = bool(np.array_equal(returned, probe))
        except Exception as error:  # noqa: BLE001 - onnxruntime has an exception for each status
            works = False
            _log.info("%s: values stay in the CPU's memory: %s", self._ep_name, error)
        if works:
            open_memory(self._numbers, self)
        return works

    def _new(self, shape: tuple[int, ...], element_type: ElementType) -> DeviceTensor:
        with turn(self._ep_name):
            value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                shape, int(element_type), memory_info=self.info
            )
        return self.tensor_of(value, None)


class CudaMemory(OnnxRuntimeMemory):
    """Memory of a GPU under onnxruntime's own CUDA provider, which lists no EP devices.

    Values go there by the word "cuda" and the number of the GPU; onnxruntime copies them.
    """

    def __init__(self, ep_name: str, device_id: int) -> None:
        info = SimpleNamespace(name="Cuda", device_id=device_id, device_vendor_id=0x10DE)
        super().__init__(ep_name, info, "GPU")

    def copy_from_host(self, source: Tensor, target: DeviceTensor) -> None:
        array = np.ascontiguousarray(source)
        with turn(self._ep_name):
            is_known = array.dtype.isbuiltin == 1
            target.block.value.update_inplace(array if is_known else _host_value(array))

    def copy_to_host(self, source: DeviceTensor, target: Tensor) -> None:
        with turn(self._ep_name):
            if target.dtype.isbuiltin == 1:
                np.copyto(target, source.block.value.numpy())
            else:
                _host_value(target).update_inplace(source.block.value)

    def copy(self, source: DeviceTensor, target: DeviceTensor) -> None:
        with turn(self._ep_name):
            target.block.value.update_inplace(source.block.value)

    def _new(self, shape: tuple[int, ...], element_type: ElementType) -> DeviceTensor:
        with turn(self._ep_name):
            value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                shape, int(element_type), "cuda", self.info.device_id
            )
        return self.tensor_of(value, None)


def _word_of(numbers: DeviceNumbers) -> str | None:
    """Return onnxruntime's name of a device; None if none of its names has that vendor.

    The vendor of a name depends on the package: onnxruntime-gpu takes "gpu" for NVIDIA's.
    """
    for word in _WORDS:
        with contextlib.suppress(Exception):  # an older release may lack the name, or the question
            device = onnxruntime.OrtDevice.make(word, numbers.device_id)
            if numbers == (device.device_type(), device.device_vendor_id(), device.device_id()):
                return word
    return None


def cuda_memory(ep_name: str, options: Mapping[str, str]) -> OnnxRuntimeMemory | None:
    """Return the memory of the GPU that options of the CUDA provider name; None for other EPs."""
    device_id = options.get("device_id", "0")
    is_number = device_id.isascii() and device_id.isdigit() and len(device_id) < 4
    return CudaMemory(ep_name, int(device_id)) if ep_name == _CUDA_EP and is_number else None


def device_runs(
    session: Any, inputs: Sequence[str], outputs: Sequence[str], memory: OnnxRuntimeMemory | None
) -> DeviceRuns | None:
    """Return the runs of a session on CUDA with values on its GPU.

    None if the session has no memory on a GPU, or onnxruntime is too old to tell.
    """
    tells = all(hasattr(session, f"get_{kind}_memory_infos") for kind in ("input", "output"))
    if memory is None or not tells or _CUDA_EP not in session.get_providers():
        return None
    return DeviceRuns(session, inputs, outputs, memory)


@functools.cache
def _dtype(element_type: int) -> np.dtype[Any]:
    return np.dtype(numpy_dtype(ElementType(element_type)))


def device_memory(ep_name: str, ep_device: Any) -> OnnxRuntimeMemory | None:
    """Return the memory of an ``OrtEpDevice``.

    None if that is the CPU's, or this onnxruntime does not tell.
    """
    kind = ep_device.device.type.name
    memory_type = getattr(onnxruntime, "OrtDeviceMemoryType", None)
    if kind not in _DEVICE_TYPES or memory_type is None or not hasattr(ep_device, "memory_info"):
        return None
    try:
        info = ep_device.memory_info(memory_type.DEFAULT)
    except Exception as error:  # noqa: BLE001 - the library answers
        _log.info("%s does not say which memory it has: %s", ep_name, error)
        return None
    return None if info is None else OnnxRuntimeMemory(ep_name, info, kind)


class DeviceRuns:
    """Runs of one session with values in the memory of its device.

    Attributes:
        slots: inputs and outputs that the session has in that memory.
    """

    def __init__(
        self, session: Any, inputs: Sequence[str], outputs: Sequence[str], memory: OnnxRuntimeMemory
    ) -> None:
        self._session = session
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._memory = memory
        self.slots = _slots(session, inputs, outputs, memory)
        self._movable = tuple(sorted(self.slots.outputs))

    def targets(self, context: object) -> Mapping[int, object]:
        """Return the outputs that stay on the device: slot → target of the run's context."""
        ask = getattr(context, "device_target", None)
        if ask is None or not self._movable:
            return {}
        return {slot: target for slot in self._movable if (target := ask(slot)) is not None}

    def run(self, inputs: Sequence[Any], targets: Mapping[int, object], options: Any) -> list[Any]:
        """Run the session once; the caller holds the EP's turn. Return the outputs in order.

        Args:
            inputs: arrays, or tensors on the device, in order.
            targets: result of :meth:`targets`.
            options: onnxruntime's run options, or None.
        """
        binding = self._session.io_binding()
        for name, value in zip(self._inputs, inputs, strict=True):
            if isinstance(value, DeviceTensor):
                binding.bind_ortvalue_input(name, value.block.value)
            else:
                binding.bind_cpu_input(name, value)
        for slot, name in enumerate(self._outputs):
            target = targets.get(slot)
            if isinstance(target, DeviceTensor):
                binding.bind_ortvalue_output(name, target.block.value)
            elif target is not None:
                binding.bind_output(name, self._memory.word, self._memory.info.device_id)
            else:
                binding.bind_output(name)
        self._session.run_with_iobinding(binding, options)
        # The vector keeps the binding alive, which keeps the session with the values' allocator.
        values = binding.get_outputs_as_ortvaluevector()
        return [self._result(values, slot, targets.get(slot)) for slot in range(len(self._outputs))]

    def _result(self, values: Any, slot: int, target: object) -> Any:
        if type(target) is DeviceTensor:
            return target
        value = onnxruntime.OrtValue(values[slot])
        return value.numpy() if target is None else self._memory.tensor_of(value, values)


def _slots(
    session: Any, inputs: Sequence[str], outputs: Sequence[str], memory: OnnxRuntimeMemory
) -> DeviceSlots:
    """Return the inputs and outputs of a session in ``memory``; none if it does not tell."""
    if not memory.is_open():
        return DeviceSlots()
    try:
        input_infos = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
        output_infos = zip(session.get_outputs(), session.get_output_memory_infos(), strict=True)
        return DeviceSlots(
            inputs=_slots_in(memory, inputs, input_infos),
            outputs=_slots_in(memory, outputs, output_infos if memory.word is not None else ()),
        )
    except Exception as error:  # noqa: BLE001 - onnxruntime has an exception for each status
        _log.info("%s: values stay in the CPU's memory: %s", memory.name, error)
        return DeviceSlots()


def _slots_in(
    memory: OnnxRuntimeMemory, names: Sequence[str], values: Iterable[tuple[Any, Any]]
) -> frozenset[int]:
    """Return the positions in ``names`` of the values in ``memory``.

    Args:
        memory: memory of a device.
        names: inputs or outputs, in order.
        values: pairs of an argument and its memory info.
    """
    names_on_device = {
        argument.name
        for argument, info in values
        if (info.name, info.device_id) == (memory.info.name, memory.info.device_id)
    }
    return frozenset(slot for slot, name in enumerate(names) if name in names_on_device)


def _host_value(array: Tensor) -> Any:
    """Return an OrtValue over an array, without a copy; also for types that numpy lacks."""
    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    words = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    kind = int(element_type_of(array.dtype))
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(words, kind)
