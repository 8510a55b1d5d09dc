"""Folds neighbours into one number, in an order that depends only on their count.

Several vectors are folded side by side, then combined by halves. Long sums are split into blocks
whose sums are added, which bounds rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar
from ortpkg.compiler.schedules.element_values import lane_numbers
from ortpkg.compiler.schedules.rows.vector_loops import whole_end
from ortpkg.compiler.tensor_ir.operations import Combiner

#: Iterations after which a new partial sum begins.
_PASSES_IN_BLOCK = 64
_OPS = {Combiner.SUM: Op.ADD, Combiner.PRODUCT: Op.MUL, Combiner.MAX: Op.MAX, Combiner.MIN: Op.MIN}
#: Small type → type in which it is folded.
_WIDE = {Scalar.F16: Scalar.F32, Scalar.BF16: Scalar.F32, Scalar.BOOL: Scalar.U8}

#: (index of the first, lanes, number of valid lanes or None for all) -> their values
FoldedBody = Callable[[Value, int, Operand | None], Value]


@dataclass(frozen=True, slots=True)
class Folding:
    """A fold of numbers of one type; ``neutral`` is the neutral number of ``op``."""

    op: Op
    neutral: float
    scalar: Scalar

    def folded(self, b: KernelBuilder, left: Value, right: Value) -> Value:
        """Return both combined; ``right`` is converted to the folding's type."""
        return b.compute(self.op, left, b.cast(right, self.scalar))

    def start(self, b: KernelBuilder, lanes: int) -> Value:
        """Return the initial value."""
        return b.constant(self.neutral, LoopType(self.scalar, lanes))


def folding_of(combiner: Combiner, scalar: Scalar) -> Folding:
    """Return the folding of a reduction: floats of 16 bits as f32, bools as bytes."""
    wide = _WIDE.get(scalar, scalar)
    least, most = -math.inf, math.inf
    if not wide.is_float:
        least = 0 if wide.is_unsigned else -(1 << 8 * wide.nbytes - 1)
        most = least + (1 << 8 * wide.nbytes) - 1
    neutral = {Combiner.SUM: 0, Combiner.PRODUCT: 1, Combiner.MAX: least, Combiner.MIN: most}
    return Folding(_OPS[combiner], neutral[combiner], wide)


#: Greatest f32 without regard to NaN, for rows whose sum is NaN then anyway.
GREATEST_NUMBER = Folding(Op.GREATER, -math.inf, Scalar.F32)


def fold_vectors(
    b: KernelBuilder,
    start: Operand,
    stop: Operand,
    body: FoldedBody,
    folding: Folding,
    *,
    lanes: int,
    accumulators: int,
    is_masked: bool,
) -> Value:
    """Emit the loops from start up to stop; return one number of the folding's type.

    Args:
        b: builder of the kernel.
        start, stop: i64 numbers.
        body: returns the values of some neighbours.
        folding: the folding.
        lanes: lanes of one vector, a power of two.
        accumulators: number of vectors that are folded side by side, a power of two.
        is_masked: True if a masked vector takes the rest; otherwise it is folded one by one.
    """
    step = lanes * accumulators
    whole = whole_end(b, start, stop, step)
    totals = _folded_blocks(b, (start, whole), body, folding, lanes, accumulators)
    total = _pairwise(b, folding, totals)
    end = whole_end(b, whole, stop, lanes)
    with b.loop(whole, end, lanes, carried=[total]) as loop:
        loop.hand_on(folding.folded(b, loop.carried[0], body(loop.index, lanes, None)))
    (total,) = loop.results
    if is_masked and lanes > 1:
        total = _with_masked(b, (end, stop), total, body, folding)
        return _one(b, folding, total)
    one = _one(b, folding, total)
    if lanes == 1:
        return one
    with b.loop(end, stop, carried=[one]) as loop:
        loop.hand_on(folding.folded(b, loop.carried[0], body(loop.index, 1, None)))
    return loop.results[0]


def _folded_blocks(
    b: KernelBuilder,
    bounds: tuple[Operand, Operand],
    body: FoldedBody,
    folding: Folding,
    lanes: int,
    accumulators: int,
) -> Sequence[Value]:
    step, (start, stop) = lanes * accumulators, bounds
    block = step * _PASSES_IN_BLOCK
    first, last = b.number_of(start), b.number_of(stop)
    is_short = first is not None and last is not None and last - first <= block

    def passes(begin: Operand, end: Operand) -> Sequence[Value]:
        neutral = [folding.start(b, lanes)] * accumulators
        with b.loop(begin, end, step, carried=neutral) as loop:
            made = [
                folding.folded(b, total, body(b.add(loop.index, number * lanes), lanes, None))
                for number, total in enumerate(loop.carried)
            ]
            loop.hand_on(*made)
        return loop.results

    if is_short or folding.op is not Op.ADD or not folding.scalar.is_float:
        return passes(start, stop)
    neutral = [folding.start(b, lanes)] * accumulators
    with b.loop(start, stop, block, carried=neutral) as outer:
        sums = passes(outer.index, b.least(b.add(outer.index, block), stop))
        outer.hand_on(*(b.add(old, new) for old, new in zip(outer.carried, sums, strict=True)))
    return outer.results


def _with_masked(
    b: KernelBuilder,
    bounds: tuple[Operand, Operand],
    total: Value,
    body: FoldedBody,
    folding: Folding,
) -> Value:
    """Fold the last neighbours, fewer than the lanes of a vector."""
    lanes, (start, stop) = total.type.lanes, bounds
    if b.number_of(start) is not None and b.number_of(start) == b.number_of(stop):
        return total
    with b.loop(start, stop, lanes, carried=[total]) as loop:
        count = b.sub(b.index(stop), loop.index)
        value = b.cast(body(loop.index, lanes, count), folding.scalar)
        is_there = b.compute(Op.LT, lane_numbers(b, lanes), count)
        value = b.select(is_there, value, folding.neutral)
        loop.hand_on(folding.folded(b, loop.carried[0], value))
    return loop.results[0]


def _pairwise(b: KernelBuilder, folding: Folding, values: Sequence[Value]) -> Value:
    while len(values) > 1:
        half = len(values) // 2
        values = [
            folding.folded(b, left, right)
            for left, right in zip(values[:half], values[half:], strict=True)
        ]
    return values[0]


def _one(b: KernelBuilder, folding: Folding, vector: Value) -> Value:
    """Fold the lanes, the upper half with the lower half, until one is left."""
    lanes = vector.type.lanes
    while lanes > 1:
        lanes //= 2
        parts = [
            b.shuffle(vector, vector, range(first, first + lanes))
            if lanes > 1
            else b.extract(vector, first)
            for first in (0, lanes)
        ]
        vector = folding.folded(b, parts[0], parts[1])
    return vector
