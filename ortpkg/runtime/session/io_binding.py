"""IOBinding: inputs and outputs bound once for many runs, as in onnxruntime's Python API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import InvalidFeedError, UsageError, quoted
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Tensor, Value
from ortpkg.runtime.session.node_args import NodeArg
from ortpkg.runtime.session.values.device_values import (
    Left,
    as_array,
    copy_tensor,
    may_be,
    open_memory,
    placed,
)
from ortpkg.runtime.session.values.ort_device import OrtDevice, check_is_host
from ortpkg.runtime.session.values.ort_value import OrtValue, array_at
from ortpkg.runtime.session.values.ort_value_vector import OrtValueVector

_CPU = "cpu"


class BoundSession(Protocol):
    """The methods of a session that a binding uses."""

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that must be fed."""
        ...

    def get_outputs(self) -> list[NodeArg]:
        """Return the model's outputs, in its order."""
        ...

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs with a default value."""
        ...


class IOBinding:
    """Inputs and outputs of runs of one session, bound once and used many times."""

    def __init__(self, session: BoundSession) -> None:
        self.session = session
        self._inputs: dict[str, Value] = {}
        self._outputs: dict[str, Tensor | DeviceTensor | Left | None] = {}
        self._results: list[OrtValue] = []
        self._known_inputs = {declared.name: declared for declared in session.get_inputs()}
        self._known_inputs |= {
            declared.name: declared for declared in session.get_overridable_initializers()
        }
        self._known_outputs = {declared.name: declared for declared in session.get_outputs()}

    @property
    def inputs(self) -> dict[str, Value]:
        """Bound inputs by name."""
        return self._inputs

    @property
    def targets(self) -> dict[str, Tensor | DeviceTensor | Left]:
        """Output → array, tensor or :class:`Left` that it is bound to."""
        return {name: target for name, target in self._outputs.items() if target is not None}

    @property
    def output_names(self) -> list[str]:
        """Bound outputs in the order in which they were bound."""
        return list(self._outputs)

    def bind_cpu_input(self, name: str, arr_on_cpu: Tensor) -> None:
        """Bind an array, which each run reads; nothing is copied now.

        Raises:
            InvalidFeedError: the model has no such input.
            UsageError: ``arr_on_cpu`` is not an array.
        """
        self._known_input(name)
        if not isinstance(arr_on_cpu, np.ndarray):
            raise UsageError(
                f"input {quoted(name)} is bound to an array, not to a {type(arr_on_cpu).__name__}"
            )
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind a value to input ``name`` without a copy.

        Raises:
            InvalidFeedError: the model has no such input.
        """
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
        """Bind memory of the caller, which must hold the tensor at each run."""
        check_is_host(device_type, device_id)
        self._known_input(name)
        self._inputs[name] = array_at(buffer_ptr, shape, element_type)

    def bind_output(
        self,
        name: str,
        device_type: str = _CPU,
        device_id: int = 0,
        element_type: npt.DTypeLike | int | None = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to memory of the caller, or (no ``buffer_ptr``) to what the run allocates.

        A run allocates in the memory of the device if a session of this process is on it, else in
        the CPU's memory, as onnxruntime's package for the CPU does.

        Raises:
            UsageError: an unknown output or device, or an address on a device.
        """
        self._known_output(name)
        if buffer_ptr is None:
            device = OrtDevice.make(device_type, device_id)
            memory = open_memory(device)
            self._outputs[name] = None if memory is None else Left(memory.name)
            return
        check_is_host(device_type, device_id)
        if element_type is None or shape is None:
            raise UsageError(
                f"output {quoted(name)}: a buffer_ptr needs an element_type and a shape"
            )
        self._outputs[name] = array_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to a tensor, on the CPU or a device, that the run writes into.

        Raises:
            UsageError: the output is unknown, the array is read-only, or the tensor on a device
                has another type or shape than the output.
        """
        self._known_output(name)
        target = ortvalue.tensor()
        if isinstance(target, DeviceTensor):
            self._check_fits(name, target)
        if isinstance(target, np.ndarray) and not target.flags.writeable:
            raise UsageError(f"output {quoted(name)} is bound to a read-only array")
        self._outputs[name] = target

    def clear_binding_inputs(self) -> None:
        """Remove all bound inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Remove all bound outputs, and the results of the last run."""
        self._outputs.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Do nothing: a run has read its inputs when it returns."""

    def synchronize_outputs(self) -> None:
        """Do nothing: reading a value on a device waits for it."""

    def get_outputs(self) -> list[OrtValue]:
        """Return the bound outputs of the last run."""
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """Return the bound outputs of the last run as a vector of values."""
        return OrtValueVector(self._results)

    def copy_outputs_to_cpu(self) -> list[Value]:
        """Return copies of the last run's bound outputs in the CPU's memory."""
        return [_copied(result.value) for result in self._results]

    def take_results(self, results: Sequence[Value]) -> None:
        """Put a run's results into the bound outputs.

        Raises:
            UsageError: a result does not fit its buffer.
        """
        values = []
        for (name, target), result in zip(self._outputs.items(), results, strict=True):
            if target is None or isinstance(target, Left):
                values.append(OrtValue(placed(result, target)))
                continue
            is_tensor = isinstance(result, np.ndarray | DeviceTensor)
            if not is_tensor or result.shape != target.shape or result.dtype != target.dtype:
                actual = f"{result.dtype}{list(result.shape)}" if is_tensor else "no tensor"
                bound = f"{target.dtype}{list(target.shape)}"
                raise UsageError(f"output {quoted(name)} is {actual}, but is bound to {bound}")
            if result is not target:
                copy_tensor(result, target)
            values.append(OrtValue(target))
        self._results = values

    def _known_input(self, name: str) -> NodeArg:
        if name not in self._known_inputs:
            raise InvalidFeedError(f"the model has no input {quoted(name)}", name=name)
        return self._known_inputs[name]

    def _check_fits(self, name: str, target: DeviceTensor) -> None:
        """Raise UsageError if a tensor has another type or shape than the output."""
        declared = self._known_outputs[name]
        if not may_be(target, declared.value_type):
            bound = f"{target.dtype}{list(target.shape)}"
            raise UsageError(
                f"output {quoted(name)} is {declared.type}{declared.shape or ''}, but is bound to"
                f" {bound}"
            )

    def _known_output(self, name: str) -> None:
        if name not in self._known_outputs:
            raise UsageError(f"the model has no output {quoted(name)}")


def _copied(value: Value) -> Value:
    return value.copy() if isinstance(value, np.ndarray) else as_array(value)
