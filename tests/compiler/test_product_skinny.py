"""Products of few rows, and of matrices with vectors, read their sides where they lie."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.schedules.products.product import schedule_product
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import symbol
from tests.compiler.native_targets import NATIVE_TARGETS, V2, V3, NativeTarget
from tests.compiler.product_factories import close, floats, read, relu_of_biased, tensor
from tests.compiler.scheduled_kernels import run_scheduled


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("columns", [64, 77])
def test_few_rows_read_the_right_side_where_it_lies(
    target: NativeTarget, rows: int, columns: int
) -> None:
    heads, k = 2, 19
    left = tensor("left", heads, rows, k)
    right, output = tensor("right", k, heads, columns), tensor("out", heads, rows, columns)
    product = Product(
        output=output,
        batch=(heads,),
        m=rows,
        n=columns,
        k=k,
        left=read(left, 0, 1, 2),
        right=read(right, 1, 0, 2),
    )
    arrays = {
        left: floats(heads, rows, k),
        right: floats(k, heads, columns),
        output: np.full((heads, rows, columns), np.nan, np.float32),
    }
    kernels = schedule_product(product, target.model, ())
    assert len(kernels) == 1 or target is V2, "whose loads have no masks"
    run_scheduled(kernels, arrays, target)
    close(arrays[output], arrays[left] @ arrays[right].swapaxes(0, 1))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("columns", "k"), [(70, 64), (5, 21), (300, 3), (9, 0), (0, 9)])
def test_few_rows_times_columns_that_lie_along_k(
    target: NativeTarget, rows: int, columns: int, k: int
) -> None:
    heads = 2
    left, right = tensor("left", heads, rows, k), tensor("right", columns, heads, k)
    bias, output = tensor("bias", columns), tensor("out", heads, rows, columns)
    product = Product(
        output=output,
        batch=(heads,),
        m=rows,
        n=columns,
        k=k,
        left=read(left, 0, 1, 2),
        right=read(right, 2, 0, 1),
        epilogue=relu_of_biased(bias, 2),
    )
    arrays = {
        left: floats(heads, rows, k),
        right: floats(columns, heads, k),
        bias: floats(columns),
        output: np.full((heads, rows, columns), np.nan, np.float32),
    }
    kernels = schedule_product(product, target.model, ())
    assert len(kernels) == 1
    run_scheduled(kernels, arrays, target)
    sums = np.einsum("hmk,nhk->hmn", arrays[left], arrays[right])
    close(arrays[output], np.maximum(sums + arrays[bias], 0))


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1), (5, 40), (600, 33), (7, 0), (0, 7)])
def test_matrix_times_vector(sizes: tuple[int, int], *, is_constant: bool) -> None:
    m, k = symbol("m"), symbol("k")
    left, right, output = tensor("left", m, k), tensor("right", k), tensor("out", m, 1)
    bias = tensor("bias", m)
    product = Product(
        output=output,
        batch=(),
        m=m,
        n=1,
        k=k,
        left=read(left, 0, 1),
        right=read(right, 0),
        epilogue=relu_of_biased(bias, 0),
    )
    rows, depth = sizes
    arrays = {
        left: floats(rows, depth),
        right: floats(depth),
        bias: floats(rows),
        output: np.full((rows, 1), np.nan, np.float32),
    }
    kernels = schedule_product(product, V3.model, {right} if is_constant else ())
    assert len(kernels) == 1
    run_scheduled(kernels, arrays, V3, {"m": rows, "k": depth})
    expected = np.maximum(arrays[left] @ arrays[right] + arrays[bias], 0)
    close(arrays[output][:, 0], expected)
