from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.products.product import schedule_product
from ortpkg.compiler.tensor_ir.elements import Convert
from ortpkg.compiler.tensor_ir.operations import Product
from ortpkg.graph.shapes.expressions import symbol
from tests.compiler.native_targets import NativeTarget
from tests.compiler.product_factories import (
    close,
    floats,
    matrix_product,
    read,
    relu_of_biased,
    tensor,
)
from tests.compiler.reference_elements import DTYPES
from tests.compiler.scheduled_kernels import run_scheduled
from tests.cross.kernels_on_aarch64 import run_kernel_on_aarch64

pytestmark = pytest.mark.cross


def _target(*features: str) -> NativeTarget:
    model = MachineModel(vector_nbytes=16, register_count=32, features=frozenset(features))
    return NativeTarget("generic", tuple(f"+{each}" for each in features), model)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("sizes", [(8, 12, 16), (13, 50, 33), (1, 70, 40), (40, 1, 40), (0, 3, 3)])
def test_floats(sizes: tuple[int, int, int], *, is_constant: bool) -> None:
    (m, n, k), rows = sizes, symbol("m")
    left, right, bias = tensor("left", rows, k), tensor("right", k, n), tensor("bias", n)
    output = tensor("output", rows, n)
    product = matrix_product(left, right, output, epilogue=relu_of_biased(bias))
    arrays = {
        left: floats(m, k),
        right: floats(k, n),
        bias: floats(n),
        output: np.full((m, n), np.nan, np.float32),
    }
    target = _target()
    kernels = schedule_product(product, target.model, {right} if is_constant else ())
    run_scheduled(kernels, arrays, target, {"m": m}, run=run_kernel_on_aarch64)
    close(arrays[output], np.maximum(arrays[left] @ arrays[right] + arrays[bias], 0))


def test_halves() -> None:
    left, output = tensor("left", 9, 21), tensor("out", 9, 70)
    right = tensor("right", 21, 70, scalar=Scalar.F16)
    product = Product(
        output=output, batch=(), m=9, n=70, k=21, left=read(left, 0, 1),
        right=Convert(read(right, 0, 1), Scalar.F32),
    )  # fmt: skip
    arrays = {left: floats(9, 21), right: floats(21, 70).astype(np.float16), output: floats(9, 70)}
    target = _target()
    kernels = schedule_product(product, target.model, {right})
    run_scheduled(kernels, arrays, target, run=run_kernel_on_aarch64)
    close(arrays[output], arrays[left] @ arrays[right].astype(np.float32))


@pytest.mark.parametrize("features", [(), ("dotprod",), ("i8mm",)], ids=str)
@pytest.mark.parametrize("left_kind", [Scalar.U8, Scalar.I8])
@pytest.mark.parametrize("right_kind", [Scalar.I8, Scalar.U8])
def test_bytes(features: tuple[str, ...], left_kind: Scalar, right_kind: Scalar) -> None:
    m, n, k = 9, 50, 39
    left = tensor("left", m, k, scalar=left_kind)
    right = tensor("right", k, n, scalar=right_kind)
    output, zeros = tensor("output", m, n, scalar=Scalar.I32), tensor("z", m, scalar=left_kind)
    product = matrix_product(left, right, output, left_zero=read(zeros, 0))
    generator = np.random.default_rng(0)
    arrays = {
        each: generator.integers(0, 256, shape).astype(np.uint8).view(DTYPES[each.scalar])
        for each, shape in ((left, (m, k)), (right, (k, n)), (zeros, (m,)))
    }
    arrays[output] = np.zeros((m, n), np.int32)
    target = _target(*features)
    kernels = schedule_product(product, target.model, {right})
    run_scheduled(kernels, arrays, target, run=run_kernel_on_aarch64)
    moved = arrays[left].astype(np.int32) - arrays[zeros].astype(np.int32)[:, None]
    np.testing.assert_array_equal(arrays[output], moved @ arrays[right].astype(np.int32))
