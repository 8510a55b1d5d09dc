"""Winograd convolution: windows of 3 x 3 by products of transformed squares.

A tile is some neighbouring squares of 4 x 4 pixels of the output, for a range of its channels. The
source pixels of its squares are transformed first, for all source channels. Then, for some blocks
of output channels at a time, each of the 36 points of a square is a product of matrices in
registers, and the products are transformed back. Intermediate values stay in memory of the thread,
in the caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from ortpkg.compiler.loop_ir.kernel import Buffer, Op, Value
from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.tile_space import TileSpace
from ortpkg.compiler.schedules.windows.block_output import BlockOutput
from ortpkg.compiler.schedules.windows.winograd_tiling import WinogradTiling
from ortpkg.compiler.schedules.windows.winograd_transforms import (
    INPUT_SIZE,
    OUTPUT_SIZE,
    transformed_source,
    transformed_sums,
)
from ortpkg.compiler.schedules.windows.winograd_weights import winograd_weights
from ortpkg.compiler.tensor_ir.channel_blocks import channel_blocks
from ortpkg.compiler.tensor_ir.operations import Convolution
from ortpkg.graph.shapes.expressions import Size

_POINTS = INPUT_SIZE * INPUT_SIZE
#: Most products in an unrolled body; more only take longer to compile.
_MOST_PRODUCTS = 64


def winograd_convolution(
    operation: Convolution, model: MachineModel, tiling: WinogradTiling
) -> ScheduledKernel:
    """Return the kernel; source and output are blocked alike, and spatial sizes are numbers."""
    return _WinogradConvolution(operation, model, tiling).scheduled()


class _WinogradConvolution:
    def __init__(self, operation: Convolution, model: MachineModel, tiling: WinogradTiling) -> None:
        self._tiling = tiling
        self._maker = maker = KernelMaker("winograd_convolution")
        self._builder = b = maker.builder
        self._view, output = (
            channel_blocks(operation.source, 2),
            channel_blocks(operation.output, 2),
        )
        self._lanes = self._view.lanes
        self._vector = LoopType(Scalar.F32, self._lanes)
        self._source_sizes, self._sizes = _numbers(self._view.spatial), _numbers(output.spatial)
        self._source_blocks, self._blocks = _numbers((self._view.blocks, output.blocks))
        self._before = _numbers(operation.window.before)
        self._source = maker.read(operation.source)
        self._weights = maker.read_packed(*winograd_weights(operation.weights, self._lanes))
        channels = operation.weights.shape[0]
        self._output = BlockOutput(
            maker,
            model,
            operation.output,
            operation.epilogue,
            spatial_rank=2,
            channels=channels if isinstance(channels, int) else None,
        )
        squares, blocks = tiling.squares, tiling.blocks
        # an odd number of vectors from point to point, so that points share no cache set
        self._source_step = (self._source_blocks * squares | 1) * self._lanes
        self._product_step = (blocks * squares | 1) * self._lanes
        self._transformed = b.scratch("transformed", Scalar.F32, _POINTS * self._source_step)
        self._products = b.scratch("products", Scalar.F32, _POINTS * self._product_step)
        self._square = b.scratch("square", Scalar.F32, _POINTS * self._lanes)

    def scheduled(self) -> ScheduledKernel:
        """Return the kernel: squares and blocks of output channels are shared among tiles."""
        tiling, b = self._tiling, self._builder
        down, across = (-(-size // OUTPUT_SIZE) for size in self._sizes)
        space = TileSpace(
            self._maker,
            (self._view.batch, 1),
            (self._blocks, tiling.tile_blocks),
            (down * across, tiling.squares),
        )
        (image, _), blocks, (first, stop) = space.ranges
        count = b.sub(stop, first)
        with b.loop(0, count) as square:
            number = b.add(first, square.index)
            square_position = (b.div(number, across), b.rem(number, across))
            self._transform_square(image, square.index, square_position)
        with b.loop(*blocks, tiling.blocks) as block:
            with b.loop(0, _POINTS) as point, b.loop(0, count, tiling.columns) as column:
                self._multiply(point.index, column.index, block.index)
            with b.loop(0, count) as square:
                number = b.add(first, square.index)
                square_position = (b.div(number, across), b.rem(number, across))
                self._store_square(image, block.index, square.index, square_position)
        return self._maker.scheduled(space.tile_count)

    # --- the source -------------------------------------------------------------------------------

    def _transform_square(self, image: Value, square: Value, position: Sequence[Value]) -> None:
        """Transform the source pixels of a square, for all blocks of the source."""
        b, lanes, (height, width) = self._builder, self._lanes, self._source_sizes
        row, column = (
            b.sub(b.mul(at, OUTPUT_SIZE), before)
            for at, before in zip(position, self._before, strict=True)
        )
        sides = [
            b.compute(op, start, limit)
            for start, size in ((row, height), (column, width))
            for op, limit in ((Op.GE, 0), (Op.LE, size - INPUT_SIZE))
        ]
        is_inside = reduce(lambda left, right: b.compute(Op.AND, left, right), sides)
        image_start = b.mul(image, self._source_blocks * height * width * lanes)
        corner = b.add(image_start, b.mul(b.add(b.mul(row, width), column), lanes))
        with b.loop(0, self._source_blocks) as block:
            source = b.add(corner, b.mul(block.index, height * width * lanes))
            made = b.mul(b.add(b.mul(block.index, self._tiling.squares), square), lanes)
            with b.when(is_inside):
                self._transform(self._source, source, width * lanes, made)
            with b.otherwise():
                self._copy_inside(source, row, column)
                self._transform(self._square, b.index(0), INPUT_SIZE * lanes, made)

    def _copy_inside(self, source: Value, row: Value, column: Value) -> None:
        """Copy a square that reaches beyond the source, with zeros there."""
        b, lanes, (height, width) = self._builder, self._lanes, self._source_sizes
        with b.loop(0, _POINTS) as pixel:
            b.store(self._square, b.mul(pixel.index, lanes), b.constant(0.0, self._vector))
        (top, bottom), (left, right) = (
            (b.most(b.sub(0, start), 0), b.least(b.sub(size, start), INPUT_SIZE))
            for start, size in ((row, height), (column, width))
        )
        with b.loop(top, bottom) as down, b.loop(left, right) as across:
            pixel_index = b.add(b.mul(down.index, width), across.index)
            vector = b.load(self._source, b.add(source, b.mul(pixel_index, lanes)), lanes)
            target = b.add(b.mul(down.index, INPUT_SIZE), across.index)
            b.store(self._square, b.mul(target, lanes), b.cast(vector, Scalar.F32))

    def _transform(self, buffer: Buffer, start: Value, row_step: int, made: Value) -> None:
        """Transform one vector of channels of a square."""
        b, lanes = self._builder, self._lanes
        columns: list[Sequence[Value]] = []
        for column in range(INPUT_SIZE):
            index = b.add(start, column * lanes)
            pixels = [
                b.cast(b.load(buffer, b.add(index, row * row_step), lanes), Scalar.F32)
                for row in range(INPUT_SIZE)
            ]
            columns.append(transformed_source(b, pixels))
        for row, values in enumerate(zip(*columns, strict=True)):
            for column, value in enumerate(transformed_source(b, values)):
                point = row * INPUT_SIZE + column
                b.store(self._transformed, b.add(made, point * self._source_step), value)

    # --- the products -----------------------------------------------------------------------------

    def _multiply(self, point: Value, column: Value, block: Value) -> None:
        """Emit the products at a point for some squares and blocks, summed over channels."""
        b, lanes, tiling = self._builder, self._lanes, self._tiling
        depth, columns = self._source_blocks * lanes, tiling.columns
        source = b.add(b.mul(point, self._source_step), b.mul(column, lanes))
        step = _POINTS * depth * lanes
        weights = b.add(b.mul(block, step), b.mul(point, depth * lanes))
        zero = b.constant(0.0, self._vector)
        sums = [zero] * (columns * tiling.blocks)
        with b.loop(0, self._source_blocks, carried=sums) as outer:
            here = b.add(source, b.mul(outer.index, tiling.squares * lanes))
            rows = b.add(weights, b.mul(outer.index, lanes * lanes))
            with b.loop(0, lanes, self._at_once(), carried=outer.carried) as loop:
                made = list(loop.carried)
                for lane in range(self._at_once()):
                    source_lane = b.add(loop.index, lane)
                    row = b.add(rows, b.mul(source_lane, lanes))
                    vectors = [
                        b.load(self._weights, b.add(row, number * step), lanes)
                        for number in range(tiling.blocks)
                    ]
                    for square in range(columns):
                        element = b.load(
                            self._transformed, b.add(b.add(here, source_lane), square * lanes)
                        )
                        splat = b.splat(element, lanes)
                        for number, vector in enumerate(vectors):
                            sum_index = number * columns + square
                            made[sum_index] = b.fma(splat, vector, made[sum_index])
                loop.hand_on(*made)
            outer.hand_on(*loop.results)
        target = b.add(b.mul(point, self._product_step), b.mul(column, lanes))
        for sum_index, total in enumerate(outer.results):
            number, square = divmod(sum_index, columns)
            offset = (number * tiling.squares + square) * lanes
            b.store(self._products, b.add(target, offset), total)

    def _at_once(self) -> int:
        """Return the number of source channels whose products are unrolled."""
        count, at_once = self._tiling.columns * self._tiling.blocks, 1
        while at_once < self._lanes and 2 * at_once * count <= _MOST_PRODUCTS:
            at_once *= 2
        return at_once

    # --- the output -------------------------------------------------------------------------------

    def _store_square(
        self, image: Value, block: Value, square: Value, position: Sequence[Value]
    ) -> None:
        """Transform products back, and write the pixels that the output has."""
        b, lanes, tiling = self._builder, self._lanes, self._tiling
        row, column = (b.mul(at, OUTPUT_SIZE) for at in position)
        with b.loop(0, tiling.blocks) as block_number:
            index = b.mul(b.add(b.mul(block_number.index, tiling.squares), square), lanes)
            columns = []
            for across in range(INPUT_SIZE):
                values = [
                    b.load(
                        self._products,
                        b.add(index, (down * INPUT_SIZE + across) * self._product_step),
                        lanes,
                    )
                    for down in range(INPUT_SIZE)
                ]
                columns.append(transformed_sums(b, values))
            for down, row_values in enumerate(zip(*columns, strict=True)):
                sums = transformed_sums(b, row_values)
                for across, made in enumerate(sums):
                    at = (b.add(row, down), b.add(column, across))
                    with self._inside_output(at):
                        self._output.store(made, image, b.add(block, block_number.index), at)

    @contextmanager
    def _inside_output(self, at: Sequence[Value]) -> Iterator[None]:
        """Run the statements of the ``with`` block only if the output has the pixel."""
        b = self._builder
        conditions = [
            b.compute(Op.LT, position, size)
            for position, size in zip(at, self._sizes, strict=True)
            if size % OUTPUT_SIZE
        ]
        if not conditions:
            yield
            return
        with b.when(reduce(lambda left, right: b.compute(Op.AND, left, right), conditions)):
            yield


def _numbers(sizes: Sequence[Size]) -> tuple[int, ...]:
    """Return sizes as numbers; TypeError if one is a formula."""
    numbers = tuple(size for size in sizes if isinstance(size, int))
    if len(numbers) != len(sizes):
        raise TypeError(f"a Winograd convolution is for sizes that are numbers, not {sizes}")
    return numbers
