"""Chooses the tiling of a matrix product: register tiles, blocks of rows, columns and depth.

The cost model counts vector instructions. A *register tile* holds ``rows`` times ``vectors`` sums
in registers. For one step along k it loads ``vectors`` vectors of the right side and ``rows``
numbers of the left side, and makes ``rows * vectors`` products. A CPU does as many loads as
products at once, and a sum waits about eight products for the one before, so a step costs

    max(rows * vectors, rows + vectors, 8) + vectors / 4 + rows / 20

where the last two terms stand for the traffic between the caches: the right side comes from L2, the
left side mostly from L1. The tile with the lowest cost for the whole output wins, including the
unused parts of tiles at the edges.

A *panel* has as many columns as a register tile, and is contiguous along k. One tile of the tile
space takes a block of rows and some panels. It is large enough to read the panel from L2 often, and
small enough that threads share the work evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ortpkg.compiler.schedules.even_parts import even_part
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.graph.shapes.expressions import Size

#: Assumed value of an unknown size: for register tiles, and for sharing work.
_MANY, _SOME = 1 << 14, 128
#: Assumed row counts if only a run knows them, equally likely: batches are small powers of two.
_OPEN_ROWS = (8, 64, _MANY)
#: Each row needs a register for its address; a CPU with 16 has only 8 to spare.
_MOST_ROWS, _MOST_VECTORS = 8, 8
_LATENCY = 8
#: Products of vectors in a tile, some 3 to 100 microseconds, and least number of tiles.
_LEAST_WORK, _MOST_WORK, _TILES = 10_000, 300_000, 16
#: Rows that should read a panel from L2 before the next panel is fetched from farther away.
_REUSING_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTiling:
    """Sizes of the tiles and blocks of a product.

    Attributes:
        rows, vectors: size of the register tile.
        lanes: lanes of one vector of sums.
        row_block: rows of one tile of the tile space, a multiple of ``rows``.
        panel_block: panels of one tile of the tile space.
        k_block: steps along k that all rows of the block do before the next steps; None for all.
    """

    rows: int
    vectors: int
    lanes: int
    row_block: int
    panel_block: int
    k_block: int | None

    @property
    def panel_width(self) -> int:
        """Number of columns in one panel."""
        return self.vectors * self.lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSizes:
    """Sizes that determine the tiling of a product, besides the target.

    Attributes:
        rows, columns: sizes of the output.
        steps: number of steps along k.
        lanes: lanes of one vector of sums.
        spare: registers that a step needs besides the sums and the right side's vectors.
        loaded: registers that a vector of the right side takes.
        vectors: number of vectors in a panel, if fixed.
    """

    rows: Size
    columns: Size
    steps: Size
    lanes: int
    spare: int = 1
    loaded: int = 1
    vectors: int | None = None

    def with_rows(self, rows: int, vectors: int) -> ProductSizes:
        """Return the sizes with this many rows, and panels of this many vectors."""
        return replace(self, rows=rows, vectors=vectors)


def product_tiling(model: MachineModel, sizes: ProductSizes) -> ProductTiling:
    """Return the tiling with the lowest cost."""
    rows, columns, steps, lanes = sizes.rows, sizes.columns, sizes.steps, sizes.lanes
    tile_rows, vectors = _cheapest(_candidates(model, sizes), rows, columns, lanes)
    row_tiles = -(-(rows if isinstance(rows, int) else _SOME) // tile_rows)
    width = vectors * lanes
    panels = -(-(columns if isinstance(columns, int) else _SOME * lanes) // width)
    depth = max(1, steps if isinstance(steps, int) else _SOME * 4)
    unit = max(tile_rows, _LATENCY) * vectors * depth  # with few rows, memory takes the time
    work = min(max(row_tiles * panels * unit // _TILES, _LEAST_WORK), _MOST_WORK)
    units = max(1, work // unit)
    reusing = -(-_REUSING_ROWS // tile_rows)
    tiles_of_block = even_part(max(row_tiles, 1), max(units, reusing))
    return ProductTiling(
        rows=tile_rows,
        vectors=vectors,
        lanes=lanes,
        row_block=tiles_of_block * tile_rows,
        panel_block=even_part(max(panels, 1), max(1, units // tiles_of_block)),
        k_block=_k_block(model, steps, vectors, is_reused=tiles_of_block > 1),
    )


def _candidates(model: MachineModel, sizes: ProductSizes) -> list[tuple[int, int]]:
    """Return rows and vectors of the register tiles that fit the registers."""
    spare = sizes.spare + (not model.has_fma)  # the product, before it is added
    return [
        (tile_rows, vectors)
        for tile_rows in range(1, _MOST_ROWS + 1)
        for vectors in range(1, _MOST_VECTORS + 1)
        if sizes.vectors in {None, vectors}
        and tile_rows * vectors + sizes.loaded * vectors + spare <= model.register_count
    ]


def _cheapest(
    candidates: Sequence[tuple[int, int]], rows: Size, columns: Size, lanes: int
) -> tuple[int, int]:
    row_counts = (rows,) if isinstance(rows, int) else _OPEN_ROWS
    column_count = columns if isinstance(columns, int) else _MANY * lanes

    def cost(candidate: tuple[int, int]) -> float:
        tile_rows, vectors = candidate
        panels = -(-column_count // (vectors * lanes))
        tiles_of_row = sum(-(-count // tile_rows) / max(count, 1) for count in row_counts)
        step = max(tile_rows * vectors, tile_rows + vectors, _LATENCY)
        return panels * tiles_of_row * (step + vectors / 4 + tile_rows / 20)

    fitting = [
        candidate_tile for candidate_tile in candidates if candidate_tile[0] <= max(*row_counts, 1)
    ]
    return min(fitting, key=cost)


def _k_block(model: MachineModel, steps: Size, vectors: int, *, is_reused: bool) -> int | None:
    """Return the steps with which the part of a panel that tiles share stays in half of L2."""
    most = max(16, model.l2_nbytes // 2 // (vectors * model.vector_nbytes))
    if not is_reused or (isinstance(steps, int) and steps <= most):
        return None
    return even_part(steps, most) if isinstance(steps, int) else most
