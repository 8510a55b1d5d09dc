"""How a convolution is cut: what one group of registers holds, and what one tile computes.

The cost of a group of registers is what one channel of one tap takes: so many products, loads of
weights, which come from the second cache, and loads of source elements, which come from the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.even_tiles import even_tile
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.shapes.expressions import Size

#: Columns that are summed at once: more would make kernels that compile too slowly.
_MOST_COLUMNS = 28
#: Sums that a core has to work on at once, so that none waits for the one before it.
_SUMS_IN_FLIGHT = 10
_WEIGHT_LOAD_COST, _SOURCE_LOAD_COST, _GROUP_COST = 0.5, 0.1, 0.5
#: Products and sums of one tile: some 70 microseconds, and in small convolutions not below 10.
_MOST_TILE_OPERATIONS, _LEAST_TILE_OPERATIONS = 8_000_000, 1_000_000
#: What a size counts for that is a formula.
_USUAL_SIZE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionTiling:
    """How a convolution is cut.

    Attributes:
        columns, blocks: columns times blocks of output channels are summed in registers at once.
        tile_blocks, tile_rows: what a tile computes; the blocks are a multiple of ``blocks``.
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

    ``cost``: of a row, for one channel of one tap and one block.
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
    """The group that costs least.

    Args:
        model: the CPU.
        width: columns of a row.
        sharing: neighbouring output blocks that read the same source blocks.
        nbytes: of one number of a sum, of which a vector has as many as of f32.
        loaded: registers that a vector of weights takes.
        spare: registers that a step needs besides, and one for the source, which all do.
    """
    spare += 1 if model.has_fma else 2
    registers = model.register_count * 4 // nbytes - spare
    known = width if isinstance(width, int) else 1 << 20
    return min(
        RegisterGroup(_cost_of_row(columns, blocks, width=known), columns, blocks)
        for blocks in range(1, registers)
        if sharing % blocks == 0
        for columns in range(1, _MOST_COLUMNS + 1)
        if columns * blocks + loaded * blocks <= registers and columns <= max(known, 1)
    )


def _cost_of_row(columns: int, blocks: int, *, width: int) -> float:
    whole, rest = divmod(width, columns)
    cost = whole * cost_of_group(columns, blocks)
    if rest:
        cost += cost_of_group(rest, blocks)
    return cost / blocks


def cost_of_group(columns: int, blocks: int) -> float:
    """What one source element of each of some columns takes, multiplied with some blocks."""
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
    """What a tile computes: as much as 50 to 100 microseconds take.

    Args:
        model: the CPU.
        group: what is summed in registers at once.
        output_blocks: blocks of output channels.
        rows, width: of the output.
        cuts_rows: whether a tile may be a part of a row; it is where there is but one row.
        sums: products that are summed for one element.
        weight_nbytes: of the weights of one output block.
    """
    columns, blocks = group.columns, group.blocks
    known_width, known_rows = (
        each if isinstance(each, int) else _USUAL_SIZE for each in (width, rows)
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
