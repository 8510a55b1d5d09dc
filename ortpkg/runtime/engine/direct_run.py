"""Run a graph that is one compiled partition, as most models on a native library are.

Such a run needs no execution frame: the partition gets the feeds, and its results are those of the
run. A result that needs care, e.g. one that shares memory with a feed, is left to a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.runtime.engine.allocation_planner import AllocationPlan, AllocKind
from ortpkg.runtime.engine.execution_frame import LEAST_COUNTED_NBYTES, ExecutionFrame, NodeContext
from ortpkg.runtime.engine.execution_plan import ExecutionPlan
from ortpkg.runtime.engine.instructions import Instruction
from ortpkg.runtime.engine.owned_values import may_share_memory
from ortpkg.runtime.engine.plain_context import PlainContext
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.engine.run_errors import run_error
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Value

_NO_TARGETS: Mapping[int, object] = MappingProxyType({})


def is_one_step(plan: ExecutionPlan, allocation: AllocationPlan) -> bool:
    """Return True if a graph is one step with the graph's inputs and outputs, in their order.

    Each output has to be a new value.
    """
    if len(plan.steps) != 1 or plan.outer_values:
        return False
    (step,) = plan.steps
    return (
        not step.kernel.is_async
        and not step.implicit_inputs
        and tuple(step.inputs) == tuple(plan.inputs)
        and tuple(step.outputs) == tuple(plan.outputs)
        and len({*plan.outputs}) == len(plan.outputs)
        and all(
            allocation.values[index].alloc_kind is AllocKind.ALLOCATE_OUTPUT
            for index in plan.outputs
        )
    )


class _DirectContext(PlainContext):
    """Kernel context of a run that has no limits and cannot be cancelled."""

    is_watched = False
    is_memory_limited = False
    time_left_s = None

    def __init__(
        self, control: RunControl, instruction: Instruction, targets: Mapping[int, object]
    ) -> None:
        self.control = control
        self._instruction = instruction
        self._targets = targets

    def device_target(self, index: int) -> object:
        return self._targets.get(self._instruction.outputs[index].value_index)


class DirectRun:
    """Callable that runs a graph of one step (:func:`is_one_step`); threads may share it."""

    def __init__(
        self, instruction: Instruction, new_frame: Callable[[RunControl], ExecutionFrame]
    ) -> None:
        """Prepare runs.

        Args:
            instruction: the only step.
            new_frame: makes a frame for results that need care.
        """
        self._instruction = instruction
        self._new_frame = new_frame
        self._outputs = [slot.value_index for slot in instruction.outputs]

    def __call__(
        self, feeds: Sequence[Value], control: RunControl, bound: Mapping[int, object] | None
    ) -> list[Value]:
        """Run once; return all outputs in order.

        Args:
            feeds: a value for each input.
            control: control of a run without limits.
            bound: value index → target of the output; only targets on a device are used.

        Raises:
            RunError, LimitExceededError: the step failed; the error names its node.
        """
        instruction, targets = self._instruction, _NO_TARGETS
        if bound:
            targets = {at: to for at, to in bound.items() if not isinstance(to, np.ndarray)}
        try:
            results = instruction.compute(_DirectContext(control, instruction, targets), *feeds)
            if self._are_plain(results, feeds, control, targets):
                return list(results)
            return self._adopted(results, feeds, control, targets)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a library may raise SystemExit or GeneratorExit
            pass_on_handlers_error(error)
            raise run_error(error, instruction) from error

    def _are_plain(
        self,
        results: tuple[Value, ...],
        feeds: Sequence[Value],
        control: RunControl,
        targets: Mapping[int, object],
    ) -> bool:
        """Return True if all results are new arrays, or tensors that stay on a device."""
        if not feeds:
            return False
        counted = 0
        for index, value in zip(self._outputs, results, strict=True):
            if type(value) is np.ndarray:
                is_own = value.flags.writeable and not may_share_memory(value, feeds)
                if not is_own or value.dtype.kind in "US":
                    return False
                nbytes = value.nbytes
                counted += nbytes if nbytes >= LEAST_COUNTED_NBYTES else 0
            elif type(value) is not DeviceTensor or index not in targets:
                return False
        if counted:
            control.check_allocation(counted)
        return True

    def _adopted(
        self,
        results: Value,
        feeds: Sequence[Value],
        control: RunControl,
        targets: Mapping[int, object],
    ) -> list[Value]:
        """Return the results after a frame has copied those that are unsafe to keep."""
        frame = self._new_frame(control)
        frame.device_targets = targets
        context = NodeContext(frame, self._instruction)
        context.arguments = list(feeds)
        try:
            frame.store(context, results)
            return frame.fetch_all(self._outputs)
        finally:
            frame.close()
