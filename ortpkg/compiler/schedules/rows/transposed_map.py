"""Schedules maps that read across their vector axis: blocks are transposed in registers.

Both sides are accessed in whole vectors, and use all of a cache line while it is in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.compiler.fusion.substitution import replace_reads
from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.schedules.element_cost import element_ns, elements_in_tile
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.linear_reads import linear_index
from ortpkg.compiler.schedules.rows.map_body import FlatMap, MapBody
from ortpkg.compiler.schedules.rows.row_tiles import (
    RowTiles,
    positions_of,
    product_of,
    row_tiles,
)
from ortpkg.compiler.schedules.rows.vector_loops import whole_end
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.transposed_square import transposed_square
from ortpkg.compiler.tensor_ir.elements import Made, Read, parts_of
from ortpkg.graph.shapes.expressions import Size

_LINE_NBYTES = 64


@dataclass(frozen=True, slots=True)
class TransposedRead:
    """A read whose neighbours are along ``axis``, not along the vector axis."""

    read: Read
    axis: int


def transposed_read(flat_map: FlatMap) -> TransposedRead | None:
    """Return the first read that is worth transposing in blocks, else None."""
    vector_axis, axes = flat_map.vector_axis, flat_map.flat.axes
    if vector_axis is None or not _fills(axes[vector_axis], flat_map.lanes):
        return None
    for part in parts_of(flat_map.value):
        if not isinstance(part, Read):
            continue
        linear = linear_index(part)
        if linear.values or linear.stride(vector_axis) in {0, 1}:
            continue
        for axis, number in linear.terms:
            if axis != vector_axis and number == 1 and _fills(axes[axis], flat_map.lanes):
                return TransposedRead(part, axis)
    return None


def _fills(size: Size, lanes: int) -> bool:
    return not isinstance(size, int) or size >= lanes


def schedule_transposed(flat_map: FlatMap, transposed: TransposedRead) -> ScheduledKernel:
    """Return the kernel; a row is a position of the other axes, and a block of the read's axis."""
    return _TransposedMap(flat_map, transposed).scheduled()


class _TransposedMap:
    def __init__(self, flat_map: FlatMap, transposed: TransposedRead) -> None:
        assert flat_map.vector_axis is not None
        self._map, self._read, self._axis = flat_map, transposed.read, transposed.axis
        self._vector_axis, self._lanes = flat_map.vector_axis, flat_map.lanes
        self._maker = KernelMaker("transpose")
        self._body = MapBody(self._maker, flat_map)
        self._values = ElementValues(self._maker, flat_map.model)
        line = _LINE_NBYTES // transposed.read.tensor.scalar.nbytes
        self._block = -(-line // self._lanes) * self._lanes
        made = Made(transposed.read.tensor.scalar)
        self._value = replace_reads(
            flat_map.value, lambda read: made if read == transposed.read else read
        )

    def scheduled(self) -> ScheduledKernel:
        """Return the kernel with its tiles."""
        axes, maker = self._map.flat.axes, self._maker
        outer = [
            dimension
            for dimension in range(len(axes))
            if dimension not in {self._axis, self._vector_axis}
        ]
        blocks = parts_count(axes[self._axis], self._block)
        tiles = self._tiles(product_of([axes[dimension] for dimension in outer]) * blocks)
        sizes = [*(maker.size(axes[dimension]) for dimension in outer), maker.size(blocks)]
        with tiles.each_row(maker) as (row, start, stop):
            b = maker.builder
            *positions, block = positions_of(b, row, sizes)
            at: list[Operand] = [0] * len(axes)
            for axis, position in zip(outer, positions, strict=True):
                at[axis] = position
            first = b.mul(b.index(block), self._block)
            last = b.least(b.add(first, self._block), maker.size(axes[self._axis]))
            self._do_block(at, (first, last), (start, stop))
        return maker.scheduled(tiles.count)

    def _tiles(self, rows: Size) -> RowTiles:
        cost = element_ns(self._value, self._map.model, self._vector_axis)
        wanted = max(64, elements_in_tile(cost) // self._block // 64 * 64)
        width = self._map.flat.axes[self._vector_axis]
        return row_tiles(rows, width, wanted, may_split=True)

    def _do_block(
        self, at: list[Operand], rows: tuple[Value, Value], along: tuple[Operand, Operand]
    ) -> None:
        """Emit a range of positions along both axes."""
        b, lanes, (first, last), (start, stop) = self._maker.builder, self._lanes, rows, along
        middle, end = whole_end(b, first, last, lanes), whole_end(b, start, stop, lanes)
        with b.loop(first, middle, lanes) as across:
            with b.loop(start, end, lanes) as loop:
                self._transpose(at, across.index, loop.index)
            with b.loop(across.index, b.add(across.index, lanes)) as one:
                at[self._axis] = one.index
                self._body.along_vector_axis(at, end, stop)
        with b.loop(middle, last) as one:
            at[self._axis] = one.index
            self._body.along_vector_axis(at, start, stop)

    def _transpose(self, at: list[Operand], across: Value, along: Value) -> None:
        """Emit a square with as many positions as lanes along both axes."""
        b, lanes, vectors = self._maker.builder, self._lanes, []
        for lane in range(lanes):
            at[self._axis], at[self._vector_axis] = across, b.add(along, lane)
            vectors.append(
                self._values.value_of(self._read, at, vector_axis=self._axis, lanes=lanes)
            )
        at[self._vector_axis] = along
        for lane, vector in enumerate(transposed_square(b, vectors)):
            at[self._axis] = b.add(across, lane)
            self._body.compute(self._value, at, lanes, made=vector)
