"""Two execution providers with memory that the CPU cannot read, so that tests mean it.

The bytes of a block lie in a table of its device, scrambled, and are found by a handle that says
nothing. They start as noise, are unscrambled by the device's own kernels and copy methods only, and
those refuse tensors of another memory, blocks that were freed, offsets that are not aligned and
ranges that do not lie within the block. What is handed to a kernel as an array, where a
DeviceTensor belongs, is an error too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.kernel_registry import DeviceSlots, KernelDef, KernelRegistry
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo
from ortpkg.runtime.providers.execution_provider import (
    Allocator,
    BackendPlacement,
    ComputeCapability,
    DeviceAllocator,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.runtime.providers.native_library import NativeLibrary, NativeModel

Array = npt.NDArray[Any]
_EVERY_VERSION = tuple(range(1, 30))

#: Operator → what it computes, of those that a device runs.
FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "Neg": np.negative,
    "Abs": np.abs,
    "Exp": np.exp,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "MatMul": np.matmul,
    "Reshape": lambda x, shape: x.reshape([int(size) for size in shape]),
}


class Handle:
    """A block as its allocator hands it out."""


class FarDevice(DeviceAllocator):
    """One device: its memory, and counts of what was done with it.

    Attributes:
        to_device, to_host, within: bytes of each copy, in order.
        allocated: bytes of each block that was ever handed out.
    """

    def __init__(self, name: str, alignment: int = 256) -> None:
        self.name = name
        self.alignment = alignment
        self.to_device: list[int] = []
        self.to_host: list[int] = []
        self.within: list[int] = []
        self.allocated: list[int] = []
        self._key = np.uint8(sum(name.encode()) % 251 + 1)
        self._bytes: dict[int, Array] = {}

    @property
    def live_nbytes(self) -> int:
        """Bytes of the blocks that somebody still holds."""
        return sum(block.nbytes for block in self._bytes.values())

    def allocate(self, nbytes: int) -> Any:
        handle = Handle()
        self.allocated.append(nbytes)
        self._bytes[id(handle)] = np.random.default_rng(nbytes).integers(
            0, 256, nbytes, dtype=np.uint8
        )
        weakref.finalize(handle, self._bytes.pop, id(handle))
        return handle

    def copy_from_host(self, source: Any, target: DeviceTensor) -> None:
        assert type(source) is np.ndarray
        assert source.flags.c_contiguous
        self.to_device.append(source.nbytes)
        self.write(target, source)

    def copy_to_host(self, source: DeviceTensor, target: Any) -> None:
        assert type(target) is np.ndarray
        assert target.flags.c_contiguous
        self.to_host.append(target.nbytes)
        np.copyto(target, self.read(source))

    def copy(self, source: DeviceTensor, target: DeviceTensor) -> None:
        self.within.append(source.nbytes)
        self.write(target, self.read(source))

    def read(self, tensor: Any) -> Array:
        """What the device's own code sees."""
        bytes_ = self._range(tensor) ^ self._key
        return np.frombuffer(bytes_.tobytes(), tensor.dtype).reshape(tensor.shape).copy()

    def write(self, tensor: Any, array: Array) -> None:
        """Written by the device's own code."""
        place = self._range(tensor)
        assert (array.shape, array.dtype) == (tensor.shape, tensor.dtype)
        place[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8) ^ self._key

    def _range(self, tensor: Any) -> Array:
        assert isinstance(tensor, DeviceTensor), f"{self.name} was handed {type(tensor).__name__}"
        assert tensor.memory == self.name, f"{self.name} was handed {tensor}"
        block = self._bytes[id(tensor.block)]
        assert tensor.offset % self.alignment == 0
        assert 0 <= tensor.offset <= block.nbytes - tensor.nbytes
        return block[tensor.offset : tensor.offset + tensor.nbytes]


class FarLibrary(NativeLibrary):
    """A native library on a device, whose models copy by themselves what they are not left there.

    Its memory is a table of values: several never lie in one block. ``device`` counts all copies.

    Args:
        device: where it computes.
        reads_on_cpu, makes_on_cpu: values of models that it has in the CPU's memory.
    """

    backend = "acme"

    def __init__(
        self,
        device: FarDevice,
        *,
        reads_on_cpu: Sequence[str] = (),
        makes_on_cpu: Sequence[str] = (),
    ) -> None:
        device.is_divisible = False
        self.device = device
        self._on_cpu = frozenset((*reads_on_cpu, *makes_on_cpu))

    @property
    def memory(self) -> Allocator | None:
        return self.device

    def compile_model(self, model: NativeModel) -> FarModel:
        loaded = onnx.load_from_string(model.data)
        operators = {node.op_type for node in loaded.graph.node}
        if not operators <= FUNCTIONS.keys():
            raise ValueError(f"no kernel of {', '.join(sorted(operators - FUNCTIONS.keys()))}")
        return FarModel(self.device, loaded, model, self._on_cpu)


class FarModel:
    """A model in that library."""

    def __init__(
        self,
        device: FarDevice,
        loaded: onnx.ModelProto,
        model: NativeModel,
        on_cpu: frozenset[str],
    ) -> None:
        self._device, self._model = device, model
        self._evaluator = ReferenceEvaluator(loaded)
        self.device_slots = DeviceSlots(
            frozenset(at for at, name in enumerate(model.inputs) if name not in on_cpu),
            frozenset(at for at, name in enumerate(model.outputs) if name not in on_cpu),
        )

    def compute(self, inputs: Sequence[Any], context: Any) -> Sequence[Any]:
        device = self._device
        arrays = []
        for slot, value in enumerate(inputs):
            if isinstance(value, DeviceTensor):
                arrays.append(device.read(value))
                continue
            if slot in self.device_slots.inputs:
                device.to_device.append(value.nbytes)
            arrays.append(value)
        feeds = dict(zip(self._model.inputs, arrays, strict=True))
        outputs = self._evaluator.run(list(self._model.outputs), feeds)
        return [self._given(slot, array, context) for slot, array in enumerate(outputs)]

    def _given(self, slot: int, array: Array, context: Any) -> Any:
        if slot not in self.device_slots.outputs:
            return array
        target = context.device_target(slot)
        if target is None:
            self._device.to_host.append(array.nbytes)
            return array
        if not isinstance(target, DeviceTensor):
            block = self._device.allocate(max(array.nbytes, 1))
            target = DeviceTensor(
                memory=self._device.name, block=block, offset=0, shape=array.shape,
                dtype=array.dtype,
            )  # fmt: skip
        self._device.write(target, array)
        return target

    def get_placement(self) -> Sequence[BackendPlacement]:
        return ()


class FarKernelProvider(ExecutionProvider):
    """Runs operators one by one, by kernels that compute on its device into planned memory."""

    def __init__(self, name: str, device: FarDevice, *op_types: str) -> None:
        super().__init__(name)
        self.device = device
        self._registry = KernelRegistry([_kernel_def(device, op_type) for op_type in op_types])

    @property
    def kernel_registry(self) -> KernelRegistry:
        return self._registry

    def create_allocator(self) -> Allocator:
        return self.device


class FarCompilingProvider(ExecutionProvider):
    """Fuses each run of neighbouring nodes that it knows, and computes them on its device.

    ``result``: what a partition returns in place of what it computed, given the device, inputs and
        outputs.
    """

    def __init__(
        self,
        name: str,
        device: FarDevice,
        *op_types: str,
        result: Callable[[FarDevice, Sequence[Any], list[Any]], list[Any]] | None = None,
    ) -> None:
        super().__init__(name)
        self.device = device
        self._op_types = op_types
        self._result = result

    def create_allocator(self) -> Allocator:
        return self.device

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        runs: list[list[Node]] = [[]]
        for node in viewer.nodes:
            if node.op_type in self._op_types and not node.execution_provider:
                runs[-1].append(node)
            elif runs[-1]:
                runs.append([])
        return [self._capability(viewer, run, number) for number, run in enumerate(runs) if run]

    def _capability(
        self, viewer: GraphViewer, run: Sequence[Node], number: int
    ) -> ComputeCapability:
        graph = viewer.graph
        inside = {node.index for node in run}
        made = [value for node in run for value in node.outputs]
        taken = dict.fromkeys(
            value for node in run for value in node.inputs if value and value not in made
        )
        given = [
            value
            for value in made
            if graph.is_output(value)
            or any(use.node_index not in inside for use in graph.consumers_of(value))
        ]
        meta = MetaDef(
            name=f"{self.name}_{graph.name}_{number}", inputs=tuple(taken), outputs=tuple(given)
        )
        return ComputeCapability(node_indices=tuple(inside), meta_def=meta)

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        return [NodeComputeInfo(compute=self._computing(fused)) for fused in fused_nodes]

    def _computing(
        self, fused: FusedNode
    ) -> Callable[[Any, Sequence[Any], OpKernelContext], Sequence[Any]]:
        body = fused.body

        def compute(_state: Any, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
            values = {
                name: self.device.read(value)
                for name, value in zip(body.inputs, inputs, strict=True)
            }
            for node in body.nodes:
                values[node.outputs[0]] = FUNCTIONS[node.op_type](
                    *(values[name] for name in node.inputs)
                )
            outputs = []
            for slot, name in enumerate(body.outputs):
                array = np.asarray(values[name])
                outputs.append(context.output(slot, array.shape, array.dtype))
                self.device.write(outputs[-1], array)
            return outputs if self._result is None else self._result(self.device, inputs, outputs)

        return compute


def _kernel_def(device: FarDevice, op_type: str) -> KernelDef:
    host_inputs = (1,) if op_type == "Reshape" else ()

    def factory(_info: OpKernelInfo) -> Compute:
        def compute(context: OpKernelContext, *inputs: Any) -> Any:
            arrays = [
                value if slot in host_inputs else device.read(value)
                for slot, value in enumerate(inputs)
            ]
            result = np.asarray(FUNCTIONS[op_type](*arrays))
            output = context.output(0, result.shape, result.dtype)
            device.write(output, result)
            return output

        return compute

    return KernelDef(
        op_type=op_type,
        since=_EVERY_VERSION,
        factory=factory,
        in_place=() if op_type in {"MatMul", "Reshape"} else ((0, 0),),
        host_inputs=host_inputs,
    )
