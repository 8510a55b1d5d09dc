"""The memory pattern: one block per device, and the offset of each buffer in it.

Third of the three planning layers; it computes with integers only. Sizes come from the shapes that
are known at initialization, from expressions and the sizes of a run (``size_classes.py``), or from
the *trace* of a run. Lifetimes always come from the allocation plan, so that a pattern is right
even for a value for which the traced run did not request memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ortpkg.foundations.buffer_layout import Buffer, MemoryPattern, lay_out
from ortpkg.foundations.errors import UsageError
from ortpkg.graph.shapes.expressions import Expression
from ortpkg.runtime.engine.allocation_planner import AllocationPlan, AllocKind
from ortpkg.runtime.engine.execution_plan import ABSENT, ExecutionPlan, OrtDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTraceRecord:
    """One traced allocation, in use up to and including ``free_step``.

    Values that exist when the frame is made (inputs, weights, outer values) are in use from step 0
    to the end. ``reused_buffer`` is the value whose buffer it uses, itself for a buffer of its own.
    """

    value_index: int
    allocation_step: int
    free_step: int
    nbytes: int
    device: OrtDevice
    alloc_kind: AllocKind
    reused_buffer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPatternGroup:
    """A pattern per location."""

    locations: tuple[OrtDevice, ...]
    patterns: tuple[MemoryPattern, ...]

    def pattern_of(self, location: OrtDevice) -> MemoryPattern | None:
        """Return the pattern of ``location``; None if the group has none."""
        for candidate, pattern in zip(self.locations, self.patterns, strict=True):
            if candidate == location:
                return pattern
        return None

    @property
    def peak_size(self) -> int:
        """Bytes of all blocks together."""
        return sum(pattern.peak_size for pattern in self.patterns)


@dataclass(slots=True)
class _LocationTrace:
    """Records of one location: open ones by value, closed ones in order."""

    open: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    records: list[MemoryTraceRecord] = field(default_factory=list)


class OrtValuePatternPlanner:
    """Recorder of one run's trace, by location, which it can lay out.

    It is called at four moments: when the frame is made, when an output gets memory, when one takes
    the buffer of another value, and when a value dies.
    """

    def __init__(self, plan: ExecutionPlan, allocation: AllocationPlan) -> None:
        self._allocation = allocation
        self._last_step = len(plan.steps)
        self._traces = {device: _LocationTrace() for device in plan.devices}

    def trace_existing(self, value_index: int, nbytes: int) -> None:
        """Record that ``value_index`` existed when the frame was made.

        UsageError for an unknown location.
        """
        self._trace_of(value_index).open[value_index] = (0, nbytes, value_index)

    def trace_allocation(self, value_index: int, nbytes: int, step: int) -> None:
        """Record that ``value_index`` got ``nbytes`` bytes at ``step``.

        UsageError for an unknown location.
        """
        self._trace_of(value_index).open[value_index] = (step, nbytes, value_index)

    def trace_reuse(self, value_index: int, nbytes: int, step: int) -> None:
        """Record that ``value_index`` shares a buffer, as planned, from ``step`` on."""
        owner = self._allocation.values[value_index].reused_buffer
        self._trace_of(value_index).open[value_index] = (step, nbytes, owner)

    def trace_free(self, value_index: int, step: int) -> None:
        """Record that ``value_index`` died after ``step``.

        Ignore values that were never allocated.
        """
        trace = self._trace_of(value_index)
        opened = trace.open.pop(value_index, None)
        if opened is not None:
            trace.records.append(self._record(value_index, *opened, step))

    def records(self) -> tuple[MemoryTraceRecord, ...]:
        """Return all records by allocation step; values still allocated live to the end."""
        records = [record for trace in self._traces.values() for record in trace.records]
        for trace in self._traces.values():
            records += [
                self._record(index, *opened, self._last_step)
                for index, opened in trace.open.items()
            ]
        return tuple(
            sorted(records, key=lambda record: (record.allocation_step, record.value_index))
        )

    def sizes(self) -> dict[int, int]:
        """Return buffer → the most bytes that a value took in it."""
        sizes: dict[int, int] = {}
        for record in self.records():
            owner = self._allocation.values[record.value_index].reused_buffer
            sizes[owner] = max(sizes.get(owner, 0), record.nbytes)
        return sizes

    def generate_patterns(self) -> MemoryPatternGroup:
        """Return one pattern per location, with aligned offsets."""
        return plan_memory_pattern(self._allocation, self.sizes(), tuple(self._traces))

    def _trace_of(self, value_index: int) -> _LocationTrace:
        location = self._allocation.values[value_index].location
        trace = self._traces.get(location)
        if trace is None:
            raise UsageError(
                f"value {value_index} lies on {location.name}, for which there is no pattern"
                " planner"
            )
        return trace

    def _record(
        self, value_index: int, step: int, nbytes: int, reused_buffer: int, free_step: int
    ) -> MemoryTraceRecord:
        planned = self._allocation.values[value_index]
        return MemoryTraceRecord(
            value_index=value_index,
            allocation_step=step,
            free_step=free_step,
            nbytes=nbytes,
            device=planned.location,
            alloc_kind=planned.alloc_kind,
            reused_buffer=reused_buffer,
        )


def trace_static_shapes(plan: ExecutionPlan, allocation: AllocationPlan) -> OrtValuePatternPlanner:
    """Return the trace that a run would leave of all planned values of known size."""
    planner = OrtValuePatternPlanner(plan, allocation)
    for index in dict.fromkeys((*plan.inputs, *plan.initializers, *plan.outer_values)):
        size = allocation.values[index].size
        if isinstance(size, int):
            planner.trace_existing(index, size)
    for number, step in enumerate(plan.steps):
        for index in step.outputs:
            if index == ABSENT:
                continue
            value = allocation.values[index]
            if value.reused_buffer in allocation.buffers and isinstance(value.size, int):
                trace = (
                    planner.trace_reuse
                    if value.alloc_kind is AllocKind.REUSE
                    else planner.trace_allocation
                )
                trace(index, value.size, number)
        for index in allocation.releases[number]:
            planner.trace_free(index, number)
    return planner


def has_symbolic_sizes(allocation: AllocationPlan) -> bool:
    """Return True if the size of a planned buffer depends on the inputs, or on a run."""
    return any(
        isinstance(value.size, Expression)
        for value in allocation.values
        if value.reused_buffer in allocation.buffers
    )


def plan_memory_pattern(
    allocation: AllocationPlan, sizes: Mapping[int, int], locations: Sequence[OrtDevice]
) -> MemoryPatternGroup:
    """Lay out the buffers of ``sizes`` (owner → bytes) in one block per location."""
    patterns = []
    for location in locations:
        buffers = [
            Buffer(owner, sizes[owner], tuple(zip(counter.starts, counter.ends, strict=True)))
            for owner, counter in allocation.buffers.items()
            if sizes.get(owner, 0) > 0 and allocation.values[owner].location == location
        ]
        patterns.append(lay_out(buffers, location.alignment))
    return MemoryPatternGroup(locations=tuple(locations), patterns=tuple(patterns))
