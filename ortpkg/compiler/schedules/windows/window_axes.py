"""Windows of a convolution or pooling: taps inside the source, and runs of columns.

A *tap* is one position of a window; along the last spatial axis, windows are at *columns*. Padding
is not in memory, so taps in it are left out. Along the outer axes this bounds the loop over the
taps of a row. Along the last axis, columns at the borders form runs of their own with known taps
for each column, so that no loop over columns branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.tensor_ir.operations import Window
from ortpkg.graph.shapes.expressions import Size

#: Longest window whose borders are unrolled column by column.
_MOST_AT_BORDERS = 32
#: Longest window that is unrolled at all; longer ones are only walked by a loop.
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
        """True if the taps of each column are listed: all sizes are numbers, and taps are few."""
        sizes = (self.source, self.output, self.before)
        return all(isinstance(size, int) for size in sizes) and self.kernel <= _MOST_AT_BORDERS

    @property
    def is_padded(self) -> bool:
        """True if a tap may be outside the source."""
        if self.before != 0:
            return True
        if isinstance(self.source, int) and isinstance(self.output, int):
            return (self.output - 1) * self.stride + (self.kernel - 1) * self.dilation >= (
                self.source
            )
        return self.kernel > 1 or self.after != 0

    @property
    def is_pointwise(self) -> bool:
        """True if each window is the element at its own position."""
        return (self.kernel, self.stride, self.before) == (1, 1, 0) and self.source == self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """A tap of the last axis, with the columns of a group that have it: ``first`` up to ``stop``.

    ``position`` is its index in the window.
    """

    position: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRun:
    """Columns from ``first`` up to ``stop``, computed in groups that all have the same taps.

    Attributes:
        columns: number of columns in a group, which divides that of the run.
        taps: taps of a group; None if a group is one column whose taps are found at run time.
    """

    first: Value
    stop: Value
    columns: int
    taps: tuple[Tap, ...] | None

    def is_inside(self, kernel: int) -> bool:
        """Return True if every column has every tap."""
        return self.taps == _all_taps(kernel, self.columns)


def window_axes(source: Sequence[Size], output: Sequence[Size], window: Window) -> list[WindowAxis]:
    """Return the spatial axes; ``source`` and ``output`` are the sizes along them."""
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
    """Return pointwise axes as a single one, with all pixels in a row."""
    pixels = prod((axis.source for axis in axes), start=1)
    return WindowAxis(
        source=pixels, output=pixels, kernel=1, stride=1, dilation=1, before=0, after=0
    )


def row_positions(maker: KernelMaker, axes: Sequence[WindowAxis], row: Value) -> list[Value]:
    """Return the positions of an output row along each axis except the last."""
    if len(axes) == 1:
        return []
    b = maker.builder
    positions: list[Value] = []
    for axis in reversed(axes[1:-1]):
        positions.append(b.rem(row, maker.size(axis.output)))
        row = b.div(row, maker.size(axis.output))
    return [row, *positions[::-1]]


def taps_inside(maker: KernelMaker, axis: WindowAxis, position: Operand) -> tuple[Value, Value]:
    """Return the range of taps inside the source for a window at a position."""
    b = maker.builder
    if not axis.is_padded:
        return b.index(0), b.index(axis.kernel)
    start = b.sub(maker.value(axis.before), b.mul(b.index(position), axis.stride))
    first = _tap_from(b, start, axis)
    end = _tap_from(b, b.add(start, maker.size(axis.source)), axis)
    return b.least(first, axis.kernel), b.least(end, axis.kernel)


def tap_count_with_padding(maker: KernelMaker, axis: WindowAxis, position: Operand) -> Value:
    """Return the number of taps in the source or its padding."""
    b = maker.builder
    reach = b.add(b.add(maker.value(axis.source), maker.size(axis.before)), maker.size(axis.after))
    end = b.sub(reach, b.mul(b.index(position), axis.stride))
    return b.least(_tap_from(b, end, axis), axis.kernel)


def column_runs(maker: KernelMaker, axis: WindowAxis, columns: int) -> list[ColumnRun]:
    """Return the columns of a row in runs, with up to ``columns`` at once.

    Runs of whole groups begin at multiples of ``columns``, unless the axis is padded and its taps
    are not written out. The compile time of kernels does not grow with long windows.
    """
    if axis.is_written_out:
        return _known_runs(maker, axis, columns)
    least = _MOST_AT_BORDERS if columns == 1 else _MOST_WRITTEN_OUT
    if axis.kernel > least:
        first, stop = maker.builder.index(0), maker.value(axis.output)
        return [ColumnRun(first=first, stop=stop, columns=1, taps=None)]
    return _open_runs(maker, axis, columns)


def _known_runs(maker: KernelMaker, axis: WindowAxis, columns: int) -> list[ColumnRun]:
    """Return consecutive groups; neighbouring groups with equal taps form one run."""
    index = maker.builder.index
    output = axis.output
    assert isinstance(output, int)
    groups = [(first, min(first + columns, output)) for first in range(0, output, columns)]
    alike = groupby(groups, key=lambda group: (group[1] - group[0], _taps_of(axis, *group)))
    runs = []
    for (count, taps), members in alike:
        bounds = list(members)
        first, stop = index(bounds[0][0]), index(bounds[-1][1])
        runs.append(ColumnRun(first=first, stop=stop, columns=count, taps=taps))
    return runs


def _open_runs(maker: KernelMaker, axis: WindowAxis, columns: int) -> list[ColumnRun]:
    """Return the border columns one by one, and between them groups, then their rest."""
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
    return tuple(Tap(position=position, first=0, stop=columns) for position in range(kernel))


def _taps_of(axis: WindowAxis, first: int, stop: int) -> tuple[Tap, ...]:
    """Return the taps of a group of columns, each with the columns whose tap is in the source."""
    source, before = axis.source, axis.before
    assert isinstance(source, int)
    assert isinstance(before, int)
    taps = []
    for position in range(axis.kernel):
        shift = position * axis.dilation - before
        inside = [
            column - first
            for column in range(first, stop)
            if 0 <= column * axis.stride + shift < source
        ]
        if inside:
            taps.append(Tap(position=position, first=inside[0], stop=inside[-1] + 1))
    return tuple(taps)


def _tap_from(b: KernelBuilder, distance: Value, axis: WindowAxis) -> Value:
    """Return the first tap at least ``distance`` after the window's start, or 0."""
    return b.div(b.most(b.add(distance, axis.dilation - 1), 0), axis.dilation)
