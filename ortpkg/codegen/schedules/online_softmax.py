"""The softmax of rows that come block by block: a running maximum and sum of each row, in f32.

With m the largest score so far, a row keeps sum(exp(score - m)), and what has been made of the
blocks before is scaled by exp(old m - m) when a larger score comes. A row of scores that are all
-infinity gives NaN, as one with a NaN or an infinity does; a row without any score gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from ortpkg.codegen.loop_ir.kernel import Op, Value
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.codegen.loop_ir.loop_types import F32, LoopType, Scalar
from ortpkg.codegen.schedules.element_values import lane_numbers
from ortpkg.codegen.schedules.math_functions import exp_up_to_1

#: The scores of a vector: (place in the row of the block, how many there are, the products there).
Score = Callable[[Value, Operand | None, Value], Value]


class OnlineSoftmax:
    """Rows of a block of queries.

    Attributes:
        scores: products, then weights: one row of the block of keys for each query of a group.
    """

    def __init__(
        self, builder: KernelBuilder, *, rows: int, group: int, key_block: int, lanes: int
    ) -> None:
        self._b, self._lanes, self._key_block = builder, lanes, key_block
        self._vector = LoopType(Scalar.F32, lanes)
        self.scores = builder.scratch("scores", Scalar.F32, group * key_block)
        self._largest = builder.scratch("largest", Scalar.F32, rows)
        self._sums = builder.scratch("sums", Scalar.F32, rows)
        self._factors = builder.scratch("factors", Scalar.F32, rows)

    def clear(self, rows: Operand, keys: Value) -> None:
        """Nothing has come; a row to which no key will come gets the sum 1."""
        b = self._b
        is_empty = b.compute(Op.EQ, keys, 0)
        total = b.select(is_empty, b.constant(1, F32), b.constant(0, F32))
        with b.loop(0, rows) as row:
            b.store(self._largest, row.index, b.constant(-inf, F32))
            b.store(self._sums, row.index, total)
            b.store(self._factors, row.index, b.constant(0, F32))

    def factor(self, row: Value) -> Value:
        """What the row's outputs of the blocks before are scaled by."""
        return self._b.load(self._factors, row)

    def total(self, row: Value) -> Value:
        """The sum by which the row's outputs are divided at the end."""
        return self._b.load(self._sums, row)

    def take(self, row: Value, place: Value, count: Value, score: Score) -> None:
        """Makes weights of ``count`` products of a row, which stand at ``place``."""
        b = self._b
        old = b.load(self._largest, row)
        here = self._largest_score(place, count, score)
        largest = b.compute(Op.GREATER, here, old)
        b.store(self._largest, row, largest)
        is_none = b.compute(Op.EQ, largest, -inf)
        origin = b.select(is_none, b.constant(0, F32), largest)
        total = self._weights(place, count, origin)
        factor = exp_up_to_1(b, b.sub(old, origin))
        b.store(self._factors, row, factor)
        b.store(self._sums, row, b.fma(b.load(self._sums, row), factor, total))

    def _largest_score(self, place: Value, count: Value, score: Score) -> Value:
        """Writes the scores where the products stood; beyond the last one -infinity."""
        b, lanes = self._b, self._lanes
        lowest = b.constant(-inf, self._vector)
        rest = b.compute(Op.AND, count, lanes - 1)
        whole = b.sub(count, rest)
        with b.loop(0, whole, lanes, carried=[lowest], hint="key") as key:
            at = b.add(place, key.index)
            value = score(key.index, None, b.load(self.scores, at, lanes))
            b.store(self.scores, at, value)
            key.hand_on(b.compute(Op.GREATER, value, key.carried[0]))
        with b.loop(whole, count, lanes, carried=key.results, hint="key") as tail:
            at = b.add(place, tail.index)
            value = score(tail.index, rest, b.load(self.scores, at, lanes))
            is_there = b.compute(Op.LT, lane_numbers(b, lanes), rest)
            value = b.select(is_there, value, lowest)
            b.store(self.scores, at, value)
            tail.hand_on(b.compute(Op.GREATER, value, tail.carried[0]))
        return b.compute(Op.LARGEST, tail.results[0])

    def _weights(self, place: Value, count: Value, origin: Value) -> Value:
        """Writes exp(score - origin) where the scores stood, and returns their sum."""
        b, lanes = self._b, self._lanes
        with b.loop(0, count, lanes, carried=[b.constant(0, self._vector)], hint="key") as key:
            at = b.add(place, key.index)
            weight = exp_up_to_1(b, b.sub(b.load(self.scores, at, lanes), b.splat(origin, lanes)))
            b.store(self.scores, at, weight)
            key.hand_on(b.add(key.carried[0], weight))
        return b.compute(Op.SUM, key.results[0])
