"""A planned graph, ready to run: instructions, weights, sub-graphs, and memory kept for runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.engine.allocation_planner import AllocationPlan
from ortpkg.runtime.engine.bound_outputs import BoundOutputs
from ortpkg.runtime.engine.carried_values import counted_feeds
from ortpkg.runtime.engine.direct_run import DirectRun, is_one_step
from ortpkg.runtime.engine.execution_frame import ExecutionFrame, FrameGround, empty_views
from ortpkg.runtime.engine.execution_plan import ExecutionPlan
from ortpkg.runtime.engine.instructions import Instruction, make_instructions
from ortpkg.runtime.engine.memories import Memories
from ortpkg.runtime.engine.memory_pattern import OrtValuePatternPlanner
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.engine.run_gate import RunGate
from ortpkg.runtime.engine.size_classes import SizeClassPlanner
from ortpkg.runtime.engine.workspace import PatternEntry, Workspace, WorkspacePool
from ortpkg.runtime.kernels.op_kernel import Compute, Value

#: Runs all instructions of a frame.
Execute = Callable[[Sequence[Instruction], ExecutionFrame], None]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A node's planned sub-graph.

    Attributes:
        executable: the planned sub-graph.
        captures: indices of the surrounding graph's values that each run takes.
    """

    executable: ExecutableGraph
    captures: tuple[int, ...]


class ExecutableGraph:
    """A planned graph. Runs may overlap in time: each has its own frame and workspace.

    Runs of a sub-graph return an output that is one of their feeds unchanged; the caller owns all
    other results.

    Attributes:
        plan, allocation: the plans.
        instructions: one per step.
        subgraphs: (node index, attribute) → planned sub-graph.
        pool: memory patterns and workspaces; None for plain allocation.
        gate: gate that each run enters; None for sub-graphs, whose runs are parts of others.
        size_classes: planner of patterns for the sizes of runs; None if one pattern serves every
            run.
        memories: memories of the session.
        ground: common data of the frames.
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
        size_classes: SizeClassPlanner | None = None,
        gate: RunGate | None = None,
        memories: Memories | None = None,
        is_subgraph: bool = False,
        is_native: bool = False,
    ) -> None:
        """Assemble a planned graph.

        ``is_native``: native libraries compute all of it, unwatched; a graph that is one
        partition then runs without a frame.
        """
        self.plan = plan
        self.allocation = allocation
        self.subgraphs = subgraphs
        self.pool = pool
        self.size_classes = size_classes
        self.gate = gate
        self.instructions = make_instructions(plan, allocation, computes)
        self.memories = Memories({}) if memories is None else memories
        self.ground = FrameGround(
            plan=plan,
            allocation=allocation,
            memories=self.memories,
            run_subgraph=partial(_run_subgraph, subgraphs),
            no_views=empty_views(len(plan.values)),
        )
        self._execute = execute
        # Nothing writes to the feeds of a sub-graph, so its node needs no copy of them.
        self._handed_on = frozenset(plan.inputs) if is_subgraph else frozenset()
        self._template: list[Value] = [None] * (len(plan.values) + 1)
        for index, constant in constants.items():
            self._template[index] = constant
        has_defaults = any(self._template[index] is not None for index in plan.inputs)
        self._direct = (
            DirectRun(self.instructions[0], partial(_new_frame, self.ground, self._template))
            if is_native and not has_defaults and is_one_step(plan, allocation)
            else None
        )

    def run(
        self,
        feeds: Sequence[Value],
        outer: Sequence[Value],
        control: RunControl,
        outputs: Sequence[int] | None = None,
        targets: Mapping[int, Any] | None = None,
    ) -> list[Value]:
        """Run the graph once.

        Args:
            feeds: one value per graph input; None takes the input's default.
            outer: one value per outer value of the plan.
            control: limits of the run.
            outputs: value indices to return; None for all graph outputs.
            targets: value index → memory in which the output is wanted. It is computed there if
                that is safe, and the same array is returned. For targets other than arrays see
                ``OpKernelContext.device_target``.

        Raises:
            RunError, LimitExceededError, CancelledError: with the node's name, if there is one.
            SessionError: the session was closed.
            ModelFileError: a mapped file has become shorter.
        """
        if control.is_watched:
            control.check()
        output_indices = self.plan.outputs if outputs is None else outputs
        gate = self.gate
        if gate is None:
            return self._run_inside(feeds, outer, control, output_indices, targets)
        ticket = gate.ticket()
        try:
            with ticket:
                gate.enter()
                return self._run_inside(feeds, outer, control, output_indices, targets)
        finally:
            gate.leave(ticket)

    def _run_inside(
        self,
        feeds: Sequence[Value],
        outer: Sequence[Value],
        control: RunControl,
        outputs: Sequence[int],
        targets: Mapping[int, Any] | None,
    ) -> list[Value]:
        direct = self._direct
        if direct is not None and not control.is_watched:
            if outputs == self.plan.outputs:
                return direct(feeds, control, targets)
            if len({*outputs}) == len(outputs):
                results = dict(zip(self.plan.outputs, direct(feeds, control, targets), strict=True))
                return [results[index] for index in outputs]
        values = self.initial_values()
        for index, value in zip(self.plan.inputs, feeds, strict=True):
            if value is not None:
                values[index] = value
        if self.plan.outer_values:
            for index, value in zip(self.plan.outer_values, outer, strict=True):
                values[index] = value
        if self.pool is not None:
            return self._run_in_pattern(self.pool, values, feeds, control, outputs, targets)
        return self._run(ExecutionFrame(self.ground, values, control), feeds, outputs, targets)

    def _run_in_pattern(
        self,
        pool: WorkspacePool,
        values: list[Value],
        feeds: Sequence[Value],
        control: RunControl,
        outputs: Sequence[int],
        targets: Mapping[int, Any] | None,
    ) -> list[Value]:
        """Run in a workspace if there are patterns for these sizes.

        Else trace the run to make them.
        """
        sizes = () if self.size_classes is None else self.size_classes.sizes_of(feeds)
        entry = self._find_patterns(sizes)
        workspace = None if entry is None else self._take_workspace(entry, control)
        tracer = self._tracer(sizes) if entry is None else None
        frame = ExecutionFrame(self.ground, values, control, workspace=workspace, tracer=tracer)
        try:
            results = self._run(frame, feeds, outputs, targets)
            if tracer is not None and sizes is not None:
                self._plan_class(sizes, tracer.sizes())
            return results
        finally:
            if workspace is not None and entry is not None:
                control.discharge(workspace.nbytes)
                pool.give_back(entry, workspace)

    def _run(
        self,
        frame: ExecutionFrame,
        feeds: Sequence[Value],
        outputs: Sequence[int],
        targets: Mapping[int, Any] | None,
    ) -> list[Value]:
        if targets:
            arrays = {at: to for at, to in targets.items() if isinstance(to, np.ndarray)}
            if arrays:
                frame.bind(self._bound_outputs.choose(arrays, feeds))
            frame.device_targets = {at: to for at, to in targets.items() if at not in arrays}
        try:
            self._execute(self.instructions, frame)
            return frame.fetch_all(outputs, self._handed_on)
        finally:
            frame.close()

    @cached_property
    def _bound_outputs(self) -> BoundOutputs:
        return BoundOutputs(self.plan, self.allocation)

    def initial_values(self) -> list[Value]:
        """Return the values of a run that has not begun: constants, and None for all others."""
        return self._template.copy()

    def _find_patterns(self, sizes: Sequence[int] | None) -> PatternEntry | None:
        """Return the patterns for a run of these sizes, planning them if necessary.

        None if there are none, or if a run must be traced first.
        """
        if self.pool is None or sizes is None:
            return None
        entry = self.pool.find(sizes)
        if entry is None and self.size_classes is not None and self.size_classes.is_complete:
            return self._plan_class(sizes)
        return entry

    def _plan_class(
        self, sizes: Sequence[int], traced: Mapping[int, int] | None = None
    ) -> PatternEntry:
        assert self.pool is not None
        assert self.size_classes is not None
        return self.pool.add(*self.size_classes.plan_class(sizes, self.pool.classes, traced))

    def _take_workspace(self, entry: PatternEntry, control: RunControl) -> Workspace | None:
        """Return a workspace whose bytes are counted before they are allocated.

        If they pass the memory limit: None for a pattern of symbolic sizes, which may include room
        to grow, so that the run allocates each value by itself.

        Raises:
            LimitExceededError: a pattern of static sizes passes the memory limit.
        """
        assert self.pool is not None
        try:
            control.charge(entry.patterns.peak_size)
        except LimitExceededError:
            if self.size_classes is None:
                raise
            return None
        return self.pool.take(entry)

    def _tracer(self, sizes: Sequence[int] | None) -> OrtValuePatternPlanner | None:
        if self.pool is None or self.size_classes is None or sizes is None:
            return None
        return OrtValuePatternPlanner(self.plan, self.allocation)


def _run_subgraph(
    subgraphs: Mapping[tuple[int, str], Subgraph],
    node_index: int,
    attribute: str,
    feeds: Sequence[Value],
    values: Sequence[Value],
    control: RunControl,
) -> list[Value]:
    subgraph = subgraphs[node_index, attribute]
    outer = [values[index] for index in subgraph.captures]
    with counted_feeds(feeds, values, control):
        return subgraph.executable.run(feeds, outer, control)


def _new_frame(
    ground: FrameGround, template: Sequence[Value], control: RunControl
) -> ExecutionFrame:
    """Return a frame without feeds and workspace.

    A function, since a method would hold the graph.
    """
    return ExecutionFrame(ground, list(template), control)
