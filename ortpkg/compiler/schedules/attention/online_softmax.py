"""Softmax of rows that arrive block by block: keeps a running maximum and sum of each row, in f32.

With m the largest score so far, a row keeps sum(exp(score - m)); outputs of earlier blocks are
scaled by exp(old m - m) when a larger score arrives. A row whose scores are all -infinity gives
NaN, as does one with a NaN or +infinity; a row without scores gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import F32, LoopType, Scalar
from ortpkg.compiler.schedules.element_values import lane_numbers
from ortpkg.compiler.schedules.math_functions import exp_up_to_1

#: Returns the scores of a vector: (index of its first key in the block, number of valid lanes or
#: None for all, products).
Score = Callable[[Value, Operand | None, Value], Value]


class OnlineSoftmax:
    """Softmax of the rows of a block of queries.

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
        """Reset all rows; without any keys, their sums are 1."""
        b = self._b
        is_empty = b.compute(Op.EQ, keys, 0)
        total = b.select(is_empty, b.constant(1, F32), b.constant(0, F32))
        with b.loop(0, rows) as row:
            b.store(self._largest, row.index, b.constant(-inf, F32))
            b.store(self._sums, row.index, total)
            b.store(self._factors, row.index, b.constant(0, F32))

    def factor(self, row: Value) -> Value:
        """Return the factor for the row's outputs of earlier blocks."""
        return self._b.load(self._factors, row)

    def total(self, row: Value) -> Value:
        """Return the sum by which the row's outputs are divided at the end."""
        return self._b.load(self._sums, row)

    def add_block(self, row: Value, start: Value, count: Value, score: Score) -> None:
        """Turn ``count`` products of a row, stored at ``start``, into weights."""
        b = self._b
        old = b.load(self._largest, row)
        here = self._largest_score(start, count, score)
        largest = b.compute(Op.GREATER, here, old)
        b.store(self._largest, row, largest)
        is_none = b.compute(Op.EQ, largest, -inf)
        origin = b.select(is_none, b.constant(0, F32), largest)
        total = self._weights(start, count, origin)
        factor = exp_up_to_1(b, b.sub(old, origin))
        b.store(self._factors, row, factor)
        b.store(self._sums, row, b.fma(b.load(self._sums, row), factor, total))

    def _largest_score(self, start: Value, count: Value, score: Score) -> Value:
        """Replace products by scores, padded with -infinity, and return the largest."""
        b, lanes = self._b, self._lanes
        lowest = b.constant(-inf, self._vector)
        rest = b.compute(Op.AND, count, lanes - 1)
        whole = b.sub(count, rest)
        with b.loop(0, whole, lanes, carried=[lowest], hint="key") as key:
            at = b.add(start, key.index)
            value = score(key.index, None, b.load(self.scores, at, lanes))
            b.store(self.scores, at, value)
            key.hand_on(b.compute(Op.GREATER, value, key.carried[0]))
        with b.loop(whole, count, lanes, carried=key.results, hint="key") as tail:
            at = b.add(start, tail.index)
            value = score(tail.index, rest, b.load(self.scores, at, lanes))
            is_there = b.compute(Op.LT, lane_numbers(b, lanes), rest)
            value = b.select(is_there, value, lowest)
            b.store(self.scores, at, value)
            tail.hand_on(b.compute(Op.GREATER, value, tail.carried[0]))
        return b.compute(Op.LARGEST, tail.results[0])

    def _weights(self, start: Value, count: Value, origin: Value) -> Value:
        """Replace scores by exp(score - origin), and return their sum."""
        b, lanes = self._b, self._lanes
        with b.loop(0, count, lanes, carried=[b.constant(0, self._vector)], hint="key") as key:
            at = b.add(start, key.index)
            weight = exp_up_to_1(b, b.sub(b.load(self.scores, at, lanes), b.splat(origin, lanes)))
            b.store(self.scores, at, weight)
            key.hand_on(b.add(key.carried[0], weight))
        return b.compute(Op.SUM, key.results[0])
