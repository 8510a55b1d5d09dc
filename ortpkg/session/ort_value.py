"""OrtValue and IOBinding, as onnxruntime's Python API has them, over arrays in the memory of the CPU."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ortpkg.errors import InvalidFeedError, UsageError, quoted
from ortpkg.graph.types import ElementType, TensorType, element_type_of, numpy_dtype
from ortpkg.kernels.op_kernel import Tensor, Value
from ortpkg.session.node_args import NodeArg

if TYPE_CHECKING:
    from ortpkg.session.onnxruntime_surface import OnnxruntimeSurface

_CPU = "cpu"


class OrtValue:
    """A value at run time: an array, a sequence, a map, or nothing."""

    def __init__(self, value: Value) -> None:
        self._value = value

    @classmethod
    def ortvalue_from_numpy(cls, array: Tensor, device_type: str = _CPU, device_id: int = 0) -> OrtValue:
        """Wraps ``array`` without copying it; it must outlive the OrtValue unchanged."""
        _check_device(device_type, device_id)
        return cls(np.asarray(array))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: npt.DTypeLike | int,
        device_type: str = _CPU,
        device_id: int = 0,
        vendor_id: int = -1,  # noqa: ARG003 - the CPU's is any
    ) -> OrtValue:
        """An uninitialized tensor; ``element_type``: a numpy type, or a number of TensorProto.DataType."""
        _check_device(device_type, device_id)
        dtype = numpy_dtype(ElementType(element_type)) if isinstance(element_type, int) else np.dtype(element_type)
        return cls(np.empty(tuple(shape), dtype))

    def numpy(self) -> Tensor:
        """The array itself. UsageError for what is not a tensor."""
        if not isinstance(self._value, np.ndarray):
            raise UsageError(f"only a tensor has an array, this is a {self.data_type()}")
        return self._value

    @property
    def value(self) -> Value:
        """The value itself, whatever its kind."""
        return self._value

    def shape(self) -> list[int]:
        """Sizes of its dimensions. UsageError for what is not a tensor."""
        return list(self.numpy().shape)

    def data_type(self) -> str:
        """ONNX Runtime's text, e.g. "tensor(float)"."""
        if isinstance(self._value, np.ndarray):
            return str(TensorType(element_type_of(self._value.dtype)))
        return {list: "sequence", dict: "map", type(None): "none"}.get(type(self._value), "opaque")

    def element_type(self) -> int:
        """TensorProto.DataType of the elements."""
        return int(element_type_of(self.numpy().dtype))

    def device_name(self) -> str:
        """Always "cpu": values of this engine live in the host's memory."""
        return _CPU

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.numpy().ctypes.data)

    def has_value(self) -> bool:
        """False for an optional that is empty."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether the value is one tensor."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether the value is a sequence."""
        return isinstance(self._value, list)

    def update_inplace(self, array: Tensor) -> None:
        """Overwrites the elements. UsageError where shape or type differ."""
        own = self.numpy()
        if own.shape != array.shape or own.dtype != array.dtype:
            raise UsageError(f"cannot write {array.dtype}{list(array.shape)} over {own.dtype}{list(own.shape)}")
        np.copyto(own, array)


class IOBinding:
    """Inputs and outputs of runs of one session, bound once and used many times."""

    def __init__(self, session: OnnxruntimeSurface) -> None:
        self.session = session
        self._inputs: dict[str, Value] = {}
        self._outputs: dict[str, Tensor | None] = {}
        self._results: list[OrtValue] = []
        self._known_inputs = {declared.name: declared for declared in session.get_inputs()}
        self._known_inputs |= {declared.name: declared for declared in session.get_overridable_initializers()}
        self._known_outputs = [declared.name for declared in session.get_outputs()]

    @property
    def inputs(self) -> dict[str, Value]:
        """Bound inputs by name."""
        return self._inputs

    @property
    def output_names(self) -> list[str]:
        """Bound outputs in the order in which they were bound."""
        return list(self._outputs)

    def bind_cpu_input(self, name: str, array: Tensor) -> None:
        """Binds an array. It is read at each run, not copied now."""
        self._known_input(name)
        self._inputs[name] = array

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Feeds a value as input ``name`` without a copy. InvalidFeedError for a name that the model has not."""
        self._known_input(name)
        self._inputs[name] = ortvalue.value

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: npt.DTypeLike | int,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Binds memory of the caller's, which must hold the tensor at each run."""
        _check_device(device_type, device_id)
        self._known_input(name)
        self._inputs[name] = _array_at(buffer_ptr, shape, element_type)

    def bind_output(
        self,
        name: str,
        device_type: str = _CPU,
        device_id: int = 0,
        element_type: npt.DTypeLike | int | None = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds an output: to memory of the caller's, or (without ``buffer_ptr``) to whatever the run makes."""
        _check_device(device_type, device_id)
        self._known_output(name)
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise UsageError(f"output {quoted(name)}: a buffer_ptr needs an element_type and a shape")
        self._outputs[name] = _array_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output to a tensor that the run writes into."""
        self._known_output(name)
        target = ortvalue.numpy()
        if not target.flags.writeable:
            raise UsageError(f"output {quoted(name)} is bound to a read-only array")
        self._outputs[name] = target

    def clear_binding_inputs(self) -> None:
        """Forgets every input that was bound."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets every output that was bound, and the results of the last run."""
        self._outputs.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: all values lie in the memory of the CPU."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: all values lie in the memory of the CPU."""

    def get_outputs(self) -> list[OrtValue]:
        """The bound outputs of the last run."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Value]:
        """The bound outputs of the last run as arrays of the caller's own."""
        return [_copied(result.value) for result in self._results]

    def take_results(self, results: Sequence[Value]) -> None:
        """Puts a run's results into the bound outputs. UsageError where one does not fit its buffer."""
        taken = []
        for (name, target), result in zip(self._outputs.items(), results, strict=True):
            if target is None:
                taken.append(OrtValue(result))
                continue
            if not isinstance(result, np.ndarray) or result.shape != target.shape or result.dtype != target.dtype:
                made = f"{result.dtype}{list(result.shape)}" if isinstance(result, np.ndarray) else "no tensor"
                bound = f"{target.dtype}{list(target.shape)}"
                raise UsageError(f"output {quoted(name)} is {made}, but is bound to {bound}")
            np.copyto(target, result)
            taken.append(OrtValue(target))
        self._results = taken

    def _known_input(self, name: str) -> NodeArg:
        if name not in self._known_inputs:
            raise InvalidFeedError(f"the model has no input {quoted(name)}", name=name)
        return self._known_inputs[name]

    def _known_output(self, name: str) -> None:
        if name not in self._known_outputs:
            raise UsageError(f"the model has no output {quoted(name)}")


def _check_device(device_type: str, device_id: int) -> None:
    if device_type != _CPU or device_id != 0:
        raise UsageError(f"values lie on device 'cpu', id 0; {quoted(device_type)}, id {device_id} is not supported")


def _array_at(address: int, shape: Sequence[int], element_type: npt.DTypeLike | int) -> Tensor:
    """The caller's memory as an array."""
    dtype: np.dtype[Any] = (
        numpy_dtype(ElementType(element_type)) if isinstance(element_type, int) else np.dtype(element_type)
    )
    nbytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise UsageError(f"a tensor of {dtype} cannot be bound by its address")
    if any(size < 0 for size in shape) or not 0 < address <= sys.maxsize - nbytes:
        raise UsageError(f"there is no tensor of shape {tuple(shape)} at the address {address}")
    memory = (ctypes.c_byte * nbytes).from_address(address)
    return np.ndarray(tuple(shape), dtype, buffer=memoryview(memory))


def _copied(value: Value) -> Value:
    return value.copy() if isinstance(value, np.ndarray) else value
