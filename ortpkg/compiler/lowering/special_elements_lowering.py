"""Lowers elementwise operators with unusual attributes or types: activations, signs, infinities."""

from __future__ import annotations

import math

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import (
    expm1,
    f32,
    finish,
    float_operands,
    operands_of,
)
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    number,
)
from ortpkg.compiler.tensor_ir.elements import Call, Function, scalar_of
from ortpkg.graph.graph import Node

_F = Function
#: ONNX's defaults for Selu.
_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875

#: Mish(x) equals x for larger x.
_MISH_IS_LINE = 20.0


@lowers("Selu", "Celu")
def lower_scaled_exponential(scope: LoweringScope, node: Node) -> None:
    """Lower to an exponential below 0 and a line above."""
    (x,) = float_operands(scope, node)
    if node.op_type == "Celu":
        alpha, gamma = float(attribute(node, "alpha", 1.0)), 1.0
        if not 0 < alpha < math.inf:  # expm1 is inaccurate for numbers above 0
            raise NotLoweredError("its alpha is no number above 0")
        below = f32(_F.MUL, expm1(f32(_F.DIV, x, alpha)), alpha)
    else:
        alpha = float(attribute(node, "alpha", _SELU_ALPHA))
        gamma = float(attribute(node, "gamma", _SELU_GAMMA))
        below = f32(_F.MUL, expm1(x), alpha)
    chosen = f32(_F.SELECT, f32(_F.LT, x, 0.0), below, x)
    finish(scope, node, chosen if gamma == 1 else f32(_F.MUL, chosen, gamma))


@lowers("Swish")
def lower_swish(scope: LoweringScope, node: Node) -> None:
    """Lower to x * sigmoid(alpha * x)."""
    (x,) = float_operands(scope, node)
    alpha = float(attribute(node, "alpha", 1.0))
    inner = x if alpha == 1 else f32(_F.MUL, x, alpha)
    finish(scope, node, f32(_F.MUL, x, f32(_F.SIGMOID, inner)))


@lowers("Mish")
def lower_mish(scope: LoweringScope, node: Node) -> None:
    """Lower to x * tanh(log(1 + exp(x))).

    With e = exp(x), the tangent is e (e + 2) / (e (e + 2) + 2).
    """
    (x,) = float_operands(scope, node)
    power = f32(_F.EXP, f32(_F.MIN, x, _MISH_IS_LINE))
    part = f32(_F.MUL, power, f32(_F.ADD, power, 2.0))
    finish(scope, node, f32(_F.MUL, x, f32(_F.DIV, part, f32(_F.ADD, part, 2.0))))


@lowers("Shrink")
def lower_shrink(scope: LoweringScope, node: Node) -> None:
    """Lower to numbers far from 0 moved towards it by ``bias``, and 0 for the others."""
    (x,) = float_operands(scope, node)
    far, bias = float(attribute(node, "lambd", 0.5)), float(attribute(node, "bias", 0.0))
    above = f32(_F.SELECT, f32(_F.GT, x, far), f32(_F.SUB, x, bias), 0.0)
    below = f32(_F.ADD, x, bias)
    finish(scope, node, f32(_F.SELECT, f32(_F.LT, x, -far), below, above))


@lowers("Sign")
def lower_sign(scope: LoweringScope, node: Node) -> None:
    """Lower to -1, 0 or 1; NaN for NaN."""
    (x,) = operands_of(scope, node)
    kind = scalar_of(x)
    if kind.is_unsigned:
        finish(scope, node, Call(_F.MIN, (x, number(1, kind))))
        return
    zero, one, less = (number(value, kind) for value in (0, 1, -1))
    below = Call(_F.SELECT, (Call(_F.LT, (x, zero)), less, x))
    finish(scope, node, Call(_F.SELECT, (Call(_F.GT, (x, zero)), one, below)))


@lowers("IsInf")
def lower_is_inf(scope: LoweringScope, node: Node) -> None:
    """Lower to a comparison with the infinities to detect."""
    (x,) = operands_of(scope, node)
    kind = scalar_of(x)
    signs = [
        sign
        for sign, name in ((1, "detect_positive"), (-1, "detect_negative"))
        if attribute(node, name, 1)
    ]
    if not signs:
        finish(scope, node, number(0, Scalar.BOOL))
        return
    operand = x if len(signs) == 1 else Call(_F.ABS, (x,))
    finish(scope, node, Call(_F.EQ, (operand, number(signs[0] * math.inf, kind))))
