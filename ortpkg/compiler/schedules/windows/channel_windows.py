"""Kernels that combine the windows of each channel separately, with channels as lanes.

A depthwise convolution and a pooling differ in how a tap is combined and in the end result; the
loops over rows, columns and taps are the same. Source and output are blocked alike, or both plain,
with vectors of one number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar
from ortpkg.compiler.schedules.even_tiles import even_tile
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.tile_space import TileSpace
from ortpkg.compiler.schedules.windows.block_output import BlockOutput
from ortpkg.compiler.schedules.windows.window_axes import (
    ColumnRun,
    column_runs,
    row_positions,
    taps_inside,
    window_axes,
)
from ortpkg.compiler.tensor_ir.channel_blocks import channel_blocks
from ortpkg.compiler.tensor_ir.elements import Element, Tensor
from ortpkg.compiler.tensor_ir.operations import Window
from ortpkg.graph.shapes.expressions import Size

#: Taps of single numbers that one tile combines, some 10 to 40 microseconds.
_LEAST_TILE_TAPS, _MOST_TILE_TAPS = 125_000, 500_000
#: Assumed value of a size that is a formula.
_USUAL_SIZE = 64


class ChannelWindows(ABC):
    """A kernel under construction; subclasses define how windows are combined."""

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
        """Create a kernel.

        Args:
            name: name of the kernel.
            model: the CPU.
            source, output: the tensors.
            window: the windows.
            epilogue: expression over the output's axes, or None.
            sum_scalar: type in which taps are combined.
            channels: number of channels of the output; None if all lanes are used.
        """
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
        """Return the value of a window before its first tap."""

    @abstractmethod
    def _factor(self, block: Value, tap: Value) -> Value | None:
        """Return the second operand of a tap's elements, such as their weights; None for none."""

    @abstractmethod
    def _combined(self, total: Value, element: Value, factor: Value | None) -> Value:
        """Return the window combined with one more tap."""

    def _finished(self, total: Value, _run: ColumnRun, _column: int, _at: Sequence[Value]) -> Value:
        """Return the final value of a window.

        Args:
            total: the combined taps.
            _run: the columns that are combined at once.
            _column: number of the window's column among them.
            _at: positions of the first of these columns.
        """
        return total

    def scheduled(self) -> ScheduledKernel:
        """Return the kernel: loops over blocks, rows, and groups of columns of a tile."""
        b, last = self._builder, self._axes[-1]
        rows = prod((axis.output for axis in self._axes[:-1]), start=1)
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
        """Return the numbers of blocks and rows in a tile."""
        blocks, known_rows, width = (
            size if isinstance(size, int) else _USUAL_SIZE
            for size in (self._view.blocks, rows, self._axes[-1].output)
        )
        row = max(1, width * prod(self._window.kernel) * self._view.lanes)
        return even_tile(blocks, known_rows, cost=row, least=_LEAST_TILE_TAPS, most=_MOST_TILE_TAPS)

    def _columns(self) -> int:
        """Return the number of columns combined at once: as many as registers hold."""
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
        """Emit the columns from the last position on."""
        b, size = self._builder, self._maker.size
        source = b.mul(b.add(b.mul(image, size(self._view.blocks)), block), size(self._view.plane))
        for number, (axis, position) in enumerate(zip(self._axes, positions, strict=True)):
            start = b.sub(b.mul(position, axis.stride), size(axis.before))
            source = b.add(source, b.mul(start, size(self._view.stride(number))))
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
        number: int,
        source: Value,
        tap: Value,
        block: Value,
        totals: Sequence[Value],
    ) -> Sequence[Value]:
        """Return the windows with all taps along the axes from ``number`` on.

        ``tap`` is the index of the taps of the axes before. Known taps of the last axis are
        unrolled.
        """
        b = self._builder
        axis = self._axes[number] if number < len(self._axes) else None
        if axis is None:
            return self._with_tap(source, 0, 1, tap, block, totals)
        tap = b.mul(tap, axis.kernel)
        stride = b.index(self._maker.size(self._view.stride(number)))
        step = b.mul(stride, axis.dilation)
        if number == len(self._axes) - 1 and run.taps is not None:
            for run_tap in run.taps:
                start = b.add(source, b.mul(step, run_tap.position))
                at = b.add(tap, run_tap.position)
                totals = self._with_tap(start, run_tap.first, run_tap.stop, at, block, totals)
            return totals
        first, stop = taps_inside(self._maker, axis, positions[number])
        with b.loop(first, stop, carried=totals) as loop:
            inner_source = b.add(source, b.mul(loop.index, step))
            inner_tap = b.add(tap, loop.index)
            inner = self._walked(
                run, positions, number + 1, inner_source, inner_tap, block, loop.carried
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
        """Return the windows with one more tap for the columns ``first`` up to ``stop``."""
        b, lanes = self._builder, self._view.lanes
        factor = self._factor(block, tap)
        made = list(totals)
        for column in range(first, stop):
            index = b.add(source, column * self._axes[-1].stride * lanes)
            element = b.cast(b.load(self._source, index, lanes), self._sum_type.scalar)
            made[column] = self._combined(made[column], element, factor)
        return made
