"""What the cost model of matrix products picks."""

from __future__ import annotations

import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product_tiling import (
    ProductSizes,
    ProductTiling,
    product_tiling,
)
from ortpkg.graph.shapes.expressions import Size, symbol

_V4 = MachineModel(vector_nbytes=64, register_count=32, l2_nbytes=1 << 20)
_V3 = MachineModel(vector_nbytes=32, register_count=16)
_V2 = MachineModel(vector_nbytes=16, register_count=16, has_fma=False)
_AARCH64 = MachineModel(vector_nbytes=16, register_count=32)


def _tiling(model: MachineModel, rows: Size, columns: Size, steps: Size) -> ProductTiling:
    lanes = model.lanes(Scalar.F32)
    sizes = ProductSizes(rows=rows, columns=columns, steps=steps, lanes=lanes)
    return product_tiling(model, sizes)


@pytest.mark.parametrize(
    ("model", "rows", "width"),
    [(_V4, 8, 48), (_V3, 4, 24), (_V2, 4, 8), (_AARCH64, 8, 12)],
    ids=["x86-64-v4", "x86-64-v3", "x86-64-v2", "aarch64"],
)
def test_register_tile_fits_the_registers_where_sizes_are_open(
    model: MachineModel, rows: int, width: int
) -> None:
    tiling = _tiling(model, symbol("m"), symbol("n"), symbol("k"))
    assert (tiling.rows, tiling.panel_width) == (rows, width)
    sums = tiling.rows * tiling.vectors
    assert sums + tiling.vectors + 1 <= model.register_count


@pytest.mark.parametrize("model", [_V4, _V3, _V2, _AARCH64])
@pytest.mark.parametrize("columns", [256, 768, 1024])
def test_open_rows_are_cut_so_that_a_batch_of_eight_computes_none_for_nothing(
    model: MachineModel, columns: int
) -> None:
    assert 8 % _tiling(model, symbol("m"), columns, 1024).rows == 0


@pytest.mark.parametrize(
    ("sizes", "rows", "width"),
    [
        ((128, 768, 768), 8, 48),
        ((49, 2048, 512), 7, 48),  # 7 times 7 rows, none for nothing
        ((3136, 64, 256), 6, 64),  # all columns are one panel
        ((1, 768, 768), 1, 128),
        ((4, 768, 3072), 4, 96),
        ((8, 2, 768), 8, 16),
    ],
)
def test_register_tile_fits_the_output(sizes: tuple[int, int, int], rows: int, width: int) -> None:
    tiling = _tiling(_V4, *sizes)
    assert (tiling.rows, tiling.panel_width) == (rows, width)


@pytest.mark.parametrize("model", [_V4, _V3, _V2, _AARCH64])
@pytest.mark.parametrize("sizes", [(128, 768, 768), (128, 3072, 768), (196, 1024, 256)])
def test_work_is_cut_into_tiles_that_threads_can_share(
    model: MachineModel, sizes: tuple[int, int, int]
) -> None:
    rows, columns, _ = sizes
    tiling = _tiling(model, *sizes)
    blocks = -(-rows // tiling.row_block)
    groups = -(-columns // (tiling.panel_width * tiling.panel_block))
    assert blocks * groups >= 16
    assert tiling.row_block % tiling.rows == 0


@pytest.mark.parametrize(("rows", "made"), [(1, 1), (3, 3), (500, 8)])
def test_panels_of_a_given_width_serve_tiles_of_fewer_rows(rows: int, made: int) -> None:
    sizes = ProductSizes(rows=symbol("m"), columns=768, steps=768, lanes=16)
    tiling = product_tiling(_V4, sizes.with_rows(rows, 3))
    assert (tiling.rows, tiling.panel_width) == (made, 48)


def test_k_is_cut_where_a_panel_does_not_stay_in_the_cache() -> None:
    assert _tiling(_V4, 128, 768, 768).k_block is None
    assert _tiling(_V4, 128, 768, 3072).k_block == 1536
    assert _tiling(_V4, 1, 768, 1 << 20).k_block is None, "nothing reads the panel twice"
    assert _tiling(_V4, 128, 768, symbol("k")).k_block == 2730


@pytest.mark.parametrize("sizes", [(0, 0, 0), (1, 1, 1), (0, 5, 3), (5, 0, 3), (5, 3, 0)])
def test_smallest_sizes_have_a_tiling(sizes: tuple[int, int, int]) -> None:
    for model in (_V4, _V3, _V2, _AARCH64):
        tiling = _tiling(model, *sizes)
        assert min(tiling.rows, tiling.vectors, tiling.row_block, tiling.panel_block) >= 1
