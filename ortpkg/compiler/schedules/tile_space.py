"""Numbers the tiles of a kernel, and finds the ranges that a tile computes."""

from __future__ import annotations

from math import prod

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.graph.shapes.expressions import Size


class TileSpace:
    """Tiles over dimensions that are cut into ranges, the first dimension outermost.

    Attributes:
        tile_count: number of tiles.
        ranges: for each dimension, first and one past the last position of the kernel's tile.
    """

    def __init__(self, maker: KernelMaker, *dimensions: tuple[Size, int | None]) -> None:
        """Create tiles over dimensions (size, length of a range), None for a range of all."""
        counts = [1 if length is None else parts_count(size, length) for size, length in dimensions]
        self.tile_count: Size = prod(counts, start=1)
        b = maker.builder
        rest = b.tile
        ranges: list[tuple[Value, Value]] = []
        for dimension in reversed(range(len(dimensions))):
            (size, length), count = dimensions[dimension], counts[dimension]
            if length is None or count == 1:
                ranges.append((b.index(0), maker.value(size)))
                continue
            is_outermost = all(outer_count == 1 for outer_count in counts[:dimension])
            number = rest if is_outermost else b.rem(rest, maker.size(count))
            rest = b.div(rest, maker.size(count))
            first = b.mul(number, length)
            stop = b.add(first, length)
            is_even = isinstance(size, int) and size % length == 0
            if not is_even and length > 1:
                stop = b.least(stop, maker.size(size))
            ranges.append((first, stop))
        self.ranges = ranges[::-1]
