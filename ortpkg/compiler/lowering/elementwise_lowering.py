"""Lowers elementwise operators, with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.lowering_registry import MICROSOFT_DOMAIN, lowers
from ortpkg.compiler.lowering.lowering_scope import (
    SCALARS,
    LoweringScope,
    NotLoweredError,
    attribute,
    number,
)
from ortpkg.compiler.tensor_ir.elements import Call, Convert, Element, Function, scalar_of
from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType

_F = Function
_BINARY = {
    "Add": _F.ADD, "Sub": _F.SUB, "Mul": _F.MUL, "Div": _F.DIV, "And": _F.AND, "Or": _F.OR,
    "Xor": _F.XOR, "Equal": _F.EQ, "Less": _F.LT, "LessOrEqual": _F.LE, "Greater": _F.GT,
    "GreaterOrEqual": _F.GE, "BitwiseAnd": _F.AND, "BitwiseOr": _F.OR, "BitwiseXor": _F.XOR,
}  # fmt: skip
_UNARY = {
    "Neg": _F.NEG, "Abs": _F.ABS, "Floor": _F.FLOOR, "Ceil": _F.CEIL, "Round": _F.ROUND,
    "Not": _F.NOT, "BitwiseNot": _F.NOT,
}  # fmt: skip
#: Functions computed in float32 or wider.
_UNARY_FLOAT = {
    "Sqrt": _F.SQRT, "Exp": _F.EXP, "Log": _F.LOG, "Tanh": _F.TANH, "Erf": _F.ERF,
    "Sigmoid": _F.SIGMOID, "Sin": _F.SIN, "Cos": _F.COS,
}  # fmt: skip
_NARROW = frozenset({Scalar.F16, Scalar.BF16})
_FLOAT_ONLY = frozenset({Scalar.F32, Scalar.F16, Scalar.BF16})
#: Constants of GELU: sqrt(1 / 2), sqrt(2 / pi), and the factor of the cube.
_SQRT_HALF, _SQRT_2_BY_PI, _GELU_CUBE = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715


def operands_of(scope: LoweringScope, node: Node) -> list[Element]:
    """Return the inputs, broadcast to the shape of the first output, narrow floats as float32."""
    shape = scope.shape(node.outputs[0])
    return [widened(scope.broadcast(name, shape)) for name in node.inputs if name]


def widened(element: Element) -> Element:
    """Return a narrow float as float32, in which it is computed; other elements unchanged."""
    return Convert(element, Scalar.F32) if scalar_of(element) in _NARROW else element


def finish(scope: LoweringScope, node: Node, value: Element) -> None:
    """Write the node's only output by an expression, converted to the output's type."""
    output = scope.tensor(node.outputs[0])
    scope.map(output, as_kind(value, output.scalar))


def as_kind(value: Element, scalar: Scalar) -> Element:
    """Return the element converted to a scalar type, unchanged if it has it."""
    return value if scalar_of(value) is scalar else Convert(value, scalar)


@lowers(*_BINARY)
def lower_binary(scope: LoweringScope, node: Node) -> None:
    """Lower a function of two operands of one type."""
    left, right = operands_of(scope, node)
    finish(scope, node, Call(_BINARY[node.op_type], (left, right)))


@lowers("Sum", "Max", "Min", "Mean")
def lower_variadic(scope: LoweringScope, node: Node) -> None:
    """Lower a function of any number of operands."""
    function = {"Max": _F.MAX, "Min": _F.MIN}.get(node.op_type, _F.ADD)
    operands = operands_of(scope, node)
    if len(operands) > _MOST_OPERANDS:
        raise NotLoweredError(f"it has {len(operands)} inputs, of at most {_MOST_OPERANDS}")
    total = reduce(lambda left, right: Call(function, (left, right)), operands)
    if node.op_type == "Mean":
        total = Call(_F.DIV, (total, number(len(operands), scalar_of(total))))
    finish(scope, node, total)


_MOST_OPERANDS = 16


@lowers(*_UNARY)
def lower_unary(scope: LoweringScope, node: Node) -> None:
    """Lower a function of one operand of any type."""
    (operand,) = operands_of(scope, node)
    is_whole = node.op_type in {"Floor", "Ceil", "Round"}
    if is_whole and not scalar_of(operand).is_float:
        raise NotLoweredError("it takes floats")
    finish(scope, node, Call(_UNARY[node.op_type], (operand,)))


def float_operands(scope: LoweringScope, node: Node) -> list[Element]:
    """Return the inputs as :func:`operands_of` does; NotLoweredError unless all become float32."""
    operands = operands_of(scope, node)
    if any(scalar_of(operand) is not Scalar.F32 for operand in operands):
        raise NotLoweredError("it is compiled for float32 and narrower floats alone")
    return operands


@lowers(*_UNARY_FLOAT)
def lower_unary_float(scope: LoweringScope, node: Node) -> None:
    """Lower a function of one float, at least in float32."""
    (operand,) = float_operands(scope, node)
    finish(scope, node, Call(_UNARY_FLOAT[node.op_type], (operand,)))


@lowers("Reciprocal")
def lower_reciprocal(scope: LoweringScope, node: Node) -> None:
    """Lower to 1 / x."""
    (operand,) = float_operands(scope, node)
    finish(scope, node, Call(_F.DIV, (number(1, Scalar.F32), operand)))


@lowers("Relu")
def lower_relu(scope: LoweringScope, node: Node) -> None:
    """Lower to max(x, 0), for any type."""
    (operand,) = operands_of(scope, node)
    finish(scope, node, Call(_F.MAX, (operand, number(0, scalar_of(operand)))))


#: Formula of an element and the numbers alpha and beta.
Formula = Callable[[Element, float, float], Element]


def f32(function: Function, *operands: Element | float) -> Element:
    """Return a function of float32 elements and numbers."""
    return Call(
        function,
        tuple(
            number(operand, Scalar.F32) if isinstance(operand, int | float) else operand
            for operand in operands
        ),
    )


def _where_negative(x: Element, then: Element) -> Element:
    return f32(_F.SELECT, f32(_F.LT, x, 0.0), then, x)


def expm1(x: Element) -> Element:
    """Return exp(x) - 1 for x <= 0, within 6 units in the last place.

    With t = tanh(x / 2) it is 2 t / (1 - t), in which nothing cancels.
    """
    tangent = f32(_F.TANH, f32(_F.MUL, x, 0.5))
    return f32(_F.DIV, f32(_F.ADD, tangent, tangent), f32(_F.SUB, 1.0, tangent))


def log1p(x: Element) -> Element:
    """Return log(1 + x) for x >= 0, within 4 units in the last place.

    The factor x / ((1 + x) - 1), which is near 1, corrects the rounding of 1 + x. Source: Kahan.
    """
    whole = f32(_F.ADD, x, 1.0)
    ratio = f32(_F.DIV, x, f32(_F.SUB, whole, 1.0))
    return f32(_F.SELECT, f32(_F.EQ, whole, 1.0), x, f32(_F.MUL, f32(_F.LOG, whole), ratio))


def _hard_sigmoid(x: Element, alpha: float, beta: float) -> Element:
    line = f32(_F.ADD, f32(_F.MUL, x, alpha), beta)
    return f32(_F.MAX, f32(_F.MIN, line, 1.0), 0.0)


def _gelu(x: Element) -> Element:
    half = f32(_F.MUL, x, 0.5)
    return f32(_F.MUL, half, f32(_F.ADD, f32(_F.ERF, f32(_F.MUL, x, _SQRT_HALF)), 1.0))


def gelu_tanh(x: Element) -> Element:
    """Return GELU, approximated with a hyperbolic tangent."""
    cube = f32(_F.MUL, f32(_F.MUL, x, x), x)
    twice = f32(_F.MUL, f32(_F.ADD, x, f32(_F.MUL, cube, _GELU_CUBE)), 2 * _SQRT_2_BY_PI)
    # (1 + tanh(z)) / 2 is the sigmoid of 2 z, which stays accurate where tanh(z) is near -1
    return f32(_F.MUL, x, f32(_F.SIGMOID, twice))


def _softplus(x: Element) -> Element:
    correction = log1p(f32(_F.EXP, f32(_F.NEG, f32(_F.ABS, x))))
    return f32(_F.ADD, f32(_F.MAX, x, 0.0), correction)


#: Operator → formula over x, alpha and beta, and the defaults of alpha and beta.
ACTIVATIONS: dict[str, tuple[Formula, float, float]] = {
    "LeakyRelu": (lambda x, a, _: _where_negative(x, f32(_F.MUL, x, a)), 0.01, 0.0),
    "ThresholdedRelu": (lambda x, a, _: f32(_F.SELECT, f32(_F.GT, x, a), x, 0.0), 1.0, 0.0),
    "Elu": (lambda x, a, _: _where_negative(x, f32(_F.MUL, expm1(x), a)), 1.0, 0.0),
    "HardSigmoid": (_hard_sigmoid, 0.2, 0.5),
    "HardSwish": (lambda x, a, b: f32(_F.MUL, x, _hard_sigmoid(x, a, b)), 1 / 6, 0.5),
    "Softsign": (lambda x, _, __: f32(_F.DIV, x, f32(_F.ADD, f32(_F.ABS, x), 1.0)), 0.0, 0.0),
    "Softplus": (lambda x, _, __: _softplus(x), 0.0, 0.0),
}


@lowers(*ACTIVATIONS)
def lower_activation(scope: LoweringScope, node: Node) -> None:
    """Lower an activation with the attributes alpha and beta."""
    (operand,) = float_operands(scope, node)
    formula, alpha, beta = ACTIVATIONS[node.op_type]
    value = formula(operand, float(attribute(node, "alpha", alpha)),
                    float(attribute(node, "beta", beta)))  # fmt: skip
    finish(scope, node, value)


@lowers("Gelu")
def lower_gelu(scope: LoweringScope, node: Node) -> None:
    """Lower GELU, exact or with tanh."""
    (operand,) = float_operands(scope, node)
    is_tanh = attribute(node, "approximate", "none") == "tanh"
    finish(scope, node, gelu_tanh(operand) if is_tanh else _gelu(operand))


@lowers("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT_DOMAIN)
def lower_microsoft_gelu(scope: LoweringScope, node: Node) -> None:
    """Lower GELU of a sum of the inputs."""
    operands = float_operands(scope, node)
    x = reduce(lambda left, right: f32(_F.ADD, left, right), operands)
    finish(scope, node, gelu_tanh(x) if node.op_type == "FastGelu" else _gelu(x))


@lowers("QuickGelu", domain=MICROSOFT_DOMAIN)
def lower_quick_gelu(scope: LoweringScope, node: Node) -> None:
    """Lower to x * sigmoid(alpha * x)."""
    (operand,) = float_operands(scope, node)
    alpha = float(attribute(node, "alpha", 1.702))
    value = f32(_F.MUL, operand, f32(_F.SIGMOID, f32(_F.MUL, operand, alpha)))
    finish(scope, node, value)


@lowers("PRelu")
def lower_prelu(scope: LoweringScope, node: Node) -> None:
    """Lower to x if it is not negative, else x times the slope."""
    x, slope = float_operands(scope, node)
    finish(scope, node, _where_negative(x, f32(_F.MUL, x, slope)))


@lowers("Clip")
def lower_clip(scope: LoweringScope, node: Node) -> None:
    """Lower to max and min with the bounds, which were attributes before opset 11."""
    shape = scope.shape(node.outputs[0])
    value = widened(scope.broadcast(node.inputs[0], shape))
    kind = scalar_of(value)
    for slot, function in ((1, _F.MAX), (2, _F.MIN)):
        bound: Element | None = None
        if len(node.inputs) > slot and node.inputs[slot]:
            if any(size != 1 for size in scope.shape(node.inputs[slot])):
                raise NotLoweredError("a run alone shows whether its bound is one number")
            bound = widened(scope.broadcast(node.inputs[slot], shape))
        elif (bound_attribute := attribute(node, "min" if slot == 1 else "max", None)) is not None:
            bound = number(float(bound_attribute), kind)
        if bound is not None:
            value = Call(function, (value, bound))
    finish(scope, node, value)


@lowers("Pow")
def lower_pow(scope: LoweringScope, node: Node) -> None:
    """Lower to a power, or to products and roots for a small constant exponent."""
    base, exponent = operands_of(scope, node)
    constant = scope.constant(node.inputs[1])
    if scalar_of(base) is not Scalar.F32:
        raise NotLoweredError("powers are compiled for float32 and narrower floats alone")
    if constant is not None and constant.size == 1:
        product = _power_as_product(base, float(constant.reshape(-1)[0]))
        if product is not None:
            finish(scope, node, product)
            return
    finish(scope, node, Call(_F.POW, (base, as_kind(exponent, Scalar.F32))))


def _power_as_product(base: Element, exponent: float) -> Element | None:
    square = Call(_F.MUL, (base, base))
    return {
        1.0: base,
        2.0: square,
        3.0: Call(_F.MUL, (square, base)),
        4.0: Call(_F.MUL, (square, square)),
        0.5: _root_as_power(base),
        -1.0: f32(_F.DIV, 1.0, base),
    }.get(exponent)


def _root_as_power(base: Element) -> Element:
    """Return the square root as Pow defines it: infinity for -infinity, 0 for -0."""
    is_least = f32(_F.EQ, base, -math.inf)
    return f32(_F.SELECT, is_least, math.inf, f32(_F.ADD, Call(_F.SQRT, (base,)), 0.0))


@lowers("Mod")
def lower_mod(scope: LoweringScope, node: Node) -> None:
    """Lower to integer remainders with the divisor's sign; with ``fmod``, the dividend's."""
    left, right = operands_of(scope, node)
    kind = scalar_of(left)
    if kind.is_float:
        raise NotLoweredError("remainders of floats are not compiled")
    rest = Call(_F.REM, (left, right))
    if attribute(node, "fmod", 0) or kind.is_unsigned:
        finish(scope, node, rest)
        return
    zero = number(0, kind)
    differs = Call(_F.LT, (Call(_F.XOR, (rest, right)), zero))
    is_wrong = Call(_F.AND, (Call(_F.NE, (rest, zero)), differs))
    finish(scope, node, Call(_F.SELECT, (is_wrong, Call(_F.ADD, (rest, right)), rest)))


@lowers("Where")
def lower_where(scope: LoweringScope, node: Node) -> None:
    """Lower to a selection by a condition."""
    condition, then, otherwise = operands_of(scope, node)
    finish(scope, node, Call(_F.SELECT, (condition, then, otherwise)))


@lowers("Cast", "CastLike")
def lower_cast(scope: LoweringScope, node: Node) -> None:
    """Lower a conversion to another type."""
    shape = scope.shape(node.outputs[0])
    target = scope.scalar(node.outputs[0])
    element = scope.broadcast(node.inputs[0], shape)
    if ElementType(int(attribute(node, "to", 0) or 0)) not in SCALARS and node.op_type == "Cast":
        raise NotLoweredError("nothing is compiled for the kind it casts to")
    if scalar_of(element).is_float and target in _WHOLE:
        finish(scope, node, as_kind(_whole(element, target), target))
        return
    finish(scope, node, as_kind(element, target))


_WHOLE = frozenset(Scalar) - {Scalar.F64, Scalar.F32, Scalar.F16, Scalar.BF16, Scalar.BOOL}


def _whole(element: Element, target: Scalar) -> Element:
    """Convert a float to a 32- or 64-bit integer whose low bits are the result of Cast.

    ONNX does not define the result out of range. On every CPU it is the one of numpy and
    onnxruntime on x86: the lowest integer of 32 bits, or of 64 bits for 64-bit targets.
    """
    value = element if scalar_of(element) is Scalar.F64 else widened(element)
    kind, wide = scalar_of(value), Scalar.I64 if target.nbytes == 8 else Scalar.I32
    lowest = number(-(1 << 8 * wide.nbytes - 1), wide)
    beyond = number(float(1 << 8 * wide.nbytes - 1), kind)

    def converted(part: Element) -> Element:
        fits = Call(_F.LT, (part, beyond))  # Convert saturates at the lowest integer; NaN becomes 0
        return Call(_F.SELECT, (fits, Convert(part, wide), lowest))

    whole = converted(value)
    if target not in (Scalar.U64, Scalar.U32):
        return whole
    upper = converted(Call(_F.SUB, (value, beyond)))
    flipped = Call(_F.XOR, (upper, lowest))
    return Call(_F.SELECT, (Call(_F.GE, (value, beyond)), flipped, whole))


@lowers("Identity", "Dropout")
def lower_identity(scope: LoweringScope, node: Node) -> None:
    """Lower to an alias; Dropout only as in inference, without the mask."""
    if len([name for name in node.outputs if name]) > 1 or (
        node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2]
    ):
        raise NotLoweredError("it may drop elements at random")
    scope.alias(scope.tensor(node.outputs[0]), scope.tensor(node.inputs[0]))


@lowers("IsNaN")
def lower_is_nan(scope: LoweringScope, node: Node) -> None:
    """Lower to x != x, which only NaN satisfies."""
    (operand,) = operands_of(scope, node)
    finish(scope, node, Call(_F.NE, (operand, operand)))
