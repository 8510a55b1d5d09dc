"""Instructions: the plans of a graph in the form that executors need to run its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortpkg.runtime.engine.allocation_planner import AllocationPlan, AllocKind
from ortpkg.runtime.engine.execution_plan import (
    ABSENT,
    CPU_DEVICE,
    ExecutionPlan,
    NodeStep,
    OrtDevice,
)
from ortpkg.runtime.kernels.op_kernel import Compute


class OutputSlot(NamedTuple):
    """Destination of one output of a node.

    Attributes:
        value_index: index of the value; ABSENT for an output that nothing uses.
        kind: planned kind of allocation.
        buffer: index of the value whose buffer it uses.
        takes_buffer: True if, without a pattern, another value lies in the same buffer.
        is_alias: True if the kernel may return a view of its input.
        device: memory of its provider's allocator; None for plain numpy arrays.
    """

    value_index: int
    kind: AllocKind
    buffer: int
    takes_buffer: bool
    is_alias: bool
    device: OrtDevice | None = None


class Instruction(NamedTuple):
    """Everything that an executor needs to run one node, prepared once."""

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
    """Return one instruction per step of the plans."""
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
    """Return the destination of one output.

    Args:
        step: the step that makes it.
        position: position among the step's outputs.
        allocation: the allocation plan.
        shared: values whose buffers others use.
        is_output: True for an output of the graph.
    """
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
