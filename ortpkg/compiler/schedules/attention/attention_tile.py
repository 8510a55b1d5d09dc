"""State of a tile of an attention, and its end: the output is divided and written."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar
from ortpkg.compiler.schedules.attention.attention_sides import AttentionSides, row_vectors
from ortpkg.compiler.schedules.attention.attention_tiling import AttentionTiling
from ortpkg.compiler.schedules.attention.online_softmax import OnlineSoftmax
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.linear_reads import flattened_coordinates
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.tensor_ir.operations import Attention


class AttentionTile:
    """A block of queries of one head.

    Attributes:
        maker: maker of the kernel.
        tiling: sizes of the blocks.
        head: indices of the tile along the batch axes.
        first, count: first query, and number of queries.
        width, value_width: widths of keys and values.
        sides: query, key and value, read in place.
        queries: scratch memory for the queries, row by row.
        softmax: softmax of its rows.
        sums: scratch memory for the output, row by row, before it is divided.
        sum_columns: number of elements in a row of ``sums``.
    """

    def __init__(
        self,
        maker: KernelMaker,
        attention: Attention,
        model: MachineModel,
        tiling: AttentionTiling,
        head: Sequence[Operand],
        first: Value,
        count: Value,
    ) -> None:
        width, value_width = attention.width, attention.value_width
        assert isinstance(width, int)
        assert isinstance(value_width, int)
        b = maker.builder
        self.maker, self.tiling, self.head, self.first, self.count = (
            maker, tiling, head, first, count
        )  # fmt: skip
        self.width, self.value_width = width, value_width
        self._attention, self._values = attention, ElementValues(maker, model)
        self.sides = AttentionSides(maker, self._values, attention, tiling.lanes)
        self.softmax = OnlineSoftmax(
            b,
            rows=tiling.query_rows,
            group=tiling.group,
            key_block=tiling.key_block,
            lanes=tiling.lanes,
        )
        self.sum_columns = -(-value_width // tiling.value_panel) * tiling.value_panel
        self.queries = b.scratch("queries", Scalar.F32, tiling.query_rows * width)
        self.sums = b.scratch("outputs", Scalar.F32, tiling.query_rows * self.sum_columns)
        self._output = maker.written(attention.output)

    @property
    def keys(self) -> Value:
        """Number of keys, as a value."""
        return self.maker.value(self._attention.keys)

    def begin(self, rows: Operand) -> None:
        """Load the queries into ``rows`` rows, and clear the sums.

        Rows beyond the last query repeat it.
        """
        b, lanes = self.maker.builder, self.tiling.lanes
        last = b.sub(self.count, 1)
        with b.loop(0, rows, hint="query") as row:
            query = b.add(self.first, b.least(row.index, last))
            base = b.mul(row.index, self.width)
            for column, rest in row_vectors(self.width, lanes):
                value = self.sides.query(self.head, query, column, rest)
                b.store(self.queries, b.add(base, column), value, rest)
        self.softmax.clear(rows, self.keys)
        zero = b.constant(0, LoopType(Scalar.F32, lanes))
        with b.loop(0, b.mul(b.index(rows), self.sum_columns), lanes) as sum_index:
            b.store(self.sums, sum_index.index, zero)

    def weigh(self, row: Value, start: Value, first_key: Value, count: Value) -> None:
        """Turn the products of a row with ``count`` keys, stored at ``start``, into weights."""
        b, rank, score = self.maker.builder, len(self.head), self._attention.score

        def scored(key: Value, lane_count: Operand | None, made: Value) -> Value:
            if score is None:
                return made
            return self._values.value_of(
                score,
                [*self.head, b.add(self.first, row), b.add(first_key, key)],
                vector_axis=rank + 1,
                lanes=self.tiling.lanes,
                count=lane_count,
                made=made,
            )

        self.softmax.add_block(row, start, count, scored)

    def finish(self) -> None:
        """Divide the rows, and write them."""
        b, lanes, output = self.maker.builder, self.tiling.lanes, self._attention.output
        axis = len(self.head) + 1
        linear = flattened_coordinates(output, self._attention.coordinates)
        is_row = linear.stride(axis) == 1
        with b.loop(0, self.count, hint="query") as row:
            total = b.splat(self.softmax.total(row.index), lanes)
            base = b.mul(row.index, self.sum_columns)
            for column, rest in row_vectors(self.value_width, lanes):
                sums = b.load(self.sums, b.add(base, column), lanes)
                made = b.cast(b.div(sums, total), output.scalar)
                for lane in [None] if is_row else range(rest or lanes):
                    axes = [*self.head, b.add(self.first, row.index), column + (lane or 0)]
                    index: Value = self.maker.value(linear.offset)
                    for axis_index, number in linear.terms:
                        index = b.add(
                            index, b.mul(b.index(axes[axis_index]), self.maker.size(number))
                        )
                    if lane is None:
                        b.store(self._output, index, made, rest)
                    else:
                        b.store(self._output, index, b.extract(made, lane))
