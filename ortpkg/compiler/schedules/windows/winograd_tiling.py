"""Decides whether Winograd's transforms compute a convolution, and chooses their tiling.

Costs are in vector operations, as in :mod:`.convolution_tiling`: transforms of squares, products in
registers, and fetches of weights and transformed squares from beyond the second-level cache. The
cheapest tiling is chosen, if it is clearly cheaper than direct sums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.even_tiles import USUAL_THREADS
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.windows.convolution_tiling import cost_of_group, register_group
from ortpkg.compiler.schedules.windows.winograd_transforms import INPUT_SIZE, OUTPUT_SIZE, WINDOW
from ortpkg.compiler.tensor_ir.channel_blocks import channel_blocks
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Convolution, Window

_POINTS = INPUT_SIZE * INPUT_SIZE
#: Cost of transforming one square, for one vector of source channels or of output channels.
_SOURCE_SQUARE_COST, _OUTPUT_SQUARE_COST = 250.0, 200.0
#: Products that are computed while one vector comes from beyond the second-level cache.
_VECTORS_AT_ONCE = 0.5
#: Cost of fetching one vector of weights from memory, once in a run.
_MEMORY_COST = 8.0
#: Largest share of the direct cost; a smaller gain is not worth the memory.
_MOST_OF_DIRECT = 0.7
#: Most vector operations of a tile, some half a millisecond.
_MOST_TILE_COST = 2_000_000.0
_MOST_SQUARES = 64
_MOST_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradTiling:
    """Tiling of a Winograd convolution.

    Attributes:
        squares: squares of 4 x 4 pixels that a tile computes; a multiple of ``columns``.
        columns, blocks: columns times blocks of output channels are summed in registers at once.
        tile_blocks: output blocks that a tile computes; a multiple of ``blocks``.
    """

    squares: int
    columns: int
    blocks: int
    tile_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Sizes that a cost depends on: blocks of channels, squares of all images, and the CPU."""

    source_blocks: int
    output_blocks: int
    squares: int
    lanes: int
    model: MachineModel

    def cost(self, tiling: WinogradTiling) -> float:
        """Return the cost of all tiles, if the usual number of threads shares them evenly."""
        tile, count = self.tile_cost(tiling), self._tile_count(tiling)
        return tile * -(-count // USUAL_THREADS) * USUAL_THREADS

    def tile_cost(self, tiling: WinogradTiling) -> float:
        """Return the cost of one tile."""
        depth, vector_nbytes = self.source_blocks * self.lanes, self.lanes * Scalar.F32.nbytes
        transforms = tiling.squares * (
            self.source_blocks * _SOURCE_SQUARE_COST + tiling.tile_blocks * _OUTPUT_SQUARE_COST
        )
        groups = tiling.squares // tiling.columns * tiling.tile_blocks // tiling.blocks
        products = _POINTS * depth * groups * cost_of_group(tiling.columns, tiling.blocks)
        fetched = _POINTS * depth * tiling.tile_blocks
        squares = _POINTS * self.source_blocks * tiling.squares
        if squares * vector_nbytes > self.model.l2_nbytes:
            fetched += squares * tiling.tile_blocks // tiling.blocks
        return transforms + products + fetched * _VECTORS_AT_ONCE

    def _tile_count(self, tiling: WinogradTiling) -> int:
        return -(-self.squares // tiling.squares) * (self.output_blocks // tiling.tile_blocks)


def winograd_tiling(
    operation: Convolution, model: MachineModel, constants: Collection[Tensor]
) -> WinogradTiling | None:
    """Return the tiling of a convolution that transforms make cheaper, else None.

    Transforms need windows of 3 x 3 with stride 1, one group, known sizes, constant weights, and
    floats.
    """
    is_direct = model.sums_directly or not operation.source.scalar.is_float
    sizes = None if is_direct else _sizes_of(operation, model, constants)
    if sizes is None:
        return None
    best = _cheapest(sizes)
    weights = sizes.source_blocks * sizes.lanes * sizes.output_blocks * _MEMORY_COST
    cost = sizes.cost(best) + _POINTS * weights
    direct = _direct_cost(operation, sizes) + WINDOW * WINDOW * weights
    return best if cost <= _MOST_OF_DIRECT * direct else None


@lru_cache(maxsize=_MOST_KEPT)
def _cheapest(sizes: _Sizes) -> WinogradTiling:
    """Return the cheapest tiling, of those with short tiles if there are any."""
    tilings = list(_tilings(sizes))
    short = [tiling for tiling in tilings if sizes.tile_cost(tiling) <= _MOST_TILE_COST]
    return min(short or tilings, key=sizes.cost)


def _sizes_of(
    operation: Convolution, model: MachineModel, constants: Collection[Tensor]
) -> _Sizes | None:
    """Return the sizes of a convolution that Winograd's transforms support, else None."""
    window, lanes = operation.window, model.lanes(Scalar.F32)
    square = Window(
        kernel=(WINDOW, WINDOW),
        strides=(1, 1),
        dilations=(1, 1),
        before=window.before,
        after=window.after,
    )
    is_plain = operation.groups == 1 and operation.spread is None
    if window != square or not is_plain or operation.weights not in constants:
        return None
    source, output = channel_blocks(operation.source, 2), channel_blocks(operation.output, 2)
    numbers = (source.blocks, output.blocks, *source.spatial, *output.spatial, *window.before)
    known_sizes = [value for value in numbers if isinstance(value, int)]
    if len(known_sizes) != len(numbers) or {source.lanes, output.lanes} != {lanes}:
        return None
    if operation.weights.scalar is Scalar.F64 or 0 in known_sizes[:6]:
        return None
    return _Sizes(
        source_blocks=known_sizes[0],
        output_blocks=known_sizes[1],
        squares=prod(-(-size // OUTPUT_SIZE) for size in known_sizes[4:6]),
        lanes=lanes,
        model=model,
    )


def _tilings(sizes: _Sizes) -> Iterator[WinogradTiling]:
    """Yield the tilings: the cheapest sums in registers, in tiles that share blocks evenly."""
    registers = sizes.model.register_count - (1 if sizes.model.has_fma else 2)
    divisors = [divisor for divisor in range(1, sizes.output_blocks + 1)
                if sizes.output_blocks % divisor == 0]  # fmt: skip
    _, columns, blocks = min(
        (-(-sizes.squares // columns) * cost_of_group(columns, blocks) / blocks, columns, blocks)
        for blocks in divisors
        for columns in range(1, min((registers - blocks) // blocks, sizes.squares) + 1)
    )
    most = min(_MOST_SQUARES, sizes.squares + columns - 1)
    for squares in range(columns, most + 1, columns):
        for tile_blocks in divisors:
            if tile_blocks % blocks == 0:
                yield WinogradTiling(
                    squares=squares, columns=columns, blocks=blocks, tile_blocks=tile_blocks
                )


def _direct_cost(operation: Convolution, sizes: _Sizes) -> float:
    output = channel_blocks(operation.output, 2)
    height, width = output.spatial
    assert isinstance(height, int)
    group = register_group(
        sizes.model, width=width, sharing=sizes.output_blocks, nbytes=Scalar.F32.nbytes
    )
    taps = WINDOW * WINDOW * sizes.source_blocks * sizes.lanes
    return taps * height * sizes.output_blocks * group.cost
