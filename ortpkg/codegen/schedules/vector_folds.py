"""Folds neighbours into one number, in an order that is fixed by their count alone.

Several vectors are folded side by side, then with one another by halves. Long sums go in blocks
whose sums are added, so that errors grow with neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ortpkg.codegen.loop_ir.kernel import Op, Value
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.codegen.loop_ir.loop_types import LoopType, Scalar
from ortpkg.codegen.schedules.element_values import lane_numbers
from ortpkg.codegen.schedules.vector_loops import whole_end
from ortpkg.codegen.tensor_ir.operations import Combiner

#: Passes after which a sum begins anew.
_PASSES_IN_BLOCK = 64
_OPS = {Combiner.SUM: Op.ADD, Combiner.PRODUCT: Op.MUL, Combiner.MAX: Op.MAX, Combiner.MIN: Op.MIN}
#: What small kinds are folded as.
_WIDE = {Scalar.F16: Scalar.F32, Scalar.BF16: Scalar.F32, Scalar.BOOL: Scalar.U8}

#: (index of the first, lanes, how many of them are there or None for all) -> their values
FoldedBody = Callable[[Value, int, Operand | None], Value]


@dataclass(frozen=True, slots=True)
class Folding:
    """How numbers of one kind are folded; ``op`` has ``neutral`` as its neutral number."""

    op: Op
    neutral: float
    scalar: Scalar

    def folded(self, b: KernelBuilder, left: Value, right: Value) -> Value:
        """Both as one; ``right`` may be of the kind that this folding stands for."""
        return b.compute(self.op, left, b.cast(right, self.scalar))

    def start(self, b: KernelBuilder, lanes: int) -> Value:
        """What to begin with."""
        return b.constant(self.neutral, LoopType(self.scalar, lanes))


def folding_of(combiner: Combiner, scalar: Scalar) -> Folding:
    """How a reduction folds numbers of a kind: floats of 16 bits as f32, bools as bytes."""
    wide = _WIDE.get(scalar, scalar)
    least, most = -math.inf, math.inf
    if not wide.is_float:
        least = 0 if wide.is_unsigned else -(1 << 8 * wide.nbytes - 1)
        most = least + (1 << 8 * wide.nbytes) - 1
    neutral = {Combiner.SUM: 0, Combiner.PRODUCT: 1, Combiner.MAX: least, Combiner.MIN: most}
    return Folding(_OPS[combiner], neutral[combiner], wide)


#: The greatest of f32, NaN left out: where a sum over the same numbers has the NaN.
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
    """Makes the loops from start up to stop; gives one number, of the folding's kind.

    Args:
        b: makes the statements.
        start, stop: i64 numbers.
        body: makes the values of some neighbours.
        folding: how they are folded.
        lanes: of one vector, a power of two.
        accumulators: how many vectors are folded side by side, a power of two.
        is_masked: whether the last vector is a masked one; else what is left goes one by one.
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
                folding.folded(b, each, body(b.add(loop.index, place * lanes), lanes, None))
                for place, each in enumerate(loop.carried)
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
    """Folds the last neighbours, fewer than a vector has lanes."""
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
    """Folds the lanes, the upper half with the lower one until one is left."""
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
