"""A planned graph, ready to run: instructions, weights, sub-graphs, and the pool of memory that runs compute in."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from ortpkg.engine.allocation_planner import AllocationPlan, AllocKind
from ortpkg.engine.execution_frame import ExecutionFrame, Instruction, OutputSlot, empty_views
from ortpkg.engine.execution_plan import ABSENT, CPU_DEVICE, ExecutionPlan
from ortpkg.engine.memories import Memories
from ortpkg.engine.memory_pattern import OrtValuePatternPlanner
from ortpkg.engine.run_control import RunControl
from ortpkg.engine.run_gate import RunGate
from ortpkg.engine.workspace import Workspace, WorkspacePool
from ortpkg.kernels.op_kernel import Compute, Value

#: Runs all instructions of a frame.
Execute = Callable[[Sequence[Instruction], ExecutionFrame], None]

#: The signature under which a pattern made at initialization is kept: it serves every run.
STATIC_SIGNATURE = ()


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A planned sub-graph of a node, and which values of the graph around it each run takes along."""

    executable: ExecutableGraph
    captures: tuple[int, ...]


class ExecutableGraph:
    """One graph, planned. Runs may overlap in time: each has its own frame and its own workspace.

    Attributes:
        plan, allocation: the plans.
        instructions: one per step.
        subgraphs: (node index, attribute) → planned sub-graph.
        pool: memory patterns and workspaces; None where the graph runs on plain allocation.
        gate: entered by each run; None for sub-graphs, whose runs are parts of others.
        entry: the gate as a context manager, of no effect where there is none.
        traces_runs: whether the first run of a new signature is traced for a pattern (dynamic shapes).
        no_views: what a frame without a workspace has for views.
        memories: those of the session; ``allocate_block`` and ``copy_within`` are of their allocators.
    """

    def __init__(
        self,
        *,
        plan: ExecutionPlan,
        allocation: AllocationPlan,
        computes: Sequence[Compute],
        constants: Mapping[int, Value],
        subgraphs: Mapping[tuple[int, str], Subgraph],
        execute: Execute,
        pool: WorkspacePool | None = None,
        traces_runs: bool = False,
        gate: RunGate | None = None,
        memories: Memories | None = None,
    ) -> None:
        self.plan = plan
        self.allocation = allocation
        self.subgraphs = subgraphs
        self.pool = pool
        self.traces_runs = traces_runs
        self.gate = gate
        self.entry: AbstractContextManager[None] = nullcontext() if gate is None else gate
        self.no_views = empty_views(len(plan.values))
        self.instructions = make_instructions(plan, allocation, computes)
        self.memories = Memories({}) if memories is None else memories
        self.allocate_block = self.memories.allocate
        self.copy_within = self.memories.copy
        self._execute = execute
        self._template: list[Value] = [None] * (len(plan.values) + 1)
        for index, constant in constants.items():
            self._template[index] = constant

    def run(
        self, feeds: Sequence[Value], outer: Sequence[Value], control: RunControl, outputs: Sequence[int] | None = None
    ) -> list[Value]:
        """Runs the graph once.

        Args:
            feeds: one value per graph input; None takes the default that the graph has for it.
            outer: one value per outer value of the plan.
            control: limits of the run.
            outputs: value indices to return; all graph outputs where None.

        Raises:
            RunError, LimitExceededError, CancelledError: with the node's name where there is one.
            SessionError: the session was closed. ModelFileError: a mapped file has become shorter.
        """
        control.check()
        with self.entry:
            return self._run(feeds, outer, control, self.plan.outputs if outputs is None else outputs)

    def _run(
        self, feeds: Sequence[Value], outer: Sequence[Value], control: RunControl, outputs: Sequence[int]
    ) -> list[Value]:
        values = self.initial_values()
        for index, value in zip(self.plan.inputs, feeds, strict=True):
            if value is not None:
                values[index] = value
        for index, value in zip(self.plan.outer_values, outer, strict=True):
            values[index] = value
        signature = self._signature(feeds)
        workspace = self._take_workspace(signature, control)
        tracer = self._tracer() if workspace is None else None
        frame = ExecutionFrame(self, values, control, workspace=workspace, tracer=tracer)
        try:
            with np.errstate(all="ignore"):
                self._execute(self.instructions, frame)
            if tracer is not None and self.pool is not None:
                self.pool.add_pattern(signature, tracer.generate_patterns())
            return frame.fetch_all(outputs)
        finally:
            frame.close()
            if workspace is not None and self.pool is not None:
                control.discharge(workspace.nbytes)
                self.pool.give_back(signature, workspace)

    def initial_values(self) -> list[Value]:
        """The values of a run that has not begun: constants, and None for all others."""
        return self._template.copy()

    def _signature(self, feeds: Sequence[Value]) -> Hashable:
        if not self.traces_runs:
            return STATIC_SIGNATURE
        return tuple((feed.shape, feed.dtype.num) if isinstance(feed, np.ndarray) else None for feed in feeds)

    def _take_workspace(self, signature: Hashable, control: RunControl) -> Workspace | None:
        """A workspace, its bytes counted before they are allocated; None where there is no pattern."""
        patterns = None if self.pool is None else self.pool.patterns_of(signature)
        if self.pool is None or patterns is None:
            return None
        control.charge(patterns.peak_size)
        return self.pool.take(signature, patterns)

    def _tracer(self) -> OrtValuePatternPlanner | None:
        return OrtValuePatternPlanner(self.plan, self.allocation) if self.traces_runs and self.pool else None


def make_instructions(
    plan: ExecutionPlan, allocation: AllocationPlan, computes: Sequence[Compute]
) -> tuple[Instruction, ...]:
    """The plans as one instruction per step."""
    outputs = frozenset(plan.outputs)
    shared = {value.reused_buffer for value in allocation.values if value.alloc_kind is AllocKind.REUSE}
    instructions = []
    for number, (step, compute) in enumerate(zip(plan.steps, computes, strict=True)):
        aliased = {output for _input, output in step.kernel.alias}
        slots = []
        for position, index in enumerate(step.outputs):
            if index == ABSENT:
                unseen = None if step.device.is_host_accessible or position in step.kernel.host_outputs else step.device
                slots.append(OutputSlot(ABSENT, AllocKind.ALLOCATE_OUTPUT, ABSENT, False, False, unseen))
                continue
            value = allocation.values[index]
            buffer = value.reused_buffer
            takes_buffer = buffer in shared and buffer in allocation.buffers
            is_plain = value.location == CPU_DEVICE or index in outputs
            device = None if is_plain else value.location
            slots.append(OutputSlot(index, value.alloc_kind, buffer, takes_buffer, position in aliased, device))
        instructions.append(
            Instruction(
                compute=compute,
                inputs=step.inputs,
                outputs=tuple(slots),
                releases=allocation.releases[number],
                buffer_releases=allocation.buffer_releases[number],
                step=number,
                node_index=step.node_index,
                node_name=step.node_name,
                op_type=step.op_type,
            )
        )
    return tuple(instructions)
