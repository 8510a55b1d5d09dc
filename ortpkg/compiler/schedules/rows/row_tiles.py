"""Shares rows among tiles: a tile has several short rows, or a part of a long row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.schedules.even_parts import even_part, parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.graph.shapes.expressions import Size, operation


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTiles:
    """Tiles over rows of equal width.

    Attributes:
        rows, width: number and width of the rows.
        rows_per_tile: number of rows in a tile, 1 or more.
        chunk: largest part of a row in one tile; None for whole rows.
    """

    rows: Size
    width: Size
    rows_per_tile: Size
    chunk: int | None

    @property
    def chunks(self) -> Size:
        """Number of tiles along a row."""
        return 1 if self.chunk is None else parts_count(self.width, self.chunk)

    @property
    def count(self) -> Size:
        """Total number of tiles."""
        return parts_count(self.rows, self.rows_per_tile) * self.chunks

    @contextmanager
    def each_row(self, maker: KernelMaker) -> Iterator[tuple[Operand, Operand, Operand]]:
        """Emit the loop over a tile's rows; yield a row, and start and stop of its part."""
        b, width = maker.builder, maker.size(self.width)
        block: Operand = b.tile
        start: Operand = 0
        stop: Operand = width
        if self.chunk is not None and self.chunks != 1:
            chunk_index: Operand = b.tile
            if self.rows != 1:
                chunks = maker.size(self.chunks)
                block, chunk_index = b.div(b.tile, chunks), b.rem(b.tile, chunks)
            start = b.mul(b.index(chunk_index), self.chunk)
            stop = b.least(b.add(start, self.chunk), width)
        if self.rows == 1:
            yield 0, start, stop
            return
        if self.rows_per_tile == 1:
            yield block, start, stop
            return
        if self.count == 1:
            first: Operand = 0
            last: Operand = maker.size(self.rows)
        else:
            per_tile = maker.size(self.rows_per_tile)
            first = b.mul(block, per_tile)
            last = b.least(b.add(first, per_tile), maker.size(self.rows))
        with b.loop(first, last, hint="row") as loop:
            yield loop.index, start, stop


def row_tiles(rows: Size, width: Size, wanted: int, *, may_split: bool) -> RowTiles:
    """Return tiles of about ``wanted`` elements, a multiple of 64.

    Args:
        rows, width: number and width of the rows.
        wanted: number of elements of a tile.
        may_split: True if several tiles may share a row.
    """
    if isinstance(width, int):
        chunk = wanted if may_split and width > wanted * 3 // 2 else None
        if chunk is not None:
            chunk = even_part(width, chunk, multiple=64)
        per_tile: Size = max(1, wanted // max(width, 1))
    else:
        chunk = wanted if may_split else None
        per_tile = operation("max", 1, operation("floor", wanted, operation("max", 1, width)))
    if isinstance(per_tile, int) and isinstance(rows, int) and rows:
        per_tile = even_part(rows, per_tile)
    return RowTiles(rows=rows, width=width, rows_per_tile=per_tile, chunk=chunk)


def positions_of(b: KernelBuilder, number: Operand, sizes: Sequence[Operand]) -> list[Operand]:
    """Return the positions along axes of an index in C order."""
    positions: list[Operand] = []
    for size in reversed(sizes[1:]):
        positions.append(b.rem(number, size) if size != 1 else 0)
        number = b.div(number, size) if size != 1 else number
    return [number, *reversed(positions)] if sizes else []


def product_of(sizes: Sequence[Size]) -> Size:
    """Return the product of sizes; 1 for none."""
    return prod(sizes, start=1)
