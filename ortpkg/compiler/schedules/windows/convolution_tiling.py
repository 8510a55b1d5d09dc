"""Tiling of convolutions: the sums in one group of registers, and the work of one tile.

The cost of a group of registers is the time for one channel of one tap: its products, loads of
weights from the second-level cache, and loads of source elements from the first-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.even_tiles import even_tile
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.graph.shapes.expressions import Size

#: Most columns that are summed at once: with more, kernels would compile too slowly.
_MOST_COLUMNS = 28
#: Sums that a core needs in flight, so that none waits for the one before it.
_SUMS_IN_FLIGHT = 10
_WEIGHT_LOAD_COST, _SOURCE_LOAD_COST, _GROUP_COST = 0.5, 0.1, 0.5
#: Products and sums of one tile: some 70 microseconds, and in small convolutions not below 10.
_MOST_TILE_OPERATIONS, _LEAST_TILE_OPERATIONS = 8_000_000, 1_000_000
#: Assumed value of a size that is a formula.
_USUAL_SIZE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionTiling:
    """Sizes of tiles and register groups.

    Attributes:
        columns, blocks: columns times blocks of output channels are summed in registers at once.
        tile_blocks, tile_rows: size of a tile; the blocks are a multiple of ``blocks``.
        tile_columns: a multiple of ``columns``; None for whole rows.
    """

    columns: int
    blocks: int
    tile_blocks: int
    tile_rows: int
    tile_columns: int | None


@dataclass(frozen=True, slots=True, order=True)
class RegisterGroup:
    """Columns times blocks of output channels that are summed in registers at once.

    ``cost`` is that of a row, for one channel of one tap and one block.
    """

    cost: float
    columns: int
    blocks: int


def register_group(
    model: MachineModel,
    *,
    width: Size,
    sharing: int,
    nbytes: int,
    loaded: int = 1,
    spare: int = 0,
) -> RegisterGroup:
    """Return the cheapest group.

    Args:
        model: the CPU.
        width: number of columns in a row.
        sharing: number of neighbouring output blocks that read the same source blocks.
        nbytes: bytes of one number of a sum; its vectors have as many lanes as f32 ones.
        loaded: registers that a vector of weights takes.
        spare: further registers of a step, besides the one for the source.
    """
    spare += 1 if model.has_fma else 2
    registers = model.register_count * 4 // nbytes - spare
    known_width = width if isinstance(width, int) else 1 << 20
    return min(
        RegisterGroup(_cost_of_row(columns, blocks, width=known_width), columns, blocks)
        for blocks in range(1, registers)
        if sharing % blocks == 0
        for columns in range(1, _MOST_COLUMNS + 1)
        if columns * blocks + loaded * blocks <= registers and columns <= max(known_width, 1)
    )


def _cost_of_row(columns: int, blocks: int, *, width: int) -> float:
    whole, rest = divmod(width, columns)
    cost = whole * cost_of_group(columns, blocks)
    if rest:
        cost += cost_of_group(rest, blocks)
    return cost / blocks


def cost_of_group(columns: int, blocks: int) -> float:
    """Return the cost of multiplying one source element of each column with some blocks."""
    loads = _WEIGHT_LOAD_COST * blocks + _SOURCE_LOAD_COST * columns
    return max(columns * blocks, _SUMS_IN_FLIGHT) + loads + _GROUP_COST


def convolution_tiling(
    model: MachineModel,
    *,
    group: RegisterGroup,
    output_blocks: int,
    rows: Size,
    width: Size,
    cuts_rows: bool,
    sums: int,
    weight_nbytes: int,
) -> ConvolutionTiling:
    """Return tiles of 50 to 100 microseconds.

    Args:
        model: the CPU.
        group: columns and blocks that are summed in registers at once.
        output_blocks: number of blocks of output channels.
        rows, width: sizes of the output.
        cuts_rows: True if a tile may be a part of a row, as it is if there is only one row.
        sums: number of products that are summed for one element.
        weight_nbytes: bytes of the weights of one output block.
    """
    columns, blocks = group.columns, group.blocks
    known_width, known_rows = (
        size if isinstance(size, int) else _USUAL_SIZE for size in (width, rows)
    )
    is_row = rows == 1 and cuts_rows
    inner = -(-known_width // columns) if is_row else known_rows
    cost = 2 * sums * model.lanes(Scalar.F32) * blocks * (columns if is_row else known_width)
    groups, pieces = even_tile(
        output_blocks // blocks,
        inner,
        cost=max(cost, 1),
        least=_LEAST_TILE_OPERATIONS,
        most=_MOST_TILE_OPERATIONS,
        most_outer=model.l2_nbytes // 2 // max(weight_nbytes * blocks, 1),
    )
    return ConvolutionTiling(
        columns=columns,
        blocks=blocks,
        tile_blocks=blocks * groups,
        tile_rows=1 if is_row else pieces,
        tile_columns=pieces * columns if is_row else None,
    )
