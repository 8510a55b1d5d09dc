"""Where the windows of a convolution or pooling lie: taps inside of the source, runs of columns.

A *tap* is one place of a window; along the last spatial axis, windows stand in *columns*. Padding
is no memory: taps that fall on it are left out. Along the outer axes that bounds a loop over the
taps of a row; along the last axis the columns at the borders are runs of their own, in which it is
known for each column what taps it has, so that no loop over columns branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from ortpkg.codegen.loop_ir.kernel import Value
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.codegen.schedules.kernel_maker import KernelMaker
from ortpkg.codegen.tensor_ir.operations import Window
from ortpkg.shapes.expressions import Size

#: Windows that are longer have borders too long to be written out column by column.
_MOST_AT_BORDERS = 32
#: Windows that are longer are walked by a loop alone.
_MOST_WRITTEN_OUT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAxis:
    """One spatial axis: sizes of source and output, and the window along it."""

    source: Size
    output: Size
    kernel: int
    stride: int
    dilation: int
    before: Size
    after: Size

    @property
    def is_written_out(self) -> bool:
        """Whether the taps of each column are listed: all sizes are numbers, and taps are few."""
        sizes = (self.source, self.output, self.before)
        return all(isinstance(each, int) for each in sizes) and self.kernel <= _MOST_AT_BORDERS

    @property
    def is_padded(self) -> bool:
        """Whether a tap may lie outside of the source."""
        if self.before != 0:
            return True
        if isinstance(self.source, int) and isinstance(self.output, int):
            return (self.output - 1) * self.stride + (self.kernel - 1) * self.dilation >= (
                self.source
            )
        return self.kernel > 1 or self.after != 0

    @property
    def is_pointwise(self) -> bool:
        """Whether each window is the element at its own place."""
        return (self.kernel, self.stride, self.before) == (1, 1, 0) and self.source == self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """A tap of the last axis, with the columns of a group that have it: ``first`` up to ``stop``.

    ``place``: which tap of the window it is.
    """

    place: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRun:
    """Columns from ``first`` up to ``stop``, computed in groups that all have the same taps.

    Attributes:
        columns: of one group; their number is a multiple of it.
        taps: None where a group is one column whose taps are found when it is computed.
    """

    first: Value
    stop: Value
    columns: int
    taps: tuple[Tap, ...] | None

    def is_inside(self, kernel: int) -> bool:
        """Whether every column has every tap."""
        return self.taps == _all_taps(kernel, self.columns)


def window_axes(source: Sequence[Size], output: Sequence[Size], window: Window) -> list[WindowAxis]:
    """The spatial axes; ``source`` and ``output`` are the sizes along them."""
    return [
        WindowAxis(
            source=source[axis],
            output=output[axis],
            kernel=window.kernel[axis],
            stride=window.strides[axis],
            dilation=window.dilations[axis],
            before=window.before[axis],
            after=window.after[axis],
        )
        for axis in range(len(window.kernel))
    ]


def flat_axis(axes: Sequence[WindowAxis]) -> WindowAxis:
    """Pointwise axes as one: pixels in a row."""
    pixels = prod((each.source for each in axes), start=1)
    return WindowAxis(
        source=pixels, output=pixels, kernel=1, stride=1, dilation=1, before=0, after=0
    )


def row_positions(maker: KernelMaker, axes: Sequence[WindowAxis], row: Value) -> list[Value]:
    """Where a row of the output stands along each axis but the last."""
    if len(axes) == 1:
        return []
    b = maker.builder
    positions: list[Value] = []
    for axis in reversed(axes[1:-1]):
        positions.append(b.rem(row, maker.size(axis.output)))
        row = b.div(row, maker.size(axis.output))
    return [row, *positions[::-1]]


def taps_inside(maker: KernelMaker, axis: WindowAxis, position: Operand) -> tuple[Value, Value]:
    """The taps, first up to last, that lie in the source where the window stands at a position."""
    b = maker.builder
    if not axis.is_padded:
        return b.index(0), b.index(axis.kernel)
    start = b.sub(maker.value(axis.before), b.mul(b.index(position), axis.stride))
    first = _tap_from(b, start, axis)
    end = _tap_from(b, b.add(start, maker.size(axis.source)), axis)
    return b.least(first, axis.kernel), b.least(end, axis.kernel)


def tap_count_with_padding(maker: KernelMaker, axis: WindowAxis, position: Operand) -> Value:
    """How many taps lie in the source or its padding."""
    b = maker.builder
    reach = b.add(b.add(maker.value(axis.source), maker.size(axis.before)), maker.size(axis.after))
    end = b.sub(reach, b.mul(b.index(position), axis.stride))
    return b.least(_tap_from(b, end, axis), axis.kernel)


def column_runs(maker: KernelMaker, axis: WindowAxis, columns: int) -> list[ColumnRun]:
    """The columns of a row, so many at once as far as they go.

    Runs of whole groups begin at multiples of ``columns``, but where the axis is padded and its
    taps are not written out. What kernels take to compile does not grow with windows that are long.
    """
    if axis.is_written_out:
        return _known_runs(maker, axis, columns)
    least = _MOST_AT_BORDERS if columns == 1 else _MOST_WRITTEN_OUT
    if axis.kernel > least:
        first, stop = maker.builder.index(0), maker.value(axis.output)
        return [ColumnRun(first=first, stop=stop, columns=1, taps=None)]
    return _open_runs(maker, axis, columns)


def _known_runs(maker: KernelMaker, axis: WindowAxis, columns: int) -> list[ColumnRun]:
    """Groups one after the other; neighbours that have the same taps are one run."""
    index = maker.builder.index
    output = axis.output
    assert isinstance(output, int)
    groups = [(first, min(first + columns, output)) for first in range(0, output, columns)]
    alike = groupby(groups, key=lambda each: (each[1] - each[0], _taps_of(axis, *each)))
    runs = []
    for (count, taps), members in alike:
        bounds = list(members)
        first, stop = index(bounds[0][0]), index(bounds[-1][1])
        runs.append(ColumnRun(first=first, stop=stop, columns=count, taps=taps))
    return runs


def _open_runs(maker: KernelMaker, axis: WindowAxis, columns: int) -> list[ColumnRun]:
    """Borders column by column, and between them groups, then what is left of them."""
    b = maker.builder
    first, stop, output = b.index(0), maker.value(axis.output), maker.value(axis.output)
    if axis.is_padded:
        before = maker.value(axis.before)
        reached = b.most(b.add(before, axis.stride - 1), 0)
        first = b.least(b.div(reached, axis.stride), output)
        reach = (axis.kernel - 1) * axis.dilation + 1
        last = b.sub(b.add(maker.value(axis.source), before), reach)
        inside = b.div(b.most(b.add(last, axis.stride), 0), axis.stride)
        stop = b.most(b.least(inside, output), first)
    whole = b.sub(stop, b.rem(b.sub(stop, first), columns))
    runs = [
        ColumnRun(first=first, stop=whole, columns=columns, taps=_all_taps(axis.kernel, columns)),
        ColumnRun(first=whole, stop=stop, columns=1, taps=_all_taps(axis.kernel, 1)),
    ]
    if axis.is_padded:
        runs.insert(0, ColumnRun(first=b.index(0), stop=first, columns=1, taps=None))
        runs.append(ColumnRun(first=stop, stop=output, columns=1, taps=None))
    return runs


def _all_taps(kernel: int, columns: int) -> tuple[Tap, ...]:
    return tuple(Tap(place=place, first=0, stop=columns) for place in range(kernel))


def _taps_of(axis: WindowAxis, first: int, stop: int) -> tuple[Tap, ...]:
    """The taps of a group of columns, each with those columns whose tap is in the source."""
    source, before = axis.source, axis.before
    assert isinstance(source, int)
    assert isinstance(before, int)
    taps = []
    for place in range(axis.kernel):
        shift = place * axis.dilation - before
        inside = [
            column - first
            for column in range(first, stop)
            if 0 <= column * axis.stride + shift < source
        ]
        if inside:
            taps.append(Tap(place=place, first=inside[0], stop=inside[-1] + 1))
    return tuple(taps)


def _tap_from(b: KernelBuilder, distance: Value, axis: WindowAxis) -> Value:
    """The first tap that lies so far behind the window's start, or 0."""
    return b.div(b.most(b.add(distance, axis.dilation - 1), 0), axis.dilation)
