"""The plan of a session as values to print: partitions, steps in order, each value's location.

It is read from the three planning layers. Nothing is planned here, except that a graph whose memory
pattern is off, or waits for the first run, is laid out as its static shapes allow.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ortpkg.foundations.buffer_layout import Buffer, least_possible_peak
from ortpkg.graph.graph import ONNX_DOMAIN
from ortpkg.graph.shapes.expressions import Size, evaluate
from ortpkg.runtime.engine.allocation_planner import AllocKind, AllocPlanPerValue
from ortpkg.runtime.engine.device_copies import MEMCPY_FROM_HOST, MEMCPY_TO_HOST
from ortpkg.runtime.engine.executable_graph import ExecutableGraph
from ortpkg.runtime.engine.execution_plan import ABSENT, CPU_DEVICE, NodeStep
from ortpkg.runtime.engine.memory_pattern import MemoryPatternGroup
from ortpkg.runtime.engine.partition import Partition
from ortpkg.runtime.engine.partition_policy import PartitionChoice
from ortpkg.runtime.engine.size_classes import SizeClassPlanner
from ortpkg.runtime.engine.symbolic_peak import peak_formulas
from ortpkg.runtime.session.session_state import SessionState

#: Kinds of values that a memory pattern lays out: intermediate ones.
_PLANNED_KINDS = frozenset({AllocKind.ALLOCATE, AllocKind.REUSE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """One step of a plan.

    Attributes:
        step: number of the step.
        name, op_type, domain: the node; ``domain`` is "" for ONNX's own.
        provider: execution provider that runs it.
        kernel: kernel that computes it: the family of our kernel, "onnx.reference", "compiled" for
            a fused partition, "copy" for a copy between memories.
        inputs, outputs: value names; "" for one left out.
    """

    step: int
    name: str
    op_type: str
    domain: str
    provider: str
    kernel: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedValue:
    """Location and life of one value.

    Attributes:
        name: name of the value.
        kind: origin of its buffer.
        device: name of the memory.
        buffer: name of the value that owns its buffer; its own name unless ``kind`` is REUSE.
        nbytes: size in bytes; None if only a run can tell, or if the kernel brings its own memory.
        size: the size as a formula of the symbolic dimensions: ``"3072*batch"``; "" if unknown.
        offset: offset of its buffer in the device's block, in bytes; None if it lies in none.
        first_step, last_step: first and last step of its life; ``last_step`` is None for inputs and
            weights, and the number of steps for a graph output.
    """

    name: str
    kind: AllocKind
    device: str
    buffer: str
    nbytes: int | None
    size: str
    offset: int | None
    first_step: int
    last_step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCopy:
    """A value that each run copies between the CPU's memory and one that the CPU cannot read.

    Attributes:
        step: number of the step.
        value: name of the value before the copy.
        source, target: names of the memories.
        nbytes: size in bytes; None if only a run can tell.
        duration_s: duration that the memory's allocator estimates, in seconds; None if the size is
            unknown.
    """

    step: int
    value: str
    source: str
    target: str
    nbytes: int | None
    duration_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPlan:
    """The plan of one graph.

    Attributes:
        path: "" for the main graph, else the path of the sub-graph, e.g. ``"loop_0.body"``.
        nodes: the steps in order.
        values: inputs and weights first, then in the order in which they are made.
        peak_nbytes: bytes of the blocks that its memory pattern lays out, all devices together.
        least_possible_nbytes: the largest sum of bytes in use at one step: no layout of this order
            needs less.
        unshared_nbytes: bytes of the same values without any sharing.
        weight_nbytes: bytes of its initializers.
        unknown_count: number of planned values whose size only a run can tell; no figure here
            includes them.
        peak_formulas: formulas of the symbolic dimensions; the largest is the least possible peak
            in bytes. Empty if there are too many. Values whose size follows from no dimension of
            the inputs are left out.
        peaks: memory → its part of ``peak_nbytes``, for each that holds a value.
        copies: copies between memories, in order.
        subgraphs: plans of its nodes' sub-graphs.
    """

    path: str
    nodes: tuple[PlannedNode, ...]
    values: tuple[PlannedValue, ...]
    peak_nbytes: int
    least_possible_nbytes: int
    unshared_nbytes: int
    weight_nbytes: int
    unknown_count: int
    peak_formulas: tuple[str, ...]
    peaks: Mapping[str, int]
    copies: tuple[PlannedCopy, ...] = ()
    subgraphs: tuple[GraphPlan, ...] = ()

    @property
    def overhead_percent(self) -> float:
        """Percentage by which the pattern's peak exceeds the least possible one.

        0 if nothing is laid out.
        """
        return (
            100 * (self.peak_nbytes / self.least_possible_nbytes - 1)
            if self.least_possible_nbytes
            else 0.0
        )

    @property
    def has_intermediate_values(self) -> bool:
        """True if the pattern lays out any value (feeds, outputs and weights do not count)."""
        return any(value.kind in _PLANNED_KINDS for value in self.values)

    @property
    def unknown_output_count(self) -> int:
        """Number of graph outputs whose size only a run can tell."""
        return sum(
            value.kind is AllocKind.ALLOCATE_OUTPUT and value.nbytes is None
            for value in self.values
        )

    @property
    def kernel_counts(self) -> Mapping[str, int]:
        """Number of steps that each kernel runs, in order of first use."""
        return Counter(node.kernel for node in self.nodes)

    def with_subgraphs(self) -> tuple[GraphPlan, ...]:
        """Return this plan and those of all graphs inside it, the outer ones first."""
        plans = [self]
        for plan in plans:
            plans += plan.subgraphs
        return tuple(plans)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """Everything that a session fixed before its first run.

    Attributes:
        providers: names in order of priority.
        partitions: partitions with their providers, in order of assignment.
        graph: plan of the main graph.
        symbolic_dimensions: names of the model's symbolic dimensions, including those that the
            options fix.
        choices: per graph, the results of both partitioning policies, if cost decides.
    """

    providers: tuple[str, ...]
    partitions: tuple[Partition, ...]
    graph: GraphPlan
    symbolic_dimensions: tuple[str, ...]
    choices: tuple[PartitionChoice, ...] = ()


def describe_plan(
    state: SessionState, providers: tuple[str, ...], sizes: Mapping[str, int] | None = None
) -> SessionPlan:
    """Return the plan of a session that is ready to run.

    ``sizes``: symbolic dimension → size, for figures in bytes.
    """
    return SessionPlan(
        providers=providers,
        partitions=state.partitions,
        graph=_graph_plan(state.executable, "", sizes or {}),
        symbolic_dimensions=state.symbolic_dimensions,
        choices=state.choices,
    )


def _graph_plan(executable: ExecutableGraph, path: str, sizes: Mapping[str, int]) -> GraphPlan:
    plan, allocation = executable.plan, executable.allocation
    patterns = SizeClassPlanner(plan, allocation, dict.fromkeys(sizes, (0, 0))).patterns_at(
        tuple(sizes.values())
    )
    values = tuple(
        _planned_value(executable, patterns, index, sizes) for index in _order(executable)
    )
    buffers = [
        Buffer(owner, pattern.sizes[owner], _intervals(executable, owner))
        for pattern in patterns.patterns
        for owner in pattern.sizes
    ]
    shared = [value for value in values if value.kind in _PLANNED_KINDS]
    return GraphPlan(
        path=path,
        nodes=tuple(
            _planned_node(executable, number, step) for number, step in enumerate(plan.steps)
        ),
        values=values,
        peak_nbytes=patterns.peak_size,
        least_possible_nbytes=least_possible_peak(buffers),
        unshared_nbytes=sum(value.nbytes or 0 for value in shared),
        weight_nbytes=sum(
            value.nbytes or 0 for value in values if value.kind is AllocKind.ALLOCATE_STATICALLY
        ),
        unknown_count=sum(value.nbytes is None for value in shared),
        peak_formulas=tuple(map(str, peak_formulas(allocation, _input_symbols(executable)))),
        peaks={
            location.name: pattern.peak_size
            for location, pattern in zip(patterns.locations, patterns.patterns, strict=True)
        },
        copies=tuple(
            copy
            for number, step in enumerate(plan.steps)
            for copy in _copies_at(executable, number, step, sizes)
        ),
        subgraphs=tuple(_subgraph_plans(executable, path, sizes)),
    )


def _subgraph_plans(
    executable: ExecutableGraph, path: str, sizes: Mapping[str, int]
) -> Iterator[GraphPlan]:
    names = {step.node_index: step.node_name for step in executable.plan.steps}
    for (index, attribute), subgraph in executable.subgraphs.items():
        inner_path = f"{path}/{names[index]}.{attribute}".lstrip("/")
        yield _graph_plan(subgraph.executable, inner_path, sizes)


def _input_symbols(executable: ExecutableGraph) -> frozenset[str] | None:
    """Return the symbols that a run sets; None if unknown, as for a sub-graph."""
    return None if executable.size_classes is None else executable.size_classes.symbols


def _copies_at(
    executable: ExecutableGraph, number: int, step: NodeStep, sizes: Mapping[str, int]
) -> Iterator[PlannedCopy]:
    """Yield the copies of a copy node, and those that a kernel makes by itself."""
    plan, kernel = executable.plan, step.kernel
    if step.op_type in {MEMCPY_FROM_HOST, MEMCPY_TO_HOST} and kernel.domain == ONNX_DOMAIN:
        (source,), (target,) = step.inputs, step.outputs
        memories = plan.locations[source].name, plan.locations[target].name
        # Only the size of the value in the CPU's memory may be known.
        sized = source if step.op_type == MEMCPY_FROM_HOST else target
        copy = _planned_copy(executable, number, step, sized, memories, sizes)
        yield replace(copy, value=plan.values.name_of(source))
    slots = kernel.device_slots
    if slots is None:
        return
    for slot, index in enumerate(step.inputs):
        if index != ABSENT and slot in slots.inputs and slot in kernel.host_inputs:
            memories = CPU_DEVICE.name, step.device.name
            yield _planned_copy(executable, number, step, index, memories, sizes)
    for slot, index in enumerate(step.outputs):
        if index != ABSENT and slot in slots.outputs and slot in kernel.host_outputs:
            memories = step.device.name, CPU_DEVICE.name
            yield _planned_copy(executable, number, step, index, memories, sizes)


def _planned_copy(
    executable: ExecutableGraph,
    number: int,
    step: NodeStep,
    index: int,
    memories: tuple[str, str],
    sizes: Mapping[str, int],
) -> PlannedCopy:
    size = _planned_size(executable.allocation.values[index].size, sizes)
    return PlannedCopy(
        step=number,
        value=executable.plan.values.name_of(index),
        source=memories[0],
        target=memories[1],
        nbytes=size,
        duration_s=None if size is None else executable.memories.copy_s(step.device, size),
    )


def _planned_size(size: Size | None, sizes: Mapping[str, int]) -> int | None:
    """Return the number of bytes; None if the given sizes do not determine it."""
    if size is None:
        return None
    try:
        return max(evaluate(size, sizes), 0)
    except (KeyError, ValueError, ZeroDivisionError):
        return None


def _order(executable: ExecutableGraph) -> list[int]:
    """Return value indices: those that exist from the start, then those that each step makes."""
    plan = executable.plan
    start = dict.fromkeys((*plan.inputs, *plan.outer_values, *plan.initializers))
    made = dict.fromkeys(index for step in plan.steps for index in step.outputs if index != ABSENT)
    return [index for index in {**start, **made} if index != ABSENT]


def _planned_node(executable: ExecutableGraph, number: int, step: NodeStep) -> PlannedNode:
    return PlannedNode(
        step=number,
        name=step.node_name,
        op_type=step.op_type,
        domain=step.kernel.domain,
        provider=step.provider,
        kernel=_kernel_text(step),
        inputs=_names(executable, step.inputs),
        outputs=_names(executable, step.outputs),
    )


def _kernel_text(step: NodeStep) -> str:
    factory = step.kernel.factory
    function = factory.func if isinstance(factory, functools.partial) else factory
    module = function.__module__.removeprefix("ortpkg.runtime.")
    if module == "kernels.reference_kernels":
        return "onnx.reference"
    if module == "engine.fused_kernel":
        return "compiled"
    if module == "engine.device_copies":
        return "copy"
    return module.removeprefix("kernels.")


def _names(executable: ExecutableGraph, indices: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(
        "" if index == ABSENT else executable.plan.values.name_of(index) for index in indices
    )


def _planned_value(
    executable: ExecutableGraph, patterns: MemoryPatternGroup, index: int, sizes: Mapping[str, int]
) -> PlannedValue:
    plan, planned = executable.plan, executable.allocation.values[index]
    pattern = patterns.pattern_of(planned.location)
    counter = planned.program_counter
    return PlannedValue(
        name=plan.values.name_of(index),
        kind=planned.alloc_kind,
        device=planned.location.name,
        buffer=plan.values.name_of(planned.reused_buffer),
        nbytes=_planned_size(planned.size, sizes),
        size=_size_text(planned.size),
        offset=None
        if pattern is None or not _is_laid_out(planned)
        else pattern.offset_of(planned.reused_buffer),
        first_step=counter.starts[0] if counter.starts else 0,
        last_step=counter.ends[-1] if counter.ends else None,
    )


def _is_laid_out(planned: AllocPlanPerValue) -> bool:
    return planned.alloc_kind in _PLANNED_KINDS


def _size_text(size: Size | None) -> str:
    return "" if size is None else str(size)


def _intervals(executable: ExecutableGraph, owner: int) -> tuple[tuple[int, int], ...]:
    counter = executable.allocation.buffers[owner]
    return tuple(zip(counter.starts, counter.ends, strict=True))
