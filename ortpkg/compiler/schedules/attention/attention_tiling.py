"""Chooses the blocks of an attention: queries, keys, and register tiles.

A tile of the tile space takes a *block of queries* of one head, and walks all keys in *blocks of
keys*. It packs each block of keys into panels, which costs about as much as two queries do, so
blocks have many queries. Blocks of keys and values, the queries and their sums stay in half of L2.

Within a block of keys, a *group* of queries goes through scores, softmax and values before the next
group does, so that its scores stay in L1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.even_parts import even_part
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_tiling import ProductSizes, product_tiling
from ortpkg.compiler.tensor_ir.operations import Attention

#: Most queries of a head that are computed one by one: packing keys would take longer.
FEW_QUERIES = 3
_MOST_KEYS, _MOST_QUERIES, _LEAST_QUERIES = 256, 256, 32
#: Assumed sizes where they are unknown.
_SOME_QUERIES, _SOME_KEYS = 128, 512
#: Most products of vectors in a tile, and number of tiles to reach if blocks allow.
_MOST_WORK, _TILES = 2_000_000, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionTiling:
    """Sizes of the blocks of an attention.

    Attributes:
        lanes: lanes of one vector.
        score_rows, score_vectors: queries, and vectors of keys, in a register tile of scores.
        value_rows, value_vectors: queries, and vectors of values, in a register tile of the output.
        query_block: queries of one tile.
        group: queries that go through a block of keys together; a multiple of both rows.
        key_block: a multiple of the keys of one panel.
    """

    lanes: int
    score_rows: int
    score_vectors: int
    value_rows: int
    value_vectors: int
    query_block: int
    group: int
    key_block: int

    @property
    def key_panel(self) -> int:
        """Number of keys in one panel."""
        return self.score_vectors * self.lanes

    @property
    def value_panel(self) -> int:
        """Number of columns in one panel of values."""
        return self.value_vectors * self.lanes

    @property
    def query_rows(self) -> int:
        """Rows of scratch memory for a block of queries: whole groups."""
        return -(-self.query_block // self.group) * self.group


def attention_tiling(attention: Attention, model: MachineModel) -> AttentionTiling:
    """Return the blocks for the known sizes and the target's registers and caches."""
    lanes = model.lanes(Scalar.F32)
    keys = attention.keys if isinstance(attention.keys, int) else None
    query_block = _query_block(attention, lanes)
    most_keys = even_part(keys, _most_keys(attention, model)) if keys else _most_keys(
        attention, model
    )  # fmt: skip
    scores = product_tiling(
        model,
        ProductSizes(rows=query_block, columns=most_keys, steps=attention.width, lanes=lanes),
    )
    sums = product_tiling(
        model,
        ProductSizes(rows=query_block, columns=attention.value_width, steps=most_keys, lanes=lanes),
    )
    panel = scores.panel_width
    key_block = -(-most_keys // panel) * panel
    both = lcm(scores.rows, sums.rows)
    rows = model.l1_nbytes // 2 // (key_block * Scalar.F32.nbytes)
    return AttentionTiling(
        lanes=lanes,
        score_rows=scores.rows,
        score_vectors=scores.vectors,
        value_rows=sums.rows,
        value_vectors=sums.vectors,
        query_block=query_block,
        group=max(rows // both, 1) * both,
        key_block=key_block,
    )


def _query_block(attention: Attention, lanes: int) -> int:
    queries = attention.queries if isinstance(attention.queries, int) else _SOME_QUERIES
    keys = attention.keys if isinstance(attention.keys, int) else _SOME_KEYS
    batch_sizes = [size for size in attention.batch if isinstance(size, int)]
    heads = max(1, prod(batch_sizes))
    unit = max(1, keys * (_width(attention) // lanes))
    most = min(_MOST_QUERIES, _MOST_WORK // unit, queries * heads // _TILES)
    return even_part(max(queries, 1), max(most, _LEAST_QUERIES))


def _most_keys(attention: Attention, model: MachineModel) -> int:
    row = _width(attention) * Scalar.F32.nbytes
    return max(32, min(_MOST_KEYS, model.l2_nbytes // 4 // row))


def _width(attention: Attention) -> int:
    """Return the number of elements of a key and its value together."""
    width, value_width = attention.width, attention.value_width
    if not isinstance(width, int) or not isinstance(value_width, int):
        raise TypeError(f"heads of the widths {width} and {value_width} are not scheduled")
    return width + value_width
