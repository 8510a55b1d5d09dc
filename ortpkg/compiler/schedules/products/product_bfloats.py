"""Packs the sides of a bf16 product for its kernel: pairs along k.

Only sides that need no work in a run are used: a left side that is contiguous row by row, and a
constant right side, which is rounded and packed at compile time.
"""

from __future__ import annotations

from collections.abc import Collection

import ml_dtypes

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.linear_reads import linear_index
from ortpkg.compiler.schedules.products.product_packing import (
    Array,
    batch_strides,
    constant_sizes,
    constant_view,
    in_grouped_panels,
    text_of,
)
from ortpkg.compiler.schedules.products.product_space import (
    PackedTensor,
    RightPanels,
    StridedRows,
    rows_in_place,
)
from ortpkg.compiler.schedules.scheduled_kernel import Packing
from ortpkg.compiler.tensor_ir.elements import Convert, Read, Tensor, scalar_of
from ortpkg.compiler.tensor_ir.operations import Product

_GROUP = 2


def bfloats_in_place(product: Product) -> StridedRows | None:
    """Return the left side if pairs of bf16 can be read in place, else None."""
    is_even = isinstance(product.k, int) and product.k % _GROUP == 0
    if scalar_of(product.left) is not Scalar.BF16 or not is_even:
        return None
    rows = rows_in_place(product.left, len(product.batch))
    return rows if rows is not None and rows.step == 1 else None


def constant_bfloats(product: Product, constants: Collection[Tensor]) -> Read | None:
    """Return a constant right side of bf16, or of f32 to be rounded; else None."""
    right = product.right
    if scalar_of(right) is not Scalar.BF16:
        return None
    read = right.operand if isinstance(right, Convert) else right
    if not isinstance(read, Read) or read.tensor not in constants:
        return None
    return read if constant_sizes(product, read) is not None else None


def packed_bfloats(product: Product, read: Read, width: int) -> RightPanels:
    """Return a constant right side in panels of ``width`` columns, rounded to bf16."""
    sizes = constant_sizes(product, read)
    assert sizes is not None
    *batch, k, n = sizes
    shape = (*batch, -(-n // width), -(-k // _GROUP), width, _GROUP)

    def pack(source: Array) -> Array:
        rounded = constant_view(read, sizes, source).astype(ml_dtypes.bfloat16)
        return in_grouped_panels(rounded, width, _GROUP)

    layout = f"bf16 panels of {width} columns of {sizes} at {text_of(linear_index(read))}"
    tensor = Tensor(f"{read.tensor.name} in panels", Scalar.BF16, shape)
    packing = Packing(source=read.tensor, layout=layout, pack=pack)
    stored = PackedTensor(tensor=tensor, packing=packing, batch=batch_strides(product, read, shape))
    return RightPanels(stored=stored, panel=shape[-3] * width * _GROUP, step=width * _GROUP)
