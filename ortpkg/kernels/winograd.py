"""3 x 3 convolutions by Winograd's minimal filtering F(4 x 4, 3 x 3): a quarter of the multiplications.

Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks (2015). A tile of 4 x 4 outputs is seen by
6 x 6 inputs: Y = A'[(G g G') * (B' d B)]A summed over channels. The elementwise product over all tiles and channels is
36 matrix products. As B' d B is linear in d's 36 elements, the transforms are products with the 36 x 36 and 16 x 36
Kronecker products, on numpy's BLAS again. Results differ from direct sums by about 1e-5 of the largest output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ortpkg.kernels import intra_op
from ortpkg.kernels.conv_epilogue import Epilogue
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.scratch import Slot, take_scratch
from ortpkg.kernels.windows import Windows

_FLOAT32 = np.dtype(np.float32)
_TILE = 4
_PATCH = 6
_INPUT = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
_FILTER = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
_OUTPUT = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]])
_INPUTS: Tensor = np.kron(_INPUT, _INPUT).astype(np.float32)
_OUTPUTS: Tensor = np.kron(_OUTPUT, _OUTPUT).astype(np.float32)
#: A value added to this product, at the interpolation point (1, 1), is added to each of the 16 outputs.
_CONSTANT_TERM = 7
#: Tiles per panel, and bytes of one of a panel's two buffers: products of fewer columns are slow, as is leaving cache.
_LEAST_TILES, _BUFFER_NBYTES = 96, 2 << 20
#: Largest sum of squares of an image for which the transforms neither overflow nor spread an infinity over a tile.
_LARGEST_ENERGY = 1e30
_HALF_INFINITY, _HALF_MINUS_INFINITY = 0x7C00, 0xFC00


def suits(windows: Windows, weight: tuple[int, ...]) -> bool:
    """Whether this way is the faster one; measured against unrolled windows over the layers of the zoo."""
    if windows.kernel != (3, 3) or windows.strides != (1, 1) or windows.dilations != (1, 1):
        return False
    tiles = -(-windows.output[0] // _TILE) * -(-windows.output[1] // _TILE)
    return tiles >= _LEAST_TILES // 2 and worth_it(weight)


def worth_it(weight: tuple[int, ...]) -> bool:
    """Whether a filter has enough channels on both sides to pay for the transforms."""
    return len(weight) == 4 and weight[2:] == (3, 3) and 4 / weight[1] + 1 / weight[0] < 0.13


def transformed_filter(weight: Tensor) -> Tensor:
    """G g G' of a filter (M, C, 3, 3): (36, M, C)."""
    transform = np.kron(_FILTER, _FILTER).astype(np.float32)
    flat = transform @ weight.reshape(-1, 9).T
    return flat.reshape(36, *weight.shape[:2])


def is_tame(x: Tensor) -> bool:
    """Whether the transforms of ``x`` (C, H, W) neither overflow nor meet infinities or NaN."""
    if x.dtype == np.float16:  # its finite values are small enough; infinities and NaN are the largest bit patterns
        return bool(x.view(np.int16).max() < _HALF_INFINITY and x.view(np.uint16).max() < _HALF_MINUS_INFINITY)
    flat = x.reshape(-1)
    return x.dtype == _FLOAT32 and bool(np.dot(flat, flat) < _LARGEST_ENERGY)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """One panel: rows ``first`` to ``last`` of tiles of one image."""

    windows: Windows
    first: int
    last: int
    across: int

    @property
    def count(self) -> int:
        return (self.last - self.first) * self.across

    def gather(self, x: Tensor, phases: Tensor, patches: Tensor) -> None:
        """Copies the 6 x 6 patch of each tile of ``x`` (C, H, W) into ``patches`` (36, C, tiles)."""
        channels, height, width = x.shape
        rows, above = self.last - self.first, _TILE * self.first - self.windows.before[0]
        top, bottom = max(above, 0), min(above + phases.shape[2], height)
        for phase in range(_TILE):
            # phases[p, :, r, k] is the padded input's row r, column 4 k + p
            first = -(-(self.windows.before[1] - phase) // _TILE) if phase < self.windows.before[1] else 0
            at = _TILE * first + phase - self.windows.before[1]
            count = max(min(-(-(width - at) // _TILE), self.across + 1 - first), 0)
            target = phases[phase]
            target[:, : top - above].fill(0)
            target[:, max(bottom - above, 0) :].fill(0)
            middle = target[:, top - above : bottom - above]
            middle[:, :, :first] = 0
            middle[:, :, first + count :] = 0
            middle[:, :, first : first + count] = x[:, top:bottom, at : at + _TILE * count : _TILE]
        places = patches.reshape(_PATCH, _PATCH, channels, rows, self.across)
        for column in range(_PATCH):
            source = phases[column % _TILE]
            per_channel, per_row, per_element = source.strides
            view = as_strided(
                source[:, :, column // _TILE :],
                shape=(_PATCH, channels, rows, self.across),
                strides=(per_row, per_channel, _TILE * per_row, per_element),
                writeable=False,
            )
            np.copyto(places[:, column], view)

    @property
    def rows(self) -> slice:
        """The rows of outputs that the tiles cover."""
        return slice(_TILE * self.first, min(_TILE * self.last, self.windows.output[0]))

    def scatter(self, tiles: Tensor, out: Tensor) -> None:
        """Copies ``tiles`` (16, M, tiles) to their places in ``out`` (M, rows, W)."""
        values = tiles.reshape(_TILE, _TILE, out.shape[0], self.last - self.first, self.across)
        for row in range(_TILE):
            for column in range(_TILE):
                place = out[:, row::_TILE, column::_TILE]
                np.copyto(place, values[row, column, :, : place.shape[1], : place.shape[2]])


def convolve(x: Tensor, weight: Tensor, windows: Windows, epilogue: Epilogue, image: int) -> None:
    """``epilogue(conv(x, g))`` for one image: ``x`` (C, H, W), ``weight`` the transformed g."""
    down, across = (-(-size // _TILE) for size in windows.output)
    widest = max(weight.shape[1:])
    fitting = max(_BUFFER_NBYTES // (36 * widest * _FLOAT32.itemsize), _LEAST_TILES)
    rows = min(max(fitting // across, 1), down)
    threads = intra_op.thread_count()
    if rows * threads > down and down * across >= threads * _LEAST_TILES:
        rows = -(-down // threads)
    panels = [_Tiles(windows, first, min(first + rows, down), across) for first in range(0, down, rows)]
    intra_op.parallel_for(len(panels), lambda number: _panel(x, weight, panels[number], epilogue, image))


def _panel(x: Tensor, weight: Tensor, tiles: _Tiles, epilogue: Epilogue, image: int) -> None:
    """One panel; its three steps are spread over threads where the panel itself is not one of several."""
    filters, channels = weight.shape[1:]
    phase_shape = (_TILE, channels, _TILE * (tiles.last - tiles.first) + 2, tiles.across + 1)
    size = (36 * max(filters, channels) * tiles.count,)
    phases, first, second = take_scratch(Slot.PANEL, (phase_shape, _FLOAT32), (size, _FLOAT32), (size, _FLOAT32))

    patches, inputs = (_cut(buffer, 36, channels, tiles.count) for buffer in (first, second))
    products, outputs = _cut(first, 36, filters, tiles.count), _cut(second, 16, filters, tiles.count)
    parts, width = intra_op.thread_count(), tiles.windows.output[1]
    positions = slice(tiles.rows.start * width, tiles.rows.stop * width)

    # Slices of channels merge with the tiles behind them without a copy: a reshape of theirs is a view.
    def transform_input(number: int) -> None:
        own = _part(channels, number, parts)
        tiles.gather(x[own], phases[:, own], patches[:, own])
        np.matmul(_INPUTS, patches[:, own].reshape(36, -1), out=inputs[:, own].reshape(36, -1))

    def multiply(number: int) -> None:
        own = _part(36, number, parts)
        np.matmul(weight[own], inputs[own], out=products[own])

    def transform_output(number: int) -> None:
        own = _part(filters, number, parts)
        if epilogue.bias is not None:
            products[_CONSTANT_TERM, own] += epilogue.bias[own, None]
        values = outputs[:, own]
        np.matmul(_OUTPUTS, products[:, own].reshape(36, -1), out=values.reshape(16, -1))
        part = epilogue.part(image, own, positions)
        tiles.scatter(values, part.reshape(part.shape[0], -1, width))
        epilogue.finish_biased(part, image, own, positions)

    for step in (transform_input, multiply, transform_output):
        intra_op.parallel_for(parts, step)


def _part(count: int, number: int, parts: int) -> slice:
    return slice(count * number // parts, count * (number + 1) // parts)


def _cut(flat: Tensor, *shape: int) -> Tensor:
    return flat[: math.prod(shape)].reshape(shape)
