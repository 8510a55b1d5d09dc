"""Lowers quantization, dequantization, and elementwise operators on quantized tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import ACTIVATIONS, f32, finish
from ortpkg.compiler.lowering.lowering_registry import MICROSOFT_DOMAIN, lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    identity_read,
    number,
)
from ortpkg.compiler.lowering.moving_lowering import add_piece, axis_of
from ortpkg.compiler.lowering.quantized_elements import code_of, parameter, real_number, required
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Read,
    Tensor,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Combiner, Reduce
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.types import ElementType

_DEFAULT_AXIS = 1
_MOST_CODE = 255


@lowers("DequantizeLinear")
@lowers("DequantizeLinear", domain=MICROSOFT_DOMAIN)
def lower_dequantize(scope: LoweringScope, node: Node) -> None:
    """Lower to (x - zero point) * scale, in f32."""
    source = scope.tensor(node.inputs[0])
    scale, zero = _linear_parameters(scope, node, source)
    finish(scope, node, real_number(identity_read(source), scale, zero))


@lowers("QuantizeLinear")
@lowers("QuantizeLinear", domain=MICROSOFT_DOMAIN)
def lower_quantize(scope: LoweringScope, node: Node) -> None:
    """Lower to the codes of numbers."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    scale, zero = _linear_parameters(scope, node, source)
    if {source.scalar, scalar_of(scale)} != {Scalar.F32}:
        raise NotLoweredError("numbers are quantized as float32 alone")
    if attribute(node, "precision", 0) not in {0, int(ElementType.FLOAT)}:
        raise NotLoweredError("it divides in another kind than float32")
    scaled = Call(Function.DIV, (identity_read(source), scale))
    scope.map(output, code_of(scaled, zero, output.scalar))


def _linear_parameters(
    scope: LoweringScope, node: Node, source: Tensor
) -> tuple[Element, Element | None]:
    """Return scale and zero point over the axes of the quantized or dequantized tensor."""
    if attribute(node, "block_size", 0):
        raise NotLoweredError("its scales are of blocks")
    axis, rank = int(attribute(node, "axis", _DEFAULT_AXIS)), len(source.shape)
    sizes: Mapping[int, Size] = {}
    if -rank <= axis < rank:
        sizes = {axis % rank: source.shape[axis]}
    names = (*node.inputs, "")
    return required(parameter(scope, names[1], sizes)), parameter(scope, names[2], sizes)


# --- dynamic --------------------------------------------------------------------------------------


@lowers("DynamicQuantizeLinear")
def lower_dynamic_quantize(scope: LoweringScope, node: Node) -> None:
    """Lower to codes of 8 bits, with a scale and a zero point that cover all numbers and 0."""
    codes, scale, zero = (scope.tensor(name) for name in node.outputs)
    quantize_dynamically(scope, scope.tensor(node.inputs[0]), codes, scale, zero)


def quantize_dynamically(
    scope: LoweringScope, source: Tensor, codes: Tensor, scale: Tensor, zero: Tensor
) -> None:
    """Write the u8 codes of a tensor, their scale and their zero point, both of the shape ()."""
    if source.scalar is not Scalar.F32:
        raise NotLoweredError("numbers are quantized as float32 alone")
    most = _bound(scope, source, Combiner.MAX, Function.MAX)
    least = _bound(scope, source, Combiner.MIN, Function.MIN)
    width = Call(Function.DIV, (Call(Function.SUB, (Read(most, ()), Read(least, ()))),
                                number(_MOST_CODE, Scalar.F32)))  # fmt: skip
    is_flat = Call(Function.EQ, (width, number(0, Scalar.F32)))
    scope.map(scale, Call(Function.SELECT, (is_flat, number(1, Scalar.F32), width)))
    shift = Call(Function.DIV, (Call(Function.NEG, (Read(least, ()),)), Read(scale, ())))
    scope.map(zero, code_of(shift, None, Scalar.U8))
    scaled = Call(Function.DIV, (identity_read(source), Read(scale, ())))
    scope.map(codes, code_of(scaled, Read(zero, ()), Scalar.U8))


def _bound(scope: LoweringScope, source: Tensor, combiner: Combiner, function: Function) -> Tensor:
    """Return the greatest element or 0, or the least element or 0."""
    bound = scope.temporary(Scalar.F32, (), combiner.value)
    scope.emit(
        Reduce(
            output=bound,
            axes=(),
            reduced=source.shape,
            combiner=combiner,
            value=identity_read(source),
            epilogue=Call(function, (Made(Scalar.F32), number(0, Scalar.F32))),
        )
    )
    return bound


# --- elementwise ----------------------------------------------------------------------------------


@lowers("QLinearAdd", "QLinearMul", domain=MICROSOFT_DOMAIN)
def lower_quantized_binary(scope: LoweringScope, node: Node) -> None:
    """Lower sums and products of quantized tensors, with constant scales.

    A product and a sum turn each code into its number in units of the output's scale.
    """
    output = scope.tensor(node.outputs[0])
    left, left_scale, left_zero, right, right_scale, right_zero, scale, zero = (
        *node.inputs,
        "",
    )[:8]
    over = np.float32(_constant_number(scope, scale))
    is_sum = node.op_type == "QLinearAdd"
    first = _line(scope, (left, left_scale, left_zero), over, output.shape)
    factor = over if is_sum else np.float32(1)
    second = _line(scope, (right, right_scale, right_zero), factor, output.shape)
    value = Call(Function.ADD if is_sum else Function.MUL, (first, second))
    scope.map(output, code_of(value, parameter(scope, zero, {}), output.scalar))


def _line(
    scope: LoweringScope, names: tuple[str, str, str], over: np.float32, shape: Sequence[Size]
) -> Element:
    """Return factor * code + shift: the code's number, divided by ``over``."""
    value, scale, zero = names
    factor = np.float32(_constant_number(scope, scale)) / over
    shift = -factor * np.float32(_constant_number(scope, zero) if zero else 0)
    line: Element = Call(
        Function.MUL,
        (Convert(scope.broadcast(value, shape), Scalar.F32), number(float(factor), Scalar.F32)),
    )
    if shift:
        line = Call(Function.ADD, (line, number(float(shift), Scalar.F32)))
    return line


def _constant_number(scope: LoweringScope, name: str) -> float:
    """Return a scale or a zero point that is one constant; NotLoweredError if it is not."""
    constant = scope.constant(name)
    if constant is None or constant.size != 1:
        raise NotLoweredError("its scales or zero points are known only when it runs")
    return float(constant.reshape(-1)[0])


@lowers("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT_DOMAIN)
def lower_quantized_activation(scope: LoweringScope, node: Node) -> None:
    """Lower to an activation of dequantized codes, quantized with another scale."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    names = (*node.inputs[1:], "")[:4]
    scale, zero, over, point = (parameter(scope, name, {}) for name in names)
    value = real_number(identity_read(source), required(scale), zero)
    if node.op_type == "QLinearSigmoid":
        value = f32(Function.SIGMOID, value)
    else:
        formula, alpha, beta = ACTIVATIONS["LeakyRelu"]
        value = formula(value, float(attribute(node, "alpha", alpha)), beta)
    scope.map(output, code_of(f32(Function.DIV, value, required(over)), point, output.scalar))


@lowers("QLinearConcat", domain=MICROSOFT_DOMAIN)
def lower_quantized_concat(scope: LoweringScope, node: Node) -> None:
    """Lower to one map for each piece, requantized with the output's scale.

    Pieces with the output's scale and zero point are copied.
    """
    output = scope.tensor(node.outputs[0])
    axis = axis_of(node, len(output.shape))
    over, point = (parameter(scope, name, {}) for name in node.inputs[:2])
    offset: Size = 0
    for index in range(2, len(node.inputs), 3):
        name, *names = node.inputs[index : index + 3]
        piece = scope.tensor(name)
        scale, zero = (parameter(scope, parameter_name, {}) for parameter_name in names)
        value: Element = identity_read(piece)
        if (scale, zero, piece.scalar) != (over, point, output.scalar):
            real = real_number(value, required(scale), zero)
            value = code_of(f32(Function.DIV, real, required(over)), point, output.scalar)
        add_piece(scope, output, piece, value, axis, offset)
        offset = offset + piece.shape[axis]
