"""Numbers the tiles of a kernel: which range of each dimension a tile computes."""

from __future__ import annotations

from math import prod

from ortpkg.codegen.loop_ir.kernel import Value
from ortpkg.codegen.schedules.kernel_maker import KernelMaker
from ortpkg.shapes.expressions import Size, operation


class TileSpace:
    """Tiles over dimensions that are cut into ranges, the first dimension outermost.

    Attributes:
        tile_count: how many tiles there are.
        ranges: of the kernel's tile, for each dimension the first place and the one behind the
            last.
    """

    def __init__(self, maker: KernelMaker, *dimensions: tuple[Size, int | None]) -> None:
        """Dimensions are (size, length of a range); None: it is not cut."""
        counts = [1 if length is None else quotient_up(size, length) for size, length in dimensions]
        self.tile_count: Size = prod(counts, start=1)
        b = maker.builder
        rest = b.tile
        ranges: list[tuple[Value, Value]] = []
        for place in reversed(range(len(dimensions))):
            (size, length), count = dimensions[place], counts[place]
            if length is None or count == 1:
                ranges.append((b.index(0), maker.value(size)))
                continue
            is_outermost = all(each == 1 for each in counts[:place])
            number = rest if is_outermost else b.rem(rest, maker.size(count))
            rest = b.div(rest, maker.size(count))
            first = b.mul(number, length)
            stop = b.add(first, length)
            is_even = isinstance(size, int) and size % length == 0
            if not is_even and length > 1:
                stop = b.least(stop, maker.size(size))
            ranges.append((first, stop))
        self.ranges = ranges[::-1]


def quotient_up(size: Size, divisor: int) -> Size:
    """The quotient, rounded up."""
    if divisor == 1:
        return size
    return operation("floor", size + divisor - 1, divisor)
