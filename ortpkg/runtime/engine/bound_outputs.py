"""Choose the outputs that a run computes in place, in memory that its caller bound to them.

These are all outputs whose memory nothing else in the run reads or writes, and outputs whose memory
is also an input's if the only node that reads that input may overwrite it. So a cache of keys and
values that is bound both as past and as present is extended in place. All other outputs are
computed elsewhere, and copied when the run is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ortpkg.runtime.engine.allocation_planner import AllocationPlan, AllocKind
from ortpkg.runtime.engine.execution_plan import ABSENT, ExecutionPlan
from ortpkg.runtime.kernels.op_kernel import Tensor, Value

#: First byte, end, value index, True for an output.
_Range = tuple[int, int, int, bool]


class BoundOutputs:
    """Outputs of a plan that can be computed in place, determined once."""

    def __init__(self, plan: ExecutionPlan, allocation: AllocationPlan) -> None:
        self._inputs = plan.inputs
        readers: dict[int, int] = {}
        for step in plan.steps:
            for index in (*step.inputs, *step.implicit_inputs):
                readers[index] = readers.get(index, 0) + 1
        private = {index for index in plan.inputs if readers.get(index) == 1} - set(plan.outputs)
        self._overwrites = {
            output: frozenset(
                step.inputs[source]
                for source, target in step.kernel.in_place
                if target == slot and source < len(step.inputs) and step.inputs[source] in private
            )
            for step in plan.steps
            for slot, output in enumerate(step.outputs)
            if output != ABSENT
            and allocation.values[output].alloc_kind is AllocKind.ALLOCATE_OUTPUT
        }

    def choose(self, targets: Mapping[int, Tensor], feeds: Sequence[Value]) -> dict[int, Tensor]:
        """Return the targets that kernels may write while they read ``feeds``.

        ``targets``: value index → memory.
        """
        writable = {
            index: array
            for index, array in targets.items()
            if index in self._overwrites
            and array.nbytes
            and array.flags.c_contiguous
            and array.flags.writeable
        }
        ranges: list[_Range] = [
            (*byte_bounds(array), index, True) for index, array in targets.items() if array.nbytes
        ]
        ranges += [
            (*byte_bounds(feed), index, False)
            for index, feed in zip(self._inputs, feeds, strict=True)
            if isinstance(feed, np.ndarray) and feed.nbytes
        ]
        ranges.sort(key=lambda bounds: bounds[0])
        reached: list[_Range] = []
        for current in ranges:
            reached = [other for other in reached if other[1] > current[0]]
            for other in reached:
                for first, second in ((current, other), (other, current)):
                    if first[3] and not self._may_share(first, second):
                        writable.pop(first[2], None)
            reached.append(current)
        return writable

    def _may_share(self, output: _Range, other: _Range) -> bool:
        """Return True if an output may be written although ``other`` lies in the same memory."""
        is_input = not other[3]
        return (
            is_input and output[:2] == other[:2] and other[2] in self._overwrites.get(output[2], ())
        )
