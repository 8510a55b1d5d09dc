"""Lowers operators that multiply quantized matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import widened
from ortpkg.compiler.lowering.lowering_registry import MICROSOFT_DOMAIN, lowers
from ortpkg.compiler.lowering.lowering_scope import LoweringScope, attribute, number
from ortpkg.compiler.lowering.product_lowering import make_product, matrix_sizes
from ortpkg.compiler.lowering.quantized_elements import code_of, parameter, required
from ortpkg.compiler.lowering.quantized_lowering import quantize_dynamically
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Read,
    Tensor,
)
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size

Array = npt.NDArray[Any]
_SUMS = Convert(Made(Scalar.I32), Scalar.F32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axes:
    """Axes along which parameters of rows and of columns may vary: axis → its size."""

    rows: Mapping[int, Size]
    columns: Mapping[int, Size]


def _axes_of(left: Tensor, right: Tensor, *, transposed: tuple[bool, bool] = (False, False)
             ) -> _Axes:  # fmt: skip
    m, n, *_ = matrix_sizes(left, right, transposed)
    rank = max(len(left.shape), len(right.shape), 2)
    return _Axes(rows={rank - 2: m}, columns={rank - 1: n})


@lowers("MatMulInteger")
def lower_matmul_integer(scope: LoweringScope, node: Node) -> None:
    """Lower to the exact sums, as i32."""
    left, right, left_zero, right_zero = (*node.inputs, "", "")[:4]
    sides = scope.tensor(left), scope.tensor(right)
    axes = _axes_of(*sides)
    make_product(
        scope,
        node,
        *sides,
        zeros=(parameter(scope, left_zero, axes.rows), parameter(scope, right_zero, axes.columns)),
    )


@lowers("QLinearMatMul")
def lower_quantized_matmul(scope: LoweringScope, node: Node) -> None:
    """Lower to a product of quantized matrices, requantized."""
    left, left_scale, left_zero, right, right_scale, right_zero, scale, zero = node.inputs
    sides, output = (scope.tensor(left), scope.tensor(right)), scope.tensor(node.outputs[0])
    axes = _axes_of(*sides)
    factor = combined_scale(scope, (left_scale, right_scale, scale), axes.rows, axes.columns)
    scaled = Call(Function.MUL, (_SUMS, factor))
    make_product(
        scope,
        node,
        *sides,
        zeros=(parameter(scope, left_zero, axes.rows), parameter(scope, right_zero, axes.columns)),
        epilogue=code_of(scaled, parameter(scope, zero, axes.rows), output.scalar),
    )


@lowers("MatMulIntegerToFloat", domain=MICROSOFT_DOMAIN)
def lower_matmul_integer_to_float(scope: LoweringScope, node: Node) -> None:
    """Lower to a product of quantized matrices in f32, with a bias."""
    left, right, left_scale, right_scale, left_zero, right_zero, bias = (*node.inputs, "", "", "")[
        :7
    ]
    sides = scope.tensor(left), scope.tensor(right)
    axes = _axes_of(*sides)
    factor = combined_scale(scope, (left_scale, right_scale, ""), axes.rows, axes.columns)
    make_product(
        scope,
        node,
        *sides,
        zeros=(parameter(scope, left_zero, axes.rows), parameter(scope, right_zero, axes.columns)),
        epilogue=_biased(scope, Call(Function.MUL, (_SUMS, factor)), bias, axes),
    )


@lowers("DynamicQuantizeMatMul", domain=MICROSOFT_DOMAIN)
def lower_dynamic_quantize_matmul(scope: LoweringScope, node: Node) -> None:
    """Lower to a product whose left matrix is quantized first, as by DynamicQuantizeLinear."""
    left, right_name, right_scale, right_zero, bias = (*node.inputs, "", "")[:5]
    source, right = scope.tensor(left), scope.tensor(right_name)
    codes = scope.temporary(Scalar.U8, source.shape, "codes")
    scale = scope.temporary(Scalar.F32, (), "scale")
    zero = scope.temporary(Scalar.U8, (), "zero")
    quantize_dynamically(scope, source, codes, scale, zero)
    axes = _axes_of(source, right)
    factor = Call(
        Function.MUL, (Read(scale, ()), required(parameter(scope, right_scale, axes.columns)))
    )
    make_product(
        scope,
        node,
        codes,
        right,
        zeros=(Read(zero, ()), parameter(scope, right_zero, axes.columns)),
        epilogue=_biased(scope, Call(Function.MUL, (_SUMS, factor)), bias, axes),
    )


@lowers("QGemm", domain=MICROSOFT_DOMAIN)
def lower_quantized_gemm(scope: LoweringScope, node: Node) -> None:
    """Lower to alpha * A * B + C, C in the product's scale; quantized if given an output scale."""
    left, left_scale, left_zero, right, right_scale, right_zero, bias, scale, zero = (
        *node.inputs,
        *("",) * 3,
    )[:9]
    sides, output = (scope.tensor(left), scope.tensor(right)), scope.tensor(node.outputs[0])
    transposed = bool(attribute(node, "transA", 0)), bool(attribute(node, "transB", 0))
    axes = _axes_of(*sides, transposed=transposed)
    factor = combined_scale(
        scope,
        (left_scale, right_scale, scale),
        {},
        axes.columns,
        alpha=float(attribute(node, "alpha", 1.0)),
    )
    sums: Element = Made(Scalar.I32)
    added = parameter(scope, bias, axes.columns)
    if added is not None:
        sums = Call(Function.ADD, (sums, added))
    value: Element = Call(Function.MUL, (Convert(sums, Scalar.F32), factor))
    if scale:
        value = code_of(value, parameter(scope, zero, {}), output.scalar)
    make_product(
        scope,
        node,
        *sides,
        is_transposed=transposed,
        zeros=(parameter(scope, left_zero, {}), parameter(scope, right_zero, axes.columns)),
        epilogue=value,
    )


def _biased(scope: LoweringScope, value: Element, bias: str, axes: _Axes) -> Element:
    element = parameter(scope, bias, axes.columns)
    return value if element is None else Call(Function.ADD, (value, widened(element)))


def combined_scale(
    scope: LoweringScope,
    names: Sequence[str],
    rows: Mapping[int, Size],
    columns: Mapping[int, Size],
    *,
    alpha: float = 1.0,
) -> Element:
    """Return the factor of sums of products: alpha * left scale * right scale / output scale.

    It is computed in f32, at compile time if all scales are constant and the left and output scales
    single numbers.

    Args:
        scope: the partition.
        names: names of the left, right and output scale; the last may be "".
        rows, columns: axis → its size, along which the left and the right scale may vary.
        alpha: a further factor.
    """
    left_name, right_name, over_name = names
    left, right = (required(parameter(scope, left_name, rows)),
                   required(parameter(scope, right_name, columns)))  # fmt: skip
    over = parameter(scope, over_name, {})
    constants = [scope.constant(name) for name in names if name]
    scales = [constant.astype(np.float32) for constant in constants if constant is not None]
    if len(scales) == len(constants) and scales[0].size == 1:
        made = np.float32(alpha) * scales[0].reshape(()) * scales[1]
        if over is not None:
            made = made / scales[2].reshape(())
        return _constant_scale(scope, right_name, np.asarray(made, np.float32), right)
    factor: Element = Call(Function.MUL, (widened(left), widened(right)))
    if alpha != 1:
        factor = Call(Function.MUL, (number(alpha, Scalar.F32), factor))
    return factor if over is None else Call(Function.DIV, (factor, widened(over)))


def _constant_scale(scope: LoweringScope, name: str, value: Array, original: Element) -> Element:
    if value.size == 1:
        return number(float(value.reshape(-1)[0]), Scalar.F32)
    assert isinstance(original, Read)
    return Read(scope.constant_tensor(f"{name} combined", value), original.coordinates)
