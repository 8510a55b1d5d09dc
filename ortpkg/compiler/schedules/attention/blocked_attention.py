"""Attention of many queries: products of blocks in register tiles.

A panel of keys contains, for each column, the keys of the panel side by side. A panel of values
contains, for each key, the columns of the panel side by side. Both are f32.
"""

from __future__ import annotations

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.attention.attention_sides import row_vectors
from ortpkg.compiler.schedules.attention.attention_tile import AttentionTile
from ortpkg.compiler.schedules.register_tile import add_products, zero_sums
from ortpkg.compiler.schedules.transposed_square import transposed_square


def attend_by_blocks(tile: AttentionTile) -> None:
    """Emit the computation of a tile."""
    _BlockedAttention(tile).attend()


class _BlockedAttention:
    def __init__(self, tile: AttentionTile) -> None:
        self._tile, self._b, self._tiling = tile, tile.maker.builder, tile.tiling
        block = self._tiling.key_block
        self._keys = self._b.scratch("keys", Scalar.F32, block * tile.width)
        self._values = self._b.scratch("values", Scalar.F32, block * tile.sum_columns)

    def attend(self) -> None:
        b, tile, tiling = self._b, self._tile, self._tiling
        tile.begin(tiling.query_rows)
        with b.loop(0, tile.keys, tiling.key_block, hint="keys") as block:
            count = b.least(b.sub(tile.keys, block.index), tiling.key_block)
            self._pack_keys(block.index, count)
            self._pack_values(block.index, count)
            with b.loop(0, tile.count, tiling.group, hint="group") as group:
                end = b.least(b.add(group.index, tiling.group), tile.count)
                self._multiply_keys(group.index, end, count)
                with b.loop(group.index, end, hint="query") as row:
                    start = b.mul(b.sub(row.index, group.index), tiling.key_block)
                    tile.weigh(row.index, start, block.index, count)
                self._multiply_values(group.index, end, count)
        tile.finish()

    # --- products ---------------------------------------------------------------------------------

    def _multiply_keys(self, first: Value, end: Value, keys: Value) -> None:
        b, tile, tiling = self._b, self._tile, self._tiling
        lanes, count = tiling.lanes, tiling.score_rows * tiling.score_vectors
        with (
            b.loop(0, keys, tiling.key_panel, hint="panel") as panel,
            b.loop(first, end, tiling.score_rows, hint="query") as row,
        ):
            rows = [
                b.mul(b.add(row.index, number), tile.width) for number in range(tiling.score_rows)
            ]
            panel_start = b.mul(panel.index, tile.width)
            zeros = zero_sums(b, count, lanes)
            sums = add_products(b, zeros, tile.queries, rows, self._keys, panel_start, tile.width)
            target = b.mul(b.sub(row.index, first), tiling.key_block)
            target = b.add(target, panel.index)
            for number, block_sum in enumerate(sums):
                line, vector = divmod(number, tiling.score_vectors)
                at = b.add(target, line * tiling.key_block + vector * lanes)
                b.store(tile.softmax.scores, at, block_sum)

    def _multiply_values(self, first: Value, end: Value, keys: Value) -> None:
        b, tile, tiling = self._b, self._tile, self._tiling
        lanes, vectors = tiling.lanes, tiling.value_vectors
        with (
            b.loop(0, tile.sum_columns, tiling.value_panel, hint="column") as column,
            b.loop(first, end, tiling.value_rows, hint="query") as row,
        ):
            lines = [b.add(row.index, number) for number in range(tiling.value_rows)]
            rows = [b.mul(b.sub(line, first), tiling.key_block) for line in lines]
            offsets = [
                b.add(b.add(b.mul(line, tile.sum_columns), column.index), vector * lanes)
                for line in lines
                for vector in range(vectors)
            ]
            factors = [b.splat(tile.softmax.factor(line), lanes) for line in lines]
            before = [
                b.mul(b.load(tile.sums, offset, lanes), factors[number // vectors])
                for number, offset in enumerate(offsets)
            ]
            panel = b.mul(column.index, tiling.key_block)
            scores = tile.softmax.scores
            sums = add_products(b, before, scores, rows, self._values, panel, keys)
            for offset, block_sum in zip(offsets, sums, strict=True):
                b.store(tile.sums, offset, block_sum)

    # --- blocks -----------------------------------------------------------------------------------

    def _pack_keys(self, first: Value, count: Value) -> None:
        """Pack keys from ``first`` on; those beyond the last key are undefined."""
        b, tile, tiling = self._b, self._tile, self._tiling
        with b.loop(0, count, tiling.key_panel, hint="panel") as panel:
            base = b.mul(panel.index, tile.width)
            for vector in range(tiling.score_vectors):
                key = b.add(panel.index, vector * tiling.lanes)
                target = b.add(base, vector * tiling.lanes)
                with b.when(b.compute(Op.LT, key, count)):
                    if tile.sides.keys_are_neighbours():
                        self._copy_keys(b.add(first, key), b.sub(count, key), target)
                    else:
                        self._transpose_keys(first, key, b.sub(count, 1), target)

    def _copy_keys(self, first: Value, count: Value, target: Value) -> None:
        b, tile, tiling = self._b, self._tile, self._tiling
        lane_count = b.least(count, tiling.lanes)
        with b.loop(0, tile.width, hint="column") as step:
            value = tile.sides.keys(tile.head, first, step.index, lane_count)
            b.store(self._keys, b.add(target, b.mul(step.index, tiling.key_panel)), value)

    def _transpose_keys(self, first: Value, key: Value, last: Value, target: Value) -> None:
        """Pack squares of keys and columns, transposed in registers."""
        b, tile, lanes = self._b, self._tile, self._tiling.lanes
        keys = [b.add(first, b.least(b.add(key, lane), last)) for lane in range(lanes)]

        def turn(start: Operand, count: int | None) -> None:
            rows = [tile.sides.key(tile.head, key_row, start, count) for key_row in keys]
            for number, vector in enumerate(transposed_square(b, rows)[:count]):
                row = b.mul(b.add(b.index(start), number), self._tiling.key_panel)
                b.store(self._keys, b.add(target, row), vector)

        rest = tile.width % lanes
        if tile.width >= lanes:
            with b.loop(0, tile.width - rest, lanes, hint="column") as step:
                turn(step.index, None)
        if rest:
            turn(tile.width - rest, rest)

    def _pack_values(self, first: Value, count: Value) -> None:
        """Pack the values of keys from ``first`` on."""
        b, tile, tiling = self._b, self._tile, self._tiling
        panel_size = tiling.key_block * tiling.value_panel
        with b.loop(0, count, hint="key") as key:
            row = b.mul(key.index, tiling.value_panel)
            for start, rest in row_vectors(tile.value_width, tiling.lanes):
                value = tile.sides.value(tile.head, b.add(first, key.index), start, rest)
                panel, panel_column = divmod(start, tiling.value_panel)
                b.store(self._values, b.add(row, panel * panel_size + panel_column), value)
