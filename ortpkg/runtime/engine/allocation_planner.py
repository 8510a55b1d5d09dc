"""The allocation plan: the origin of each value's buffer, and the value's lifetime.

Computes with integers and expressions only. Second of the three planning layers. It walks the
execution order once, counting uses down. An output starts with one count for its producer, which is
released right after that node, plus one per use; inputs, weights and outer values have no end;
graph outputs end once, after the last step. A buffer whose count reaches zero can be taken by a
later value of the same size on the same device.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ortpkg.foundations.errors import PlanVerificationError
from ortpkg.graph.shapes.expressions import Size
from ortpkg.runtime.engine.execution_plan import ABSENT, ExecutionPlan, NodeStep, OrtDevice

_PERMANENT = sys.maxsize


class AllocKind(Enum):
    """Origin of a value's buffer (ONNX Runtime's five kinds)."""

    ALLOCATE = "allocate"
    REUSE = "reuse"
    PRE_EXISTING = "pre_existing"
    ALLOCATE_STATICALLY = "allocate_statically"
    ALLOCATE_OUTPUT = "allocate_output"


class ProgramCounter:
    """Intervals of steps, both ends included, in which a value (or a buffer) is in use.

    Starts and ends alternate and never decrease; PlanVerificationError otherwise. The last interval
    of inputs and weights has no end.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add_start(self, step: int) -> None:
        """Begin a lifetime at ``step``.

        Raises:
            PlanVerificationError: the previous lifetime has not ended, or ended later.
        """
        if len(self._starts) != len(self._ends):
            raise PlanVerificationError(
                f"a lifetime starts at step {step} before the one before it has ended"
            )
        if self._ends and step <= self._ends[-1]:
            raise PlanVerificationError(
                f"a lifetime starts at step {step}, but the last ended at {self._ends[-1]}"
            )
        self._starts.append(step)

    def add_end(self, step: int) -> None:
        """End the lifetime that began last.

        Raises:
            PlanVerificationError: no lifetime is open, or it began later.
        """
        if len(self._starts) != len(self._ends) + 1:
            raise PlanVerificationError(f"a lifetime ends at step {step} without having started")
        if step < self._starts[-1]:
            raise PlanVerificationError(
                f"a lifetime ends at step {step}, before its start at {self._starts[-1]}"
            )
        self._ends.append(step)

    @property
    def starts(self) -> tuple[int, ...]:
        """First step of each lifetime, ascending."""
        return tuple(self._starts)

    @property
    def ends(self) -> tuple[int, ...]:
        """Last step of each lifetime, ascending."""
        return tuple(self._ends)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramCounter) and (self._starts, self._ends) == (
            other._starts,
            other._ends,
        )

    def __hash__(self) -> int:
        return hash((self.starts, self.ends))

    def __repr__(self) -> str:
        ends = [*map(str, self._ends), "…"]
        return ", ".join(f"{start}–{end}" for start, end in zip(self._starts, ends, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocPlanPerValue:
    """Allocation plan of one value.

    Attributes:
        alloc_kind: origin of its buffer.
        location: its device.
        reused_buffer: index of the value whose buffer it uses; its own unless ``alloc_kind`` is
            REUSE.
        program_counter: lifetime of the value.
        size: size in bytes; None if it is unknown, or if the kernel brings its own memory: the
            value is then neither shared by size nor laid out. Values whose sizes are equal
            expressions fit into each other's buffer, whatever the symbols stand for.
    """

    alloc_kind: AllocKind
    location: OrtDevice
    reused_buffer: int
    program_counter: ProgramCounter
    size: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationPlan:
    """The allocation plan of one graph.

    Attributes:
        values: plans by value index.
        releases: by step: values that are dead after the step.
        buffer_releases: by step: buffers (indices of the values that own them) that no value uses
            after the step.
        buffers: owner → every interval in which the buffer is in use, for each buffer of kind
            ALLOCATE.
    """

    values: tuple[AllocPlanPerValue, ...]
    releases: tuple[tuple[int, ...], ...]
    buffer_releases: tuple[tuple[int, ...], ...]
    buffers: dict[int, ProgramCounter]


def plan_allocations(
    plan: ExecutionPlan,
    sizes: Sequence[Size | None],
    *,
    enable_reuse: bool = True,
    enable_reuse_by_size: bool = True,
    parallel: bool = False,
) -> AllocationPlan:
    """Plan the location and lifetime of each value.

    Args:
        plan: the execution plan.
        sizes: sizes by value index; None for values that are not plain tensors or have unknown
            sizes.
        enable_reuse: True if buffers may be shared, in place or after their owner's death
            (``enable_mem_reuse``).
        enable_reuse_by_size: True if dead buffers may be taken; without it a memory pattern may
            still share the bytes.
        parallel: True if steps may run in any order that their inputs allow: then only a value's
            single consumer may take its buffer, and dead buffers are not taken at all.
    """
    takes_dead_buffers = enable_reuse and enable_reuse_by_size and not parallel
    return _Planner(
        plan,
        sizes,
        enable_reuse=enable_reuse,
        takes_dead_buffers=takes_dead_buffers,
        parallel=parallel,
    ).plan()


def compute_use_counts(plan: ExecutionPlan) -> list[int]:
    """Return the number of releases that each value awaits.

    One for its producer, one per input slot that takes it, one per node whose sub-graphs take it,
    and one for being a graph output. The counts of inputs, weights and outer values never reach
    zero.
    """
    counts = [0] * len(plan.values)
    for step in plan.steps:
        for index in step.outputs:
            if index != ABSENT:
                counts[index] += 1
        for index in _used_by(step):
            counts[index] += 1
    for index in plan.outputs:
        counts[index] += 1
    for index in (*plan.inputs, *plan.initializers, *plan.outer_values):
        counts[index] = _PERMANENT
    return counts


def _used_by(step: NodeStep) -> list[int]:
    return [index for index in (*step.inputs, *step.implicit_inputs) if index != ABSENT]


class _Planner:
    def __init__(
        self,
        plan: ExecutionPlan,
        sizes: Sequence[Size | None],
        *,
        enable_reuse: bool,
        takes_dead_buffers: bool,
        parallel: bool,
    ) -> None:
        self._plan = plan
        self._enable_reuse = enable_reuse
        self._takes_dead_buffers = takes_dead_buffers
        self._parallel = parallel
        count = len(plan.values)
        self._use_counts = compute_use_counts(plan)
        self._counts = list(self._use_counts)
        self._kinds: list[AllocKind] = [AllocKind.ALLOCATE] * count
        self._owners = list(range(count))
        self._members = [1] * count
        self._sizes: list[Size | None] = list(sizes)
        self._lifetimes = [ProgramCounter() for _ in range(count)]
        self._remaining = list(self._counts)
        self._buffers: dict[int, ProgramCounter] = {}
        self._free: dict[tuple[OrtDevice, Size], list[int]] = {}
        self._outputs = frozenset(plan.outputs)

    def plan(self) -> AllocationPlan:
        """Walk the steps once, in their order, and plan each value at the step that makes it."""
        self._place_existing()
        releases = []
        for number, step in enumerate(self._plan.steps):
            for slot, index in enumerate(step.outputs):
                if index != ABSENT:
                    self._lifetimes[index].add_start(number)
                    self._place(number, step, slot, index)
            releases.append(self._release(number, step))
        self._end_outputs(len(self._plan.steps))
        values = tuple(
            AllocPlanPerValue(
                alloc_kind=self._kinds[index],
                location=self._plan.locations[index],
                reused_buffer=self._owners[index],
                program_counter=self._lifetimes[index],
                size=self._sizes[index],
            )
            for index in range(len(self._plan.values))
        )
        return AllocationPlan(
            values=values,
            releases=tuple(releases),
            buffer_releases=self._last_releases(),
            buffers=self._buffers,
        )

    def _place_existing(self) -> None:
        for index in (*self._plan.inputs, *self._plan.outer_values):
            self._kinds[index] = AllocKind.PRE_EXISTING
        for index in self._plan.initializers:
            self._kinds[index] = AllocKind.ALLOCATE_STATICALLY
        for index in dict.fromkeys(
            (*self._plan.inputs, *self._plan.outer_values, *self._plan.initializers)
        ):
            self._lifetimes[index].add_start(0)

    def _place(self, number: int, step: NodeStep, slot: int, index: int) -> None:
        """Decide the kind of one output; the first rule that fits wins."""
        if index in self._outputs:
            self._kinds[index] = AllocKind.ALLOCATE_OUTPUT
            return
        source = self._paired_input(step, step.kernel.alias, slot)
        if source is not None:
            self._share(index, self._owners[source])
            return
        if not step.kernel.uses_output_buffer:
            self._sizes[index] = None
        if self._enable_reuse and self._sizes[index] is not None:
            source = self._paired_input(step, step.kernel.in_place, slot)
            if source is not None and self._may_overwrite(source, index):
                self._share(index, self._owners[source])
                return
            owner = self._take_free_buffer(index)
            if owner is not None:
                self._share(index, owner)
                self._buffers[owner].add_start(number)
                return
        self._buffers[index] = ProgramCounter()
        self._buffers[index].add_start(number)

    @staticmethod
    def _paired_input(step: NodeStep, pairs: tuple[tuple[int, int], ...], slot: int) -> int | None:
        for input_slot, output_slot in pairs:
            if (
                output_slot == slot
                and input_slot < len(step.inputs)
                and step.inputs[input_slot] != ABSENT
            ):
                return step.inputs[input_slot]
        return None

    def _share(self, index: int, owner: int) -> None:
        self._kinds[index] = AllocKind.REUSE
        self._owners[index] = owner
        self._members[owner] += 1
        if self._remaining[owner] != _PERMANENT:
            self._remaining[owner] += self._use_counts[index]

    def _may_overwrite(self, source: int, index: int) -> bool:
        """Return True if ``index`` may use the buffer of ``source``.

        The sizes must be equal, and nothing else may read ``source``.
        """
        owner = self._owners[source]
        if self._kinds[owner] is not AllocKind.ALLOCATE or self._remaining[owner] != 1:
            return False
        if self._parallel and (self._members[owner] != 1 or self._use_counts[owner] != 2):
            return False
        return (
            self._sizes[source] == self._sizes[index]
            and self._sizes[owner] == self._sizes[index]
            and self._plan.locations[owner] == self._plan.locations[index]
        )

    def _take_free_buffer(self, index: int) -> int | None:
        size = self._sizes[index]
        if not self._takes_dead_buffers or size is None:
            return None
        free = self._free.get((self._plan.locations[index], size))
        return free.pop() if free else None

    def _release(self, number: int, step: NodeStep) -> tuple[int, ...]:
        """Count down the uses of ``step`` and return the values that died.

        Their buffers can be taken from now on.
        """
        dead, dead_buffers = [], []
        for index in (*(output for output in step.outputs if output != ABSENT), *_used_by(step)):
            if self._count_down(self._counts, index):
                self._lifetimes[index].add_end(number)
                dead.append(index)
            owner = self._owners[index]
            if (
                self._count_down(self._remaining, owner)
                and self._kinds[owner] is AllocKind.ALLOCATE
            ):
                self._buffers[owner].add_end(number)
                dead_buffers.append(owner)
        for owner in dead_buffers:
            size = self._sizes[owner]
            if size is not None:
                self._free.setdefault((self._plan.locations[owner], size), []).append(owner)
        return tuple(dead)

    def _last_releases(self) -> tuple[tuple[int, ...], ...]:
        releases: list[list[int]] = [[] for _ in self._plan.steps]
        for owner, counter in self._buffers.items():
            releases[counter.ends[-1]].append(owner)
        return tuple(map(tuple, releases))

    @staticmethod
    def _count_down(counts: list[int], index: int) -> bool:
        if counts[index] == _PERMANENT:
            return False
        counts[index] -= 1
        return counts[index] == 0

    def _end_outputs(self, number: int) -> None:
        for index in dict.fromkeys(self._plan.outputs):
            if self._kinds[index] is AllocKind.ALLOCATE_OUTPUT:
                self._lifetimes[index].add_end(number)
