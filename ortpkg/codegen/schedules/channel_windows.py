"""Kernels that combine each channel's windows by itself: channels are the lanes of vectors.

A depthwise convolution and a pooling differ in how a tap is combined, and in what is made of the
result; how rows, columns and taps are walked is the same. Source and output are blocked alike, or
both plain: then a vector is one number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod

from ortpkg.codegen.loop_ir.kernel import Value
from ortpkg.codegen.loop_ir.kernel_builder import Operand
from ortpkg.codegen.loop_ir.loop_types import LoopType, Scalar
from ortpkg.codegen.schedules.block_output import BlockOutput
from ortpkg.codegen.schedules.even_tiles import even_tile
from ortpkg.codegen.schedules.kernel_maker import KernelMaker
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.schedules.tile_space import TileSpace
from ortpkg.codegen.schedules.window_axes import (
    ColumnRun,
    column_runs,
    row_positions,
    taps_inside,
    window_axes,
)
from ortpkg.codegen.tensor_ir.channel_blocks import channel_blocks
from ortpkg.codegen.tensor_ir.elements import Element, Tensor
from ortpkg.codegen.tensor_ir.operations import Window
from ortpkg.shapes.expressions import Size

#: What one tile combines: taps of single numbers, some 10 to 40 microseconds.
_LEAST_TILE_TAPS, _MOST_TILE_TAPS = 125_000, 500_000
#: What a size counts for that is a formula.
_USUAL_SIZE = 64


class ChannelWindows(ABC):
    """A kernel in the making; what a window is combined to is the subclass's."""

    def __init__(
        self,
        name: str,
        model: MachineModel,
        *,
        source: Tensor,
        output: Tensor,
        window: Window,
        epilogue: Element | None,
        sum_scalar: Scalar,
        channels: int | None = None,
    ) -> None:
        """``channels``: how many the output has, where that is known; else its lanes are all."""
        rank = len(window.kernel)
        self._maker = KernelMaker(name)
        self._builder = self._maker.builder
        self._model, self._window = model, window
        self._view = channel_blocks(source, rank)
        self._axes = window_axes(self._view.spatial, channel_blocks(output, rank).spatial, window)
        self._source = self._maker.read(source)
        self._output = BlockOutput(
            self._maker, model, output, epilogue, spatial_rank=rank, channels=channels
        )
        self._sum_type = LoopType(sum_scalar, self._view.lanes)

    @abstractmethod
    def _initial(self) -> Value:
        """What a window is before its first tap."""

    @abstractmethod
    def _factor(self, block: Value, tap: Value) -> Value | None:
        """What the elements of a tap are combined with, beside themselves."""

    @abstractmethod
    def _combined(self, total: Value, element: Value, factor: Value | None) -> Value:
        """The window with one more tap."""

    def _finished(self, total: Value, _run: ColumnRun, _column: int, _at: Sequence[Value]) -> Value:
        """What is made of a window, of the column of a group whose first is at these positions."""
        return total

    def scheduled(self) -> ScheduledKernel:
        """The kernel: blocks, then rows, then groups of columns of a tile."""
        b, last = self._builder, self._axes[-1]
        rows = prod((each.output for each in self._axes[:-1]), start=1)
        tile_blocks, tile_rows = self._tile(rows)
        space = TileSpace(
            self._maker, (self._view.batch, 1), (self._view.blocks, tile_blocks), (rows, tile_rows)
        )
        (image, _), blocks, row_range = space.ranges
        with b.loop(*blocks) as block, b.loop(*row_range) as row:
            positions = row_positions(self._maker, self._axes, row.index)
            for run in column_runs(self._maker, last, self._columns()):
                with b.loop(run.first, run.stop, run.columns) as column:
                    self._group(run, image, block.index, [*positions, column.index])
        return self._maker.scheduled(space.tile_count)

    def _tile(self, rows: Size) -> tuple[int, int]:
        """How many blocks and rows a tile has."""
        blocks, known_rows, width = (
            each if isinstance(each, int) else _USUAL_SIZE
            for each in (self._view.blocks, rows, self._axes[-1].output)
        )
        row = max(1, width * prod(self._window.kernel) * self._view.lanes)
        return even_tile(blocks, known_rows, cost=row, least=_LEAST_TILE_TAPS, most=_MOST_TILE_TAPS)

    def _columns(self) -> int:
        """How many columns are combined at once: each takes a register, and one to load into."""
        width = self._axes[-1].output
        nbytes = self._sum_type.scalar.nbytes
        registers = self._model.register_count * 4 // max(nbytes, 4) - self._window.kernel[-1]
        most = max(1, registers // 2)
        if not isinstance(width, int):
            return most
        groups = max(1, -(-width // most))
        return max(1, -(-width // groups))

    def _group(
        self, run: ColumnRun, image: Value, block: Value, positions: Sequence[Value]
    ) -> None:
        """Columns from the last position on."""
        b, size = self._builder, self._maker.size
        source = b.mul(b.add(b.mul(image, size(self._view.blocks)), block), size(self._view.plane))
        for place, (axis, position) in enumerate(zip(self._axes, positions, strict=True)):
            start = b.sub(b.mul(position, axis.stride), size(axis.before))
            source = b.add(source, b.mul(start, size(self._view.stride(place))))
        totals: Sequence[Value] = [self._initial()] * run.columns
        totals = self._walked(run, positions, 0, source, b.index(0), block, totals)
        for column, total in enumerate(totals):
            made = self._finished(total, run, column, positions)
            where: list[Operand] = [*positions[:-1], b.add(positions[-1], column)]
            self._output.store(made, image, block, where)

    def _walked(
        self,
        run: ColumnRun,
        positions: Sequence[Value],
        place: int,
        source: Value,
        tap: Value,
        block: Value,
        totals: Sequence[Value],
    ) -> Sequence[Value]:
        """The windows with all taps along the axes from ``place`` on; ``tap`` counts those before.

        The last axis is written out where its taps are known.
        """
        b = self._builder
        axis = self._axes[place] if place < len(self._axes) else None
        if axis is None:
            return self._with_tap(source, 0, 1, tap, block, totals)
        tap = b.mul(tap, axis.kernel)
        stride = b.index(self._maker.size(self._view.stride(place)))
        step = b.mul(stride, axis.dilation)
        if place == len(self._axes) - 1 and run.taps is not None:
            for each in run.taps:
                start = b.add(source, b.mul(step, each.place))
                at = b.add(tap, each.place)
                totals = self._with_tap(start, each.first, each.stop, at, block, totals)
            return totals
        first, stop = taps_inside(self._maker, axis, positions[place])
        with b.loop(first, stop, carried=totals) as loop:
            inner_source = b.add(source, b.mul(loop.index, step))
            inner_tap = b.add(tap, loop.index)
            inner = self._walked(
                run, positions, place + 1, inner_source, inner_tap, block, loop.carried
            )
            loop.hand_on(*inner)
        return loop.results

    def _with_tap(
        self,
        source: Value,
        first: int,
        stop: int,
        tap: Value,
        block: Value,
        totals: Sequence[Value],
    ) -> Sequence[Value]:
        """The windows of columns ``first`` up to ``stop`` with one tap more."""
        b, lanes = self._builder, self._view.lanes
        factor = self._factor(block, tap)
        made = list(totals)
        for column in range(first, stop):
            index = b.add(source, column * self._axes[-1].stride * lanes)
            element = b.cast(b.load(self._source, index, lanes), self._sum_type.scalar)
            made[column] = self._combined(made[column], element, factor)
        return made
