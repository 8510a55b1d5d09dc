"""Attention of few queries, one after the other: each reads keys and values in place."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder
from ortpkg.compiler.schedules.attention.attention_sides import row_vectors
from ortpkg.compiler.schedules.attention.attention_tile import AttentionTile
from ortpkg.compiler.schedules.element_values import lane_numbers
from ortpkg.compiler.schedules.register_tile import zero_sums

#: Vectors of the output that are summed at once.
_MOST_SUMS = 8


def attend_one_by_one(tile: AttentionTile) -> None:
    """Emit the computation of a tile."""
    b, tiling = tile.maker.builder, tile.tiling
    tile.begin(tile.count)
    with (
        b.loop(0, tile.count, hint="query") as row,
        b.loop(0, tile.keys, tiling.key_block, hint="keys") as block,
    ):
        count = b.least(b.sub(tile.keys, block.index), tiling.key_block)
        _multiply_keys(tile, row.index, block.index, count)
        tile.weigh(row.index, b.index(0), block.index, count)
        _multiply_values(tile, row.index, block.index, count)
    tile.finish()


def _multiply_keys(tile: AttentionTile, row: Value, first: Value, count: Value) -> None:
    """Emit the products of a query with the keys of a block, a vector of keys at a time."""
    b, lanes = tile.maker.builder, tile.tiling.lanes
    base = b.mul(row, tile.width)
    if tile.sides.keys_are_neighbours():
        with b.loop(0, count, lanes, hint="key") as key:
            lane_count = b.least(b.sub(count, key.index), lanes)
            with b.loop(0, tile.width, carried=zero_sums(b, 1, lanes), hint="column") as column:
                at = b.add(first, key.index)
                keys = tile.sides.keys(tile.head, at, column.index, lane_count)
                times = b.splat(b.load(tile.queries, b.add(base, column.index)), lanes)
                column.hand_on(b.fma(times, keys, column.carried[0]))
            b.store(tile.softmax.scores, key.index, column.results[0])
        return
    vectors = row_vectors(tile.width, lanes)
    query = [b.load(tile.queries, b.add(base, start), lanes, rest) for start, rest in vectors]
    last = b.sub(count, 1)
    with b.loop(0, count, lanes, hint="key") as key:
        sums = []
        for lane in range(lanes):
            at = b.add(first, b.least(b.add(key.index, lane), last))
            (total,) = zero_sums(b, 1, lanes)
            for (start, rest), times in zip(vectors, query, strict=True):
                key_vector = tile.sides.key(tile.head, at, start, rest)
                if rest is not None:
                    is_there = b.compute(Op.LT, lane_numbers(b, lanes), rest)
                    key_vector = b.select(is_there, key_vector, 0.0)
                total = b.fma(times, key_vector, total)
            sums.append(total)
        b.store(tile.softmax.scores, key.index, sums_of(b, sums))


def _multiply_values(tile: AttentionTile, row: Value, first: Value, count: Value) -> None:
    """Add the values of a block times the weights to a row of the output."""
    b, lanes = tile.maker.builder, tile.tiling.lanes
    base = b.mul(row, tile.sum_columns)
    factor = b.splat(tile.softmax.factor(row), lanes)
    columns = row_vectors(tile.value_width, lanes)
    for start in range(0, len(columns), _MOST_SUMS):
        part = columns[start : start + _MOST_SUMS]
        before = [b.mul(b.load(tile.sums, b.add(base, at), lanes), factor) for at, _ in part]
        with b.loop(0, count, carried=before, hint="key") as key:
            times = b.splat(b.load(tile.softmax.scores, key.index), lanes)
            at_key = b.add(first, key.index)
            key.hand_on(
                *(
                    b.fma(times, tile.sides.value(tile.head, at_key, at, rest), total)
                    for (at, rest), total in zip(part, key.carried, strict=True)
                )
            )
        for (at, _), total in zip(part, key.results, strict=True):
            b.store(tile.sums, b.add(base, at), total)


def sums_of(builder: KernelBuilder, vectors: Sequence[Value]) -> Value:
    """Return the sum of each vector, in one vector; there are as many vectors as lanes.

    Their number is a power of two; lane i is the sum of vector i.
    """
    count, values = len(vectors), list(vectors)
    half = count // 2
    while half:
        low = [lane if not lane & half else lane - half + count for lane in range(count)]
        high = [lane + half if not lane & half else lane + count for lane in range(count)]
        values = [
            builder.add(
                builder.shuffle(values[row], values[row + half], low),
                builder.shuffle(values[row], values[row + half], high),
            )
            for row in range(half)
        ]
        half //= 2
    return values[0]
