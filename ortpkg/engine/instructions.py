"""The plans of a graph as instructions: all that an executor needs to run its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortpkg.engine.allocation_planner import AllocationPlan, AllocKind
from ortpkg.engine.execution_plan import ABSENT, CPU_DEVICE, ExecutionPlan, NodeStep, OrtDevice
from ortpkg.kernels.op_kernel import Compute


class OutputSlot(NamedTuple):
    """Where one output of a node goes.

    Attributes:
        value_index: ABSENT for an output that nobody takes.
        kind: as planned.
        buffer: the value whose buffer it lies in.
        takes_buffer: without a pattern, whether an earlier or later value lies in the same buffer.
        is_alias: whether the kernel may hand back a view of its input.
        device: the memory that its provider's allocator hands out; None for plain arrays of numpy.
    """

    value_index: int
    kind: AllocKind
    buffer: int
    takes_buffer: bool
    is_alias: bool
    device: OrtDevice | None = None


class Instruction(NamedTuple):
    """All that an executor needs to run one node, made once at initialization."""

    compute: Compute
    inputs: tuple[int, ...]
    outputs: tuple[OutputSlot, ...]
    releases: tuple[int, ...]
    buffer_releases: tuple[int, ...]
    step: int
    node_index: int
    node_name: str
    op_type: str


def make_instructions(
    plan: ExecutionPlan, allocation: AllocationPlan, computes: Sequence[Compute]
) -> tuple[Instruction, ...]:
    """The plans as one instruction per step."""
    shared = frozenset(
        value.reused_buffer for value in allocation.values if value.alloc_kind is AllocKind.REUSE
    )
    outputs = frozenset(plan.outputs)
    return tuple(
        Instruction(
            compute=compute,
            inputs=step.inputs,
            outputs=tuple(
                _slot(step, position, allocation, shared, is_output=index in outputs)
                for position, index in enumerate(step.outputs)
            ),
            releases=allocation.releases[number],
            buffer_releases=allocation.buffer_releases[number],
            step=number,
            node_index=step.node_index,
            node_name=step.node_name,
            op_type=step.op_type,
        )
        for number, (step, compute) in enumerate(zip(plan.steps, computes, strict=True))
    )


def _slot(
    step: NodeStep,
    position: int,
    allocation: AllocationPlan,
    shared: frozenset[int],
    *,
    is_output: bool,
) -> OutputSlot:
    """``shared``: the values whose buffers others lie in; ``is_output``: of the graph."""
    index = step.outputs[position]
    if index == ABSENT:
        is_near = step.device.is_host_accessible or position in step.kernel.host_outputs
        device = None if is_near else step.device
        return OutputSlot(ABSENT, AllocKind.ALLOCATE_OUTPUT, ABSENT, False, False, device)
    value = allocation.values[index]
    buffer = value.reused_buffer
    return OutputSlot(
        value_index=index,
        kind=value.alloc_kind,
        buffer=buffer,
        takes_buffer=buffer in shared and buffer in allocation.buffers,
        is_alias=any(output == position for _input, output in step.kernel.alias),
        device=None if is_output or value.location == CPU_DEVICE else value.location,
    )
