"""One run's values of one graph, and the context that gives kernels memory and sub-graphs.

A frame belongs to one run and shares nothing with another. The memory of an output is the first
that applies: its location in the memory pattern; the buffer of the input that the plan lets it
overwrite, or of the dead value that it replaces; a new array. Graph outputs are always new arrays:
they belong to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from ortpkg.foundations.errors import (
    PlanVerificationError,
    quoted,
)
from ortpkg.runtime.engine.allocation_planner import AllocationPlan, AllocKind
from ortpkg.runtime.engine.execution_plan import ABSENT, ExecutionPlan
from ortpkg.runtime.engine.instructions import Instruction, OutputSlot
from ortpkg.runtime.engine.kept_parts import ValueParts
from ortpkg.runtime.engine.memories import Memories
from ortpkg.runtime.engine.memory_pattern import OrtValuePatternPlanner
from ortpkg.runtime.engine.owned_values import (
    as_shaped,
    copied,
    may_share_memory,
    without_shared_elements,
)
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.engine.workspace import Workspace, tensor_at
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Tensor, Value

#: Arrays smaller than this do not count towards a run's memory limit.
LEAST_COUNTED_NBYTES = 1 << 16

#: The kinds of a planned output, other than ALLOCATE_OUTPUT.
_PLANNED_KINDS = (AllocKind.ALLOCATE, AllocKind.REUSE)
_NO_TARGETS: Mapping[int, object] = MappingProxyType({})


class RunSubgraph(Protocol):
    """Function that runs the sub-graph in an ``attribute`` of a node."""

    def __call__(
        self,
        node_index: int,
        attribute: str,
        feeds: Sequence[Value],
        values: Sequence[Value],
        control: RunControl,
    ) -> list[Value]:
        """Run the sub-graph.

        ``values``: values of the surrounding graph, including the outer values of the sub-graph.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameGround:
    """Data that all runs of one graph share.

    Attributes:
        plan, allocation: plans of the graph.
        memories: allocators of arrays outside of workspaces.
        run_subgraph: runs the sub-graphs of nodes.
        no_views: views of a frame without a workspace.
    """

    plan: ExecutionPlan
    allocation: AllocationPlan
    memories: Memories
    run_subgraph: RunSubgraph
    no_views: Sequence[Tensor | None]


class NodeContext:
    """OpKernelContext of one node in one run."""

    __slots__ = ("_frame", "arguments", "handed", "instruction")

    def __init__(self, frame: ExecutionFrame, instruction: Instruction) -> None:
        self._frame = frame
        self.instruction = instruction
        self.arguments: list[Value] = []
        self.handed: list[Tensor] = []

    def output(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        slot = self.instruction.outputs[index]
        array: Tensor | None = self._frame.views[slot.value_index]
        if array is None or array.shape != shape or array.dtype != dtype:
            array = self._frame.allocate(slot, tuple(shape), np.dtype(dtype), self.instruction.step)
        self.handed.append(array)
        return array

    def device_target(self, index: int) -> object:
        slot = self.instruction.outputs[index]
        device = slot.device
        if device is not None and not device.is_host_accessible:
            return device
        return self._frame.device_targets.get(slot.value_index)

    @property
    def control(self) -> RunControl:
        """Limits of the run."""
        return self._frame.control

    def check_allocation(self, nbytes: int) -> None:
        self._frame.control.check_allocation(nbytes)

    @property
    def is_watched(self) -> bool:
        return self._frame.control.is_watched

    @property
    def is_memory_limited(self) -> bool:
        return self._frame.control.is_memory_limited

    @property
    def time_left_s(self) -> float | None:
        return self._frame.control.time_left_s

    def check_cancelled(self) -> None:
        self._frame.control.check()

    def run_subgraph(self, attribute: str, feeds: list[Value]) -> list[Value]:
        return self._frame.run_subgraph(self.instruction, attribute, feeds)


class ExecutionFrame:
    """The values of one run.

    Attributes:
        values: values by index, with one more at the end that stays None, for absent inputs.
        views: arrays in the workspace by value index (with one more at the end); None for no array.
        control: limits of the run.
        device_targets: graph outputs that this run leaves in the memory in which they are made:
            value index → result of ``OpKernelContext.device_target``.
        parts: counter of texts and elements of sequences; None if the caller set no limit.
        is_bookkeeping: True if a finished node needs more than dropping its dead values.
    """

    __slots__ = (
        "_buffers",
        "_charges",
        "_ground",
        "_tracer",
        "_workspace",
        "control",
        "device_targets",
        "is_bookkeeping",
        "parts",
        "values",
        "views",
    )

    def __init__(
        self,
        ground: FrameGround,
        values: list[Value],
        control: RunControl,
        *,
        workspace: Workspace | None = None,
        tracer: OrtValuePatternPlanner | None = None,
    ) -> None:
        self._ground = ground
        self._workspace = workspace
        self._tracer = tracer
        self._buffers: dict[int, Tensor] = {}
        self._charges: dict[int, int] = {}
        self.parts = None if control.caller_limit_nbytes is None else ValueParts(control)
        self.control = control
        self.device_targets: Mapping[int, object] = _NO_TARGETS
        self.values = values
        self.views: Sequence[Any] = ground.no_views if workspace is None else workspace.views
        self.is_bookkeeping = tracer is not None
        if tracer is not None:
            for index, value in enumerate(values):
                if isinstance(value, np.ndarray | DeviceTensor):
                    tracer.trace_existing(index, value.nbytes)

    # --- memory -----------------------------------------------------------------------------------

    def bind(self, targets: Mapping[int, Tensor]) -> None:
        """Compute outputs in ``targets`` (value index → memory), if shape and type fit."""
        self.views = list(self.views)
        for index, target in targets.items():
            self.views[index] = target

    def allocate(
        self, slot: OutputSlot, shape: tuple[int, ...], dtype: np.dtype[Any], step: int
    ) -> Tensor:
        """Return a C-contiguous array for an output: from the pattern first, else by its kind.

        In memory that the CPU cannot read, it is a DeviceTensor.

        Raises:
            LimitExceededError: the memory limit would be passed; nothing is allocated.
            PlanVerificationError: FAIL, no output can be of the planned kind.
        """
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < 0:
            raise ValueError(f"an output cannot have the shape {shape}")
        # it lies in its input's memory
        is_viewed = slot.is_alias and slot.kind is AllocKind.REUSE
        if (
            slot.kind is AllocKind.ALLOCATE_OUTPUT
            or slot.value_index == ABSENT
            or dtype.hasobject
            or is_viewed
        ):
            if is_viewed and self._tracer is not None:
                self._tracer.trace_reuse(slot.value_index, nbytes, step)
            return self._allocate_new(slot, nbytes, shape, dtype)
        if slot.kind not in _PLANNED_KINDS:
            raise self._misplanned(slot, step)
        if self._tracer is not None:
            trace = (
                self._tracer.trace_reuse
                if slot.kind is AllocKind.REUSE
                else self._tracer.trace_allocation
            )
            trace(slot.value_index, nbytes, step)
        if self._workspace is not None and self._workspace.has_room(slot.value_index, nbytes):
            view: Tensor = self._workspace.cut(slot.value_index, shape, dtype)
            return view
        if slot.takes_buffer:
            buffer = self._buffers.get(slot.buffer)
            if buffer is not None and buffer.nbytes == nbytes:
                return as_shaped(buffer, shape, dtype)
        array = self._allocate_new(slot, nbytes, shape, dtype)
        if slot.takes_buffer and slot.buffer not in self._buffers and self._workspace is None:
            self._buffers[slot.buffer] = array
            self._charges[slot.buffer] = self._charges.pop(slot.value_index, 0)
        self.is_bookkeeping = True
        return array

    def _misplanned(self, slot: OutputSlot, step: int) -> PlanVerificationError:
        kind = getattr(slot.kind, "value", slot.kind)
        return PlanVerificationError(
            f"node {quoted(self._ground.plan.steps[step].node_name)}: output {slot.value_index}"
            f" is planned as {quoted(kind)}, which nothing that a node makes can be"
        )

    def _allocate_new(
        self, slot: OutputSlot, nbytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Tensor:
        if nbytes >= LEAST_COUNTED_NBYTES:
            self._charge(slot.value_index, nbytes)
        if slot.device is None or dtype.hasobject:
            return np.empty(shape, dtype)
        block = self._ground.memories.allocate(slot.device, max(nbytes, 1))
        tensor: Tensor = tensor_at(slot.device, block, 0, shape, dtype)
        return tensor

    def _charge(self, value_index: int, nbytes: int) -> None:
        self.control.charge(nbytes)
        self._charges[value_index] = self._charges.get(value_index, 0) + nbytes

    def complete_node(self, instruction: Instruction) -> None:
        """Release what died with a node: buffers, charges, and the trace's entries."""
        for index in instruction.releases:
            if index not in self._buffers:
                self._discharge(index)
        for index in instruction.buffer_releases:
            self._buffers.pop(index, None)
            self._discharge(index)
        if self._tracer is not None:
            for index in instruction.releases:
                self._tracer.trace_free(index, instruction.step)

    def forget(self, index: int) -> None:
        """Drop a dead value and discharge its bytes (parallel execution)."""
        self.values[index] = None
        self._discharge(index)

    def _discharge(self, index: int) -> None:
        nbytes = self._charges.pop(index, 0)
        if nbytes:
            self.control.discharge(nbytes)
        if self.parts is not None:
            self.parts.give_back(index)

    def close(self) -> None:
        """Discharge all bytes at the end of the run."""
        for nbytes in self._charges.values():
            self.control.discharge(nbytes)
        self._charges.clear()
        if self.parts is not None:
            self.parts.close()

    # --- results ----------------------------------------------------------------------------------

    def store(self, context: NodeContext, result: Value) -> None:
        """Store a kernel's result.

        Raises:
            ValueError: the number of outputs is wrong.
        """
        outputs = context.instruction.outputs
        results = result if type(result) is tuple else (result,)
        if len(results) < len(outputs):
            raise ValueError(
                f"the kernel returned {len(results)} values for {len(outputs)} outputs"
            )
        handed = context.handed
        for position, slot in enumerate(outputs):
            if slot.value_index == ABSENT:
                continue
            value = results[position]
            if not (handed and value is handed[-1]):
                value = self._adopt(context, slot, value)
            self.values[slot.value_index] = value
            if self.parts is not None and self.parts.keep(slot.value_index, value):
                self.is_bookkeeping = True

    def _adopt(self, context: NodeContext, slot: OutputSlot, value: Value) -> Value:
        """Make a result safe to keep, and count it, if it is not the array that was handed out."""
        if type(value) is DeviceTensor or (
            slot.device is not None and not slot.device.is_host_accessible
        ):
            return self._adopt_far(context, slot, value)
        handed = context.handed
        if type(value) is not np.ndarray:
            if isinstance(value, np.generic):
                return np.asarray(value)
            if not isinstance(value, np.ndarray):
                return (
                    without_shared_elements(value, context.arguments)
                    if isinstance(value, list)
                    else value
                )
            if handed and any(value is array for array in handed):
                return value
            # np.matrix, masked arrays, np.memmap: their operators differ
            value = np.asarray(value)
        elif handed and any(value is array for array in handed):
            return value
        if slot.is_alias and slot.kind is AllocKind.REUSE:
            return value
        if value.dtype.kind in "US":
            return value.astype(object)
        if handed and any(np.may_share_memory(value, array) for array in handed):
            return value
        if (
            may_share_memory(value, context.arguments)
            or not context.instruction.inputs
            or not value.flags.writeable
        ):
            value = np.array(value, order="C", copy=True)
        if value.nbytes >= LEAST_COUNTED_NBYTES:
            self._charge(slot.value_index, value.nbytes)
            self.is_bookkeeping = True
        return value

    def _adopt_far(self, context: NodeContext, slot: OutputSlot, value: Value) -> Value:
        """Do the same as :meth:`_adopt` for a value or location in memory that the CPU cannot read.

        Raises:
            TypeError, ValueError: the value lies in another memory than the plan has, which its
                readers expect.
        """
        if value is None or (
            slot.value_index in self.device_targets and isinstance(value, DeviceTensor)
        ):
            return value
        expected = "of the CPU" if slot.device is None else repr(slot.device.name)
        if not isinstance(value, DeviceTensor):
            raise TypeError(
                f"the kernel returned {type(value).__name__} where a tensor in memory {expected}"
                " belongs"
            )
        if slot.device is None or value.memory != slot.device.name:
            raise ValueError(
                f"the kernel returned {value}, where the value lies in memory {expected}"
            )
        if any(value is tensor for tensor in context.handed) or (
            slot.is_alias and slot.kind is AllocKind.REUSE
        ):
            return value
        if not slot.device.is_divisible and any(value is handed for handed in context.arguments):
            return value  # passed through: nothing overwrites tensors in such memory
        if any(value.shares_bytes_with(argument) for argument in context.arguments):
            return self._copied_far(slot, value)
        if value.nbytes >= LEAST_COUNTED_NBYTES:
            self._charge(slot.value_index, value.nbytes)
            self.is_bookkeeping = True
        return value

    def _copied_far(self, slot: OutputSlot, value: DeviceTensor) -> Value:
        """Return a copy of the tensor in the same memory."""
        assert slot.device is not None
        copy: Any = self._allocate_new(slot, value.nbytes, value.shape, value.dtype)
        self._ground.memories.copy(slot.device, value, copy)
        self.is_bookkeeping = True
        return copy

    def fetch_all(self, indices: Sequence[int], handed_on: Collection[int] = ()) -> list[Value]:
        """Return the outputs in this order, none of which anybody else holds.

        An output that is requested twice becomes two arrays. Inputs among ``handed_on`` are
        returned as they were fed.
        """
        values, planned = self.values, self._ground.allocation.values
        results: list[Value] = []
        returned: set[int] = set()
        for index in indices:
            if index in handed_on:
                results.append(values[index])
                continue
            is_new = planned[index].alloc_kind is AllocKind.ALLOCATE_OUTPUT
            results.append(
                values[index] if is_new and index not in returned else copied(values[index])
            )
            returned.add(index)
        return results

    # --- sub-graphs -------------------------------------------------------------------------------

    def run_subgraph(
        self, instruction: Instruction, attribute: str, feeds: Sequence[Value]
    ) -> list[Value]:
        """Run a sub-graph of a node on ``feeds``, with the outer values that it uses."""
        return self._ground.run_subgraph(
            instruction.node_index, attribute, feeds, self.values, self.control
        )


def empty_views(count: int) -> Sequence[Tensor | None]:
    """Return the views of a frame without a workspace: None for each of ``count`` values.

    There is one more None, for the absent value.
    """
    return (None,) * (count + 1)
