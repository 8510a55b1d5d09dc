"""Products of numbers rounded to bfloat16: what becomes one, and what it computes."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from ortpkg.compiler.fusion.bf16_rounding import round_products
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.machine_code.cpu_targets import reason_against_this_machine, target_named
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.schedules.products.product import schedule_product
from ortpkg.compiler.tensor_ir.elements import Call, Convert, Element, Function, Read, Tensor
from ortpkg.compiler.tensor_ir.operations import Map, Product
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import V4, NativeTarget
from tests.compiler.product_factories import floats, read, relu_of_biased, tensor
from tests.compiler.scheduled_kernels import run_scheduled

_FEATURE = "avx512_bf16"
_TARGET = NativeTarget(
    V4.cpu,
    (*V4.features, "+avx512bf16"),
    replace(V4.model, features=frozenset({"avx512bf16"}), multiplies_bfloat=True),
)
_runs_here = pytest.mark.skipif(
    reason_against_this_machine(target_named("linux-x86_64_v4"), (_FEATURE,)) is not None,
    reason="this machine's CPU has no products of bfloat16",
)


def _rounded(values: Array) -> Array:
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


@_runs_here
@pytest.mark.parametrize("sizes", [(1, 300, 40), (7, 33, 2), (13, 130, 70), (0, 7, 6)])
def test_sums_are_those_of_rounded_numbers(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    left, right = tensor("left", m, k, scalar=Scalar.BF16), tensor("right", k, n)
    bias, output = tensor("bias", n), tensor("output", m, n)
    product = Product(
        output=output, batch=(), m=m, n=n, k=k, left=read(left, 0, 1),
        right=Convert(read(right, 0, 1), Scalar.BF16), epilogue=relu_of_biased(bias),
    )  # fmt: skip
    arrays = {
        left: floats(m, k).astype(ml_dtypes.bfloat16),
        right: floats(k, n),
        bias: floats(n),
        output: np.full((m, n), 7, np.float32),
    }
    (kernel,) = schedule_product(product, _TARGET.model, {right})
    run_scheduled([kernel], arrays, _TARGET)
    sums = arrays[left].astype(np.float32) @ _rounded(arrays[right])
    np.testing.assert_allclose(
        arrays[output], np.maximum(sums + arrays[bias], 0), rtol=1e-5, atol=1e-4
    )


def _program(*, k: int = 8, n: int = 6, is_shared: bool = False) -> TensorProgram:
    """The exponentials of rows, times a constant: twice where it is shared."""
    source, weights = tensor("source", 4, k), tensor("weights", k, n)
    rows = tensor("rows", 4, k)
    value: Element = Call(Function.EXP, (read(source, 0, 1),))
    outputs = [tensor(f"output{number}", 4, n) for number in range(1 + is_shared)]
    products = [
        Product(
            output=each, batch=(), m=4, n=n, k=k, left=read(rows, 0, 1), right=read(weights, 0, 1)
        )
        for each in outputs
    ]
    return TensorProgram(
        name="program",
        inputs=(source,),
        outputs=tuple(outputs),
        constants={weights: floats(k, n)},
        operations=(
            Map(output=rows, axes=(4, k), value=value, coordinates=read(rows, 0, 1).coordinates),
            *products,
        ),
    )


def _left_of(product: object) -> Tensor:
    assert isinstance(product, Product)
    assert isinstance(product.left, Read)
    return product.left.tensor


def test_products_share_the_rounded_rows() -> None:
    made = round_products(_program(is_shared=True))
    _, rounding, first, second = made.operations
    assert isinstance(rounding, Map)
    assert rounding.output.scalar is Scalar.BF16
    assert _left_of(first) is _left_of(second) is rounding.output


def test_rows_are_rounded_where_they_are_made() -> None:
    made = optimized(_program(), multiplies_bfloat=True)
    rows, product = made.operations
    assert rows.output.scalar is Scalar.BF16
    assert _left_of(product) is rows.output


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(_program(k=7), id="an odd depth"),
        pytest.param(_program(n=1), id="one column"),
        pytest.param(replace(_program(), constants={}), id="no constant"),
    ],
)
def test_other_products_stay_as_they_are(program: TensorProgram) -> None:
    assert round_products(program).operations == program.operations


def test_nothing_is_rounded_where_nobody_asked() -> None:
    made = optimized(_program())
    assert all(each.output.scalar is Scalar.F32 for each in made.operations)
