"""Verify that a plan is safe: no live values share bytes, and each value is used where it lives.

No kernel may get a value in memory that it does not read, or outside of the value's lifetime. The
verifier shares no code with the planner: lifetimes are computed anew, backwards from the uses, and
sharing is judged by byte ranges only. It allows the two intended kinds of sharing: an output that
*is* its input with another shape (``alias`` of the kernel), and an output written over an input
that dies at that very node (``in_place``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from ortpkg.foundations.errors import PlanVerificationError, quoted
from ortpkg.runtime.engine.allocation_planner import AllocationPlan, AllocKind
from ortpkg.runtime.engine.execution_plan import ABSENT, ExecutionPlan, NodeStep
from ortpkg.runtime.engine.memory_pattern import MemoryPatternGroup


@dataclass(frozen=True, slots=True)
class _Range:
    """Bytes of a value: a memory (a device's block, or a buffer of its own), and a range in it."""

    memory: object
    start: int
    stop: int

    def shares_bytes_with(self, other: _Range) -> bool:
        """Return True if a byte is in both ranges; ranges of different memories share none."""
        return self.memory == other.memory and self.start < other.stop and other.start < self.stop


@dataclass(slots=True)
class _Extents:
    """Ranges of live values in one memory: disjoint ones in order, and others beside them.

    A planner's ranges are disjoint or equal, so that a search looks only at what it finds.
    """

    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    beside: list[tuple[int, int]] = field(default_factory=list)

    def overlapping(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return all ranges that share bytes with the range from ``start`` to ``stop``."""
        first, last = bisect_right(self.stops, start), bisect_left(self.starts, stop)
        disjoint = list(zip(self.starts[first:last], self.stops[first:last], strict=True))
        return [
            *disjoint,
            *(extent for extent in self.beside if extent[0] < stop and start < extent[1]),
        ]

    def add(self, start: int, stop: int) -> None:
        """Add a range that has become live."""
        position = bisect_right(self.stops, start)
        if stop <= start or bisect_left(self.starts, stop) > position:
            self.beside.append((start, stop))
        else:
            self.starts.insert(position, start)
            self.stops.insert(position, stop)

    def remove(self, start: int, stop: int) -> None:
        """Remove a range that was added."""
        position = bisect_left(self.starts, start)
        if self.starts[position : position + 1] == [start] and self.stops[position] == stop:
            del self.starts[position], self.stops[position]
        else:
            self.beside.remove((start, stop))


class _LiveValues:
    """Values that are still needed, found by their bytes."""

    def __init__(self) -> None:
        self._values: dict[_Range, dict[int, None]] = {}
        self._extents: dict[object, _Extents] = {}

    def add(self, index: int, extent: _Range) -> None:
        """Add a value; several may have the same range."""
        if extent not in self._values:
            self._extents.setdefault(extent.memory, _Extents()).add(extent.start, extent.stop)
        self._values.setdefault(extent, {})[index] = None

    def remove(self, index: int, extent: _Range) -> None:
        """Remove a value that was added with this range."""
        values = self._values[extent]
        del values[index]
        if not values:
            del self._values[extent]
            self._extents[extent.memory].remove(extent.start, extent.stop)

    def sharing_bytes_with(self, born: _Range) -> Iterator[int]:
        """Yield each value that shares a byte with ``born``."""
        extents = self._extents.get(born.memory)
        for start, stop in [] if extents is None else extents.overlapping(born.start, born.stop):
            yield from self._values[_Range(born.memory, start, stop)]


def verify_plan(
    plan: ExecutionPlan, allocation: AllocationPlan, patterns: MemoryPatternGroup | None = None
) -> None:
    """Raise PlanVerificationError if ``allocation`` (with ``patterns``) is unsafe for ``plan``."""
    _Verifier(plan, allocation, patterns).verify()


class _Verifier:
    def __init__(
        self, plan: ExecutionPlan, allocation: AllocationPlan, patterns: MemoryPatternGroup | None
    ) -> None:
        self._plan = plan
        self._allocation = allocation
        self._patterns = patterns
        self._last_use = self._find_last_uses()
        self._same_bytes: dict[int, int] = {}

    def _find_last_uses(self) -> dict[int, float]:
        """Return value → last step that needs it, scanning backwards.

        Infinity for inputs and outputs of the graph.
        """
        forever = (
            *self._plan.outputs,
            *self._plan.inputs,
            *self._plan.initializers,
            *self._plan.outer_values,
        )
        last: dict[int, float] = dict.fromkeys(forever, float("inf"))
        for number in range(len(self._plan.steps) - 1, -1, -1):
            step = self._plan.steps[number]
            for index in (*step.inputs, *step.implicit_inputs, *step.outputs):
                if index != ABSENT:
                    last.setdefault(index, number)
        return last

    def verify(self) -> None:
        """Replay the steps with the live values; PlanVerificationError at the first fault."""
        self._verify_pattern_bounds()
        self._verify_interface()
        live = _LiveValues()
        existing = {*self._plan.inputs, *self._plan.initializers, *self._plan.outer_values}
        for index in existing:
            live.add(index, self._range_of(index))
        ending: dict[float, list[int]] = {}
        for index, last in self._last_use.items():
            ending.setdefault(last, []).append(index)
        for number, step in enumerate(self._plan.steps):
            self._verify_uses(number, step, existing)
            self._verify_memories(number, step)
            for slot, index in enumerate(step.outputs):
                if index == ABSENT:
                    continue
                if index in existing:
                    raise self._error(index, f"is produced a second time, at step {number}")
                existing.add(index)
                self._verify_birth(number, step, slot, index, live)
                live.add(index, self._range_of(index))
            self._verify_releases(number)
            for index in ending.get(number, ()):
                live.remove(index, self._range_of(index))
        self._verify_buffer_releases()

    def _verify_uses(self, number: int, step: NodeStep, existing: set[int]) -> None:
        for index in (*step.inputs, *step.implicit_inputs):
            if index == ABSENT:
                continue
            if index not in existing:
                raise self._error(index, f"is used at step {number} before anything produces it")
            counter = self._allocation.values[index].program_counter
            ends = [*counter.ends, float("inf")]
            if not any(
                start <= number <= end for start, end in zip(counter.starts, ends, strict=False)
            ):
                raise self._error(
                    index, f"is used at step {number}, outside its planned lifetime ({counter})"
                )

    def _verify_interface(self) -> None:
        """Check that a graph's inputs and outputs lie in memory that the CPU reads."""
        for index in (*self._plan.inputs, *self._plan.outputs):
            if not self._plan.locations[index].is_host_accessible:
                raise self._error(
                    index,
                    f"is given or handed out in memory {quoted(self._plan.locations[index].name)}",
                )

    def _verify_memories(self, number: int, step: NodeStep) -> None:
        """Check that inputs lie where kernels read them: with their provider, or on the CPU."""
        for slot, index in enumerate(step.inputs):
            if index == ABSENT:
                continue
            location, expected = self._plan.locations[index], self._plan.memory_of_input(step, slot)
            if location != expected and not (
                location.is_host_accessible and expected.is_host_accessible
            ):
                raise self._error(
                    index,
                    f"lies in memory {quoted(location.name)}, but is read at step {number} in"
                    f" {quoted(expected.name)}",
                )

    def _verify_birth(
        self, number: int, step: NodeStep, slot: int, index: int, live: _LiveValues
    ) -> None:
        """Check that a value that is written now shares no bytes with one that is still needed."""
        born = self._range_of(index)
        aliased = {
            step.inputs[i] for i, o in step.kernel.alias if o == slot and i < len(step.inputs)
        } - {ABSENT}
        for other in live.sharing_bytes_with(born):
            if any(self._bytes_of(other) == self._bytes_of(source) for source in aliased):
                self._same_bytes[index] = self._bytes_of(other)
            elif not self._is_overwritten_in_place(number, step, slot, other, born):
                message = (
                    f"is written at step {number} over {self._name(other)}, which is still needed"
                )
                raise self._error(index, message)

    def _is_overwritten_in_place(
        self, number: int, step: NodeStep, slot: int, other: int, born: _Range
    ) -> bool:
        if self._last_use[other] > number or other in step.outputs:
            return False
        sources = [i for i, o in step.kernel.in_place if o == slot and i < len(step.inputs)]
        for source_slot in sources:
            source = step.inputs[source_slot]
            if source == ABSENT or self._bytes_of(source) != self._bytes_of(other):
                continue
            readers = [number for number, i in enumerate(step.inputs) if self._overlap(i, born)]
            return readers == [source_slot] and not any(
                self._overlap(i, born) for i in step.implicit_inputs
            )
        return False

    def _verify_releases(self, number: int) -> None:
        for index in self._allocation.releases[number]:
            if self._last_use[index] > number:
                raise self._error(index, f"is released after step {number}, before its last use")

    def _verify_buffer_releases(self) -> None:
        released = {
            owner: step
            for step, owners in enumerate(self._allocation.buffer_releases)
            for owner in owners
        }
        for index, value in enumerate(self._allocation.values):
            step = released.get(value.reused_buffer)
            if step is not None and self._last_use.get(index, -1) > step:
                raise self._error(index, f"loses its buffer after step {step}, before its last use")

    def _verify_pattern_bounds(self) -> None:
        if self._patterns is None:
            return
        for location, pattern in zip(
            self._patterns.locations, self._patterns.patterns, strict=True
        ):
            for owner, offset in pattern.offsets.items():
                if offset % location.alignment:
                    raise self._error(
                        owner,
                        f"has the offset {offset}, which is not aligned to {location.alignment}",
                    )
                if offset < 0 or offset + pattern.sizes[owner] > pattern.peak_size:
                    raise self._error(
                        owner, f"does not lie within the block of {pattern.peak_size} bytes"
                    )

    def _range_of(self, index: int) -> _Range:
        """Return the bytes of a value: its range in the pattern, or the whole buffer it uses."""
        value = self._allocation.values[index]
        owner = value.reused_buffer
        if self._allocation.values[owner].reused_buffer != owner:
            raise self._error(
                index, f"lies in the buffer of {self._name(owner)}, which has none of its own"
            )
        home = self._allocation.values[owner].location
        if value.location != home and not (
            value.location.is_host_accessible and home.is_host_accessible
        ):
            raise self._error(
                index, f"lies in the buffer of {self._name(owner)}, which is in another memory"
            )
        if value.alloc_kind is not AllocKind.REUSE and owner != index:
            raise self._error(
                index, f"is {value.alloc_kind.value}, but lies in the buffer of {self._name(owner)}"
            )
        pattern = self._patterns.pattern_of(home) if self._patterns is not None else None
        offset = pattern.offset_of(owner) if pattern is not None else None
        if pattern is None or offset is None:
            return _Range(("buffer", owner), 0, 1)
        return _Range(home, offset, offset + pattern.sizes[owner])

    def _overlap(self, index: int, extent: _Range) -> bool:
        return index != ABSENT and self._range_of(index).shares_bytes_with(extent)

    def _bytes_of(self, index: int) -> int:
        """Return the first of the values that are the same bytes by alias."""
        return self._same_bytes.get(index, index)

    def _name(self, index: int) -> str:
        return quoted(self._plan.values.name_of(index))

    def _error(self, index: int, message: str) -> PlanVerificationError:
        return PlanVerificationError(f"value {self._name(index)} {message}")
