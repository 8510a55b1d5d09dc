"""Direct convolution: sums of windows in registers, for several columns and blocks of channels.

A group of registers holds the sums of neighbouring columns of one row for neighbouring blocks of
output channels, one vector each. For each source channel of each tap, the weights of the blocks
are loaded once, and the source element of each column is multiplied with all of them. For bytes,
four source channels are multiplied and summed at once. The source may be blocked or plain, blocked
for bytes; the output is blocked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import LoopType
from ortpkg.compiler.schedules.element_values import lane_numbers
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_steps import steps_of
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.tile_space import TileSpace
from ortpkg.compiler.schedules.windows.block_output import BlockOutput
from ortpkg.compiler.schedules.windows.convolution_tiling import ConvolutionTiling
from ortpkg.compiler.schedules.windows.convolution_weights import (
    PackedWeights,
    first_piece,
    group_range,
    piece_count,
)
from ortpkg.compiler.schedules.windows.transposed_phases import Phases, phase_count
from ortpkg.compiler.schedules.windows.window_axes import (
    ColumnRun,
    Tap,
    WindowAxis,
    column_runs,
    row_positions,
    taps_inside,
)
from ortpkg.compiler.tensor_ir.channel_blocks import channel_blocks
from ortpkg.compiler.tensor_ir.operations import Convolution

#: Most products in an unrolled body; more only take longer to compile. For bytes, one step is
#: unrolled: each of their source elements takes a register, and LLVM would load those of all steps
#: before the first product.
_MOST_PRODUCTS = 64


#: Vector size with which masked writes are free (AVX-512).
_MASKED_NBYTES = 64


@dataclass(frozen=True, slots=True)
class _Level:
    """A loop around the products, with the steps of an iteration in source and weights."""

    start: Operand
    stop: Operand
    source_step: Operand
    weight_step: int


def direct_convolution(
    operation: Convolution,
    model: MachineModel,
    weights: PackedWeights,
    tiling: ConvolutionTiling,
    axes: Sequence[WindowAxis],
    phases: Phases = (),
) -> ScheduledKernel:
    """Return the kernel.

    Args:
        operation: the convolution.
        model: the CPU.
        weights: the packed weights; with phases, they have blocks for each, one phase after the
            other.
        tiling: sizes of tiles and register groups.
        axes: the spatial axes, which may be joined if all are pointwise.
        phases: phases of a transposed convolution to compute.
    """
    return _DirectConvolution(operation, model, weights, tiling, axes, phases).scheduled()


class _DirectConvolution:
    def __init__(
        self,
        operation: Convolution,
        model: MachineModel,
        weights: PackedWeights,
        tiling: ConvolutionTiling,
        axes: Sequence[WindowAxis],
        phases: Phases,
    ) -> None:
        self._tiling, self._layout, self._axes = tiling, weights.layout, axes
        self._phases = phases
        self._has_masks = model.vector_nbytes == _MASKED_NBYTES
        self._masks: list[Value] = []
        self._last = axes[-1]
        self._maker = maker = KernelMaker("convolution")
        self._builder = maker.builder
        self._view = channel_blocks(operation.source, len(operation.window.kernel))
        self._source = maker.read(operation.source)
        self._weights = weights.read(maker)
        self._steps = steps_of(weights.tensor.scalar)
        self._sum_type = LoopType(self._steps.sums, self._layout.lanes)
        self._spatial_rank = len(operation.window.kernel)
        self._output = BlockOutput(
            maker,
            model,
            operation.output,
            operation.epilogue,
            spatial_rank=self._spatial_rank,
            channels=self._layout.channels,
        )
        sizes = [window_axis.source for window_axis in axes]
        self._strides = [
            maker.size(prod(sizes[axis + 1 :], start=self._view.lanes)) for axis in range(len(axes))
        ]

    def scheduled(self) -> ScheduledKernel:
        """Return the kernel: loops over blocks, rows, and groups of columns of a tile."""
        tiling, b = self._tiling, self._builder
        rows = prod((window_axis.output for window_axis in self._axes[:-1]), start=1)
        space = TileSpace(
            self._maker,
            (self._view.batch, 1),
            (phase_count(self._phases) * self._layout.blocks, tiling.tile_blocks),
            (rows, tiling.tile_rows),
            (self._last.output, tiling.tile_columns),
        )
        (image, _), blocks, row_range, columns = space.ranges
        with b.loop(*blocks, tiling.blocks) as block, b.loop(*row_range) as row:
            positions = row_positions(self._maker, self._axes, row.index)
            for run in column_runs(self._maker, self._last, tiling.columns):
                first, stop = b.most(run.first, columns[0]), b.least(run.stop, columns[1])
                with b.loop(first, stop, run.columns) as column:
                    self._group(run, image, block.index, [*positions, column.index])
        return self._maker.scheduled(space.tile_count)

    def _group(
        self, run: ColumnRun, image: Value, block: Value, positions: Sequence[Value]
    ) -> None:
        """Emit the columns from the last position on, for neighbouring blocks from ``block`` on."""
        b, layout, size = self._builder, self._layout, self._maker.size
        weight = b.mul(block, layout.block_stride)
        phase = b.index(0)
        if phase_count(self._phases) > 1:
            phase, block = b.div(block, layout.blocks), b.rem(block, layout.blocks)
        source = b.mul(b.mul(image, size(self._view.blocks)), size(self._view.plane))
        for axis, stride, position in zip(self._axes, self._strides, positions, strict=True):
            start = b.sub(b.mul(position, axis.stride), size(axis.before))
            source = b.add(source, b.mul(start, stride))
        levels = self._levels(run, positions)
        if layout.crosses_groups:
            sums = self._group_sums(run, levels, source, weight, block)
        else:
            first, count = first_piece(b, layout, block), piece_count(b, layout, block)
            zeros = [b.constant(0, self._sum_type)] * (run.columns * self._tiling.blocks)
            sums = self._piece_sums(run, levels, source, weight, (first, count), zeros)
        padding: list[Operand] = [0] * (self._spatial_rank - len(positions))
        for number, block_sum in enumerate(sums):
            block_number, column = divmod(number, run.columns)
            output_positions = self._in_output(
                phase, [*positions[:-1], b.add(positions[-1], column)]
            )
            self._output.store(
                block_sum, image, b.add(block, block_number), [*padding, *output_positions]
            )

    def _in_output(self, phase: Value, positions: Sequence[Value]) -> Sequence[Value]:
        """Return the positions in the output of the windows of a phase."""
        if not self._phases:
            return positions
        b, output_positions = self._builder, []
        for axis, position in zip(reversed(self._phases), reversed(positions), strict=True):
            phase_offset, phase = b.rem(phase, len(axis.taps)), b.div(phase, len(axis.taps))
            first = b.add(b.mul(position, axis.spread), axis.first)
            output_positions.append(b.add(first, phase_offset))
        return output_positions[::-1]

    def _group_sums(
        self, run: ColumnRun, levels: Sequence[_Level], source: Value, weight: Value, block: Value
    ) -> Sequence[Value]:
        """Return the sums of blocks that contain channels of several groups.

        Each group is summed separately and only its lanes are kept: another group's source may be
        infinite, and infinity times a zero weight would be NaN. If instructions have masks, each
        product is added under the mask of its group, which needs no more registers.
        """
        b, layout, columns = self._builder, self._layout, run.columns
        first, stop = group_range(b, layout, block)
        pieces = layout.group_pieces
        zeros = [b.constant(0, self._sum_type)] * (columns * self._tiling.blocks)
        with b.loop(first, stop, carried=zeros) as loop:
            group_weights = b.mul(b.sub(loop.index, first), pieces * self._piece_weights)
            span = (b.mul(loop.index, pieces), b.index(pieces))
            lanes = self._lanes_of_group(loop.index, block)
            self._masks = lanes if self._has_masks else []
            initial = loop.carried if self._has_masks else zeros
            sums = self._piece_sums(
                run, levels, source, b.add(weight, group_weights), span, initial
            )
            if not self._has_masks:
                sums = [
                    b.select(lanes[number // columns], group_sum, loop.carried[number])
                    for number, group_sum in enumerate(sums)
                ]
            self._masks = []
            loop.hand_on(*sums)
        return loop.results

    def _lanes_of_group(self, group: Value, block: Value) -> list[Value]:
        """Return a mask of the group's lanes for each output block that is summed at once."""
        b, layout = self._builder, self._layout
        numbers = lane_numbers(b, layout.lanes)
        masks = []
        for number in range(self._tiling.blocks):
            before = b.mul(b.add(block, number), layout.lanes)
            start = b.sub(b.mul(group, layout.group_outputs), before)
            is_before = b.compute(Op.LT, numbers, b.add(start, layout.group_outputs))
            masks.append(b.compute(Op.AND, b.compute(Op.GE, numbers, start), is_before))
        return masks

    def _piece_sums(
        self,
        run: ColumnRun,
        levels: Sequence[_Level],
        source: Value,
        weight: Value,
        pieces: tuple[Value, Value],
        sums: Sequence[Value],
    ) -> Sequence[Value]:
        """Return the sums plus the products of a range of source pieces.

        Args:
            run: the columns that are summed at once.
            levels: loops over the outer taps.
            source: offset of the window in the image's first channel.
            weight: offset of the first piece's weights.
            pieces: first piece, and number of pieces.
            sums: one vector for each output block and column.
        """
        b, (first, count) = self._builder, pieces
        if b.number_of(count) == 1:
            piece_source = b.add(source, self._piece_offset(first))
            return self._summed(run, levels, piece_source, weight, sums)
        with b.loop(0, count, carried=sums) as loop:
            piece_source = b.add(source, self._piece_offset(b.add(first, loop.index)))
            piece_weight = b.add(weight, b.mul(loop.index, self._piece_weights))
            loop.hand_on(*self._summed(run, levels, piece_source, piece_weight, loop.carried))
        return loop.results

    @property
    def _piece_weights(self) -> int:
        """Number of weights that an output block has for a source piece."""
        layout = self._layout
        return prod(layout.kernel) * layout.source_lanes * layout.lanes

    def _piece_offset(self, piece: Value) -> Value:
        """Return the offset of a piece from the image's first channel."""
        b, lanes, piece_lanes = self._builder, self._view.lanes, self._layout.source_lanes
        plane = self._maker.size(self._view.plane)
        if piece_lanes == lanes:
            return b.mul(piece, plane)
        channel = b.mul(piece, piece_lanes)
        return b.add(b.mul(b.div(channel, lanes), plane), b.rem(channel, lanes))

    def _levels(self, run: ColumnRun, positions: Sequence[Value]) -> list[_Level]:
        """Return the loops around the products of a piece: over the taps of the outer axes."""
        b, layout = self._builder, self._layout
        tap = layout.source_lanes * layout.lanes
        levels = []
        looped = len(self._axes) if run.taps is None else len(self._axes) - 1
        for number in range(looped):
            axis = self._axes[number]
            first, stop = taps_inside(self._maker, axis, positions[number])
            step = b.mul(b.index(self._strides[number]), axis.dilation)
            levels.append(_Level(first, stop, step, prod(layout.kernel[number + 1 :]) * tap))
        return levels

    def _summed(
        self,
        run: ColumnRun,
        levels: Sequence[_Level],
        source: Value,
        weight: Value,
        sums: Sequence[Value],
    ) -> Sequence[Value]:
        """Return the sums plus the products of all iterations of the loops."""
        if not levels:
            return self._products(run, source, weight, sums)
        b, level = self._builder, levels[0]
        if (b.number_of(level.start), b.number_of(level.stop)) == (0, 1):
            return self._summed(run, levels[1:], source, weight, sums)
        with b.loop(level.start, level.stop, carried=sums) as loop:
            inner_source = b.add(source, b.mul(loop.index, level.source_step))
            inner_weight = b.add(weight, b.mul(loop.index, level.weight_step))
            inner = self._summed(run, levels[1:], inner_source, inner_weight, loop.carried)
            loop.hand_on(*inner)
        return loop.results

    def _products(
        self, run: ColumnRun, source: Value, weight: Value, sums: Sequence[Value]
    ) -> Sequence[Value]:
        """Return the sums plus the products of a row of taps, or of one tap, with one source piece.

        Consecutive taps of whole blocks with the same columns form one loop over their lanes, which
        are contiguous in the source and in the weights. No iteration spans two taps: they share
        elements of the source, and LLVM would keep all of them in registers that the sums need.
        """
        for first, length in self._tap_groups(run):
            sums = self._group_products(run, first, length, source, weight, sums)
        return sums

    def _tap_groups(self, run: ColumnRun) -> list[tuple[Tap, int]]:
        """Return groups of consecutive taps as (first tap, number of taps)."""
        if run.taps is None:
            return [(Tap(position=0, first=0, stop=1), 1)]
        groups: list[tuple[Tap, int]] = []
        is_whole = self._layout.source_lanes == self._view.lanes
        for tap in run.taps:
            first, count = groups[-1] if groups else (tap, 0)
            follows = (
                is_whole and self._last.dilation == 1 and tap.position == first.position + count
            )
            if groups and follows and (tap.first, tap.stop) == (first.first, first.stop):
                groups[-1] = (first, count + 1)
            else:
                groups.append((tap, 1))
        return groups

    def _group_products(
        self,
        run: ColumnRun,
        tap: Tap,
        tap_count: int,
        source: Value,
        weight: Value,
        sums: Sequence[Value],
    ) -> Sequence[Value]:
        b, lanes_in, together = self._builder, self._layout.source_lanes, self._steps.group
        steps_in, most_products = lanes_in // together, _MOST_PRODUCTS if together == 1 else 1
        count = (tap.stop - tap.first) * self._tiling.blocks
        at_once = max(
            count_at_once
            for count_at_once in range(1, steps_in + 1)
            if steps_in % count_at_once == 0
            and (count_at_once == 1 or count_at_once * count <= most_products)
        )
        with b.loop(0, tap_count * lanes_in, at_once * together, carried=sums) as loop:
            pass_sums = list(loop.carried)
            for lane in range(0, at_once * together, together):
                step = b.add(loop.index, lane)
                self._add_products(run, tap, b.add(source, step), weight, step, pass_sums)
            loop.hand_on(*pass_sums)
        return loop.results

    def _add_products(
        self,
        run: ColumnRun,
        tap: Tap,
        source: Value,
        weight: Value,
        step: Value,
        sums: list[Value],
    ) -> None:
        """Add the products of the source channels of one step of one tap."""
        b, layout, steps = self._builder, self._layout, self._steps
        lanes_in, lanes = layout.source_lanes, layout.lanes
        weights_at = b.add(weight, b.add(b.mul(step, lanes), tap.position * lanes_in * lanes))
        vectors = [
            steps.right(
                b, self._weights, b.add(weights_at, number * layout.block_stride), lanes, None
            )
            for number in range(self._tiling.blocks)
        ]
        for column in range(tap.first, tap.stop):
            offset = column * self._last.stride + tap.position * self._last.dilation
            at_source = b.add(source, offset * self._view.lanes)
            vector = steps.left(b, self._source, at_source, lanes)
            for number, weights in enumerate(vectors):
                sum_index = number * run.columns + column
                added = steps.add(b, sums[sum_index], vector, weights)
                if self._masks:
                    added = b.select(self._masks[number], added, sums[sum_index])
                sums[sum_index] = added
