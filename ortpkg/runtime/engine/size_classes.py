"""Memory patterns for graphs with symbolic sizes: one serves a whole range of sizes.

The sizes of all buffers are expressions of the symbols of the graph's inputs, so that a pattern
needs no traced run: it is laid out for the sizes of the current run. Symbols that change from run
to run, as the length of a cache does with each token, get room to grow if that costs little memory:
the next lengths then find their pattern ready. If some sizes are known in a run only, the first run
of a class is traced. A pattern is never wrong: a value that needs more room than it has gets an
array of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import ge, le

from ortpkg.foundations.buffer_layout import Buffer, least_possible_peak
from ortpkg.graph.shapes.expressions import Size, evaluate, symbols_of
from ortpkg.runtime.engine.allocation_planner import AllocationPlan
from ortpkg.runtime.engine.execution_plan import ExecutionPlan
from ortpkg.runtime.engine.memory_pattern import MemoryPatternGroup, plan_memory_pattern
from ortpkg.runtime.engine.plan_verifier import verify_plan
from ortpkg.runtime.kernels.op_kernel import Value

#: Growth of a changing symbol that a pattern allows: this number, or this part of its value.
_STEPS_TO_GROW = 64
_PART_TO_GROW = 8
#: Most symbols that get room to grow; each is tried with the size of all buffers. Symbols of equal
#: value, such as the unnamed lengths of a model's caches, count as one.
_MOST_GROWING = 8
#: A pattern with room to grow may be larger than one without by this part, or this many bytes.
_MOST_PART_MORE = 8
_MOST_NBYTES_MORE = 1 << 20


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The sizes that one pattern serves: a range for each symbol, both ends included."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """True if each symbol has a single value."""
        return self.low == self.high

    def covers(self, values: Sequence[int]) -> bool:
        """Return True if each symbol's value lies in its range."""
        return all(map(le, self.low, values)) and all(map(ge, self.high, values))


#: Class of a graph without symbols: one pattern serves every run.
STATIC_CLASS = SizeClass((), ())


class SizeClassPlanner:
    """Planner of patterns for classes of sizes.

    Attributes:
        symbols: names of the symbols that a run determines.
        is_complete: True if all sizes follow from the symbols, so that no run is traced.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        allocation: AllocationPlan,
        sources: Mapping[str, tuple[int, int]],
        *,
        verifies: bool = False,
    ) -> None:
        """Create the planner of one graph.

        Args:
            plan, allocation: plans of the graph.
            sources: symbol → (position of the feed, axis) that has its value in a run.
            verifies: True to verify each pattern before it is used.
        """
        self._plan = plan
        self._allocation = allocation
        self._symbols = tuple(sources)
        self.symbols = frozenset(sources)
        self._feed_axes = tuple(sources.values())
        self._verifies = verifies
        numbers: dict[Size, int] = {}
        self._sizes_of: dict[int, list[int]] = {}
        for value in allocation.values:
            if value.reused_buffer in allocation.buffers and value.size is not None:
                number = numbers.setdefault(value.size, len(numbers))
                self._sizes_of.setdefault(value.reused_buffer, []).append(number)
        self._sizes = tuple(numbers)
        self._is_open = [
            any(variable.name not in sources for variable in symbols_of(size))
            for size in self._sizes
        ]
        self.is_complete = not any(self._is_open)

    def sizes_of(self, feeds: Sequence[Value]) -> tuple[int, ...] | None:
        """Return the values of the symbols in a run; None if the feeds do not determine them."""
        try:
            return tuple([feeds[position].shape[axis] for position, axis in self._feed_axes])
        except (AttributeError, IndexError):  # a default value, or not a tensor
            return None

    def plan_class(
        self,
        values: Sequence[int],
        before: Sequence[SizeClass],
        traced: Mapping[int, int] | None = None,
    ) -> tuple[SizeClass, MemoryPatternGroup]:
        """Return a class that contains ``values``, and its patterns.

        Args:
            values: values of the symbols.
            before: existing classes; symbols that have other values in them may grow.
            traced: buffer → bytes that a run with these values used, if sizes do not follow from
                the symbols.
        """
        size_class = SizeClass(tuple(values), self._grown(values, before))
        sizes = self._nbytes_in(size_class)
        if traced is not None:
            for owner, nbytes in traced.items():
                if any(self._is_open[number] for number in self._sizes_of.get(owner, ())):
                    sizes[owner] = (
                        nbytes if size_class.is_exact else nbytes + nbytes // _PART_TO_GROW
                    )
        patterns = plan_memory_pattern(self._allocation, sizes, self._plan.devices)
        if self._verifies:
            verify_plan(self._plan, self._allocation, patterns)
        return size_class, patterns

    def patterns_at(self, values: Sequence[int]) -> MemoryPatternGroup:
        """Return the patterns for exactly these values of the symbols."""
        return self.plan_class(values, [])[1]

    def least_peak(self, values: Sequence[int]) -> int:
        """Return the fewest bytes that any layout needs for these values of the symbols."""
        return self._least_peak_in(SizeClass(tuple(values), tuple(values)))

    def _least_peak_in(self, size_class: SizeClass) -> int:
        buffers = self._allocation.buffers
        return least_possible_peak(
            [
                Buffer(
                    owner,
                    nbytes,
                    tuple(zip(buffers[owner].starts, buffers[owner].ends, strict=True)),
                )
                for owner, nbytes in self._nbytes_in(size_class).items()
            ]
        )

    def _grown(self, values: Sequence[int], before: Sequence[SizeClass]) -> tuple[int, ...]:
        """Return the upper ends of the class, raised for symbols that changed if that is cheap."""
        changing: dict[int, list[int]] = {}
        for number, value in enumerate(values):
            if any(
                size_class.low[number] != value or size_class.high[number] != value
                for size_class in before
            ):
                changing.setdefault(value, []).append(number)
        high = list(values)
        if not changing:
            return tuple(high)
        least = self.least_peak(values)
        most = least + max(least // _MOST_PART_MORE, _MOST_NBYTES_MORE)
        steps = _STEPS_TO_GROW if self.is_complete else 0
        for value, numbers in islice(changing.items(), _MOST_GROWING):
            for more in (max(value // _PART_TO_GROW, steps), value // _PART_TO_GROW, 0):
                for number in numbers:
                    high[number] = value + more
                if self._least_peak_in(SizeClass(tuple(values), tuple(high))) <= most:
                    break
        return tuple(high)

    def _nbytes_in(self, size_class: SizeClass) -> dict[int, int]:
        """Return buffer → bytes, the larger of both ends of the class.

        Buffers whose sizes the symbols do not determine are left out.
        """
        nbytes = self._nbytes_at(size_class.high)
        if not size_class.is_exact:
            nbytes = list(map(max, nbytes, self._nbytes_at(size_class.low)))
        nbytes_by_owner = {
            owner: max(nbytes[number] for number in numbers)
            for owner, numbers in self._sizes_of.items()
        }
        return {owner: size for owner, size in nbytes_by_owner.items() if size > 0}

    def _nbytes_at(self, values: Sequence[int]) -> list[int]:
        """Return the bytes of each size."""
        value_of = dict(zip(self._symbols, values, strict=True))
        return [_nbytes(size, value_of) for size in self._sizes]


def _nbytes(size: Size, values: Mapping[str, int]) -> int:
    """Return the bytes of a size; 0 if the values do not determine it."""
    if isinstance(size, int):
        return size
    try:
        return evaluate(size, values)
    except (KeyError, ZeroDivisionError, ValueError):
        return 0
