"""Random nodes that compute element by element, or along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.machine_code.graph_maker import F32, GraphMaker, Size, UnfitError, Value

_UNARY = (
    "Exp", "Log", "Tanh", "Erf", "Sigmoid", "Sin", "Cos", "Sqrt", "Reciprocal", "LeakyRelu", "Elu",
    "HardSigmoid", "HardSwish", "Softsign", "Softplus", "Gelu",
)  # fmt: skip
_EXACT_UNARY = ("Neg", "Abs", "Relu", "Floor", "Ceil", "Round", "IsNaN", "Identity",
                "ThresholdedRelu")  # fmt: skip
_BINARY = ("Add", "Sub", "Mul", "Div")
_COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceProd", "ReduceMax", "ReduceMin",
)  # fmt: skip
_FLOATS = ("float", "float", "narrow")
_CASTS = (np.float32, np.float16, np.int64, np.int32, np.uint8, np.int8, np.bool_, np.float64)


def partner(graph: GraphMaker, value: Value) -> Value:
    """A value that broadcasts with another one: of its sizes, or some of them 1, or fewer axes."""
    alike = [
        each
        for each in graph.values
        if each.dtype == value.dtype and each.shape == value.shape
    ]  # fmt: skip
    if alike and graph.choose.random() < 0.4:
        return graph.choose.choice(alike)
    first = graph.choose.randrange(value.rank + 1) if graph.choose.random() < 0.4 else 0
    shape: list[Size] = [
        graph.same(1) if graph.choose.random() < 0.25 else size for size in value.shape[first:]
    ]
    return graph.fresh(value.dtype, shape)


def unary(graph: GraphMaker) -> None:
    """A function of floats."""
    operator = graph.choose.choice(_UNARY)
    attributes: dict[str, Any] = {}
    if operator == "Gelu":
        attributes["approximate"] = graph.choose.choice(("none", "tanh"))
    elif operator in {"LeakyRelu", "Elu"}:
        attributes["alpha"] = graph.choose.choice((0.01, 0.5, 1.0))
    graph.add(operator, [graph.chosen(*_FLOATS)], **attributes)


def exact_unary(graph: GraphMaker) -> None:
    """A function whose result no rounding changes; steps take exact values alone."""
    operator = graph.choose.choice(_EXACT_UNARY)
    kinds = ("float", "integer") if operator in {"Neg", "Abs", "Relu", "Identity"} else _FLOATS
    is_step = operator in {"Floor", "Ceil", "Round", "ThresholdedRelu", "IsNaN"}
    graph.add(operator, [graph.chosen(*kinds, is_exact=is_step)], is_exact=True)


def binary(graph: GraphMaker) -> None:
    """Arithmetic of two values, or of several."""
    value = graph.chosen(*_FLOATS, "integer", "double")
    other = partner(graph, value)
    if value.dtype.kind in "iu":
        operator = graph.choose.choice(("Add", "Sub", "Mul", "Max", "Min"))
        graph.add(operator, _turned(graph, value, other), is_exact=True)
        return
    chance = graph.choose.random()
    if chance < 0.2:
        graph.add(graph.choose.choice(("Max", "Min")), _turned(graph, value, other), is_exact=True)
    elif chance < 0.3:
        operator = graph.choose.choice(("Sum", "Mean"))
        graph.add(operator, [value, other, partner(graph, value)])
    elif chance < 0.36:
        graph.add("PRelu", [value, other])
    else:
        graph.add(graph.choose.choice(_BINARY), _turned(graph, value, other))


def _turned(graph: GraphMaker, left: Value, right: Value) -> list[Value]:
    return [left, right] if graph.choose.random() < 0.5 else [right, left]


def division_of_integers(graph: GraphMaker) -> None:
    """Quotients and remainders of integers by what is not 0, of either sign."""
    value = graph.chosen("integer")
    divisor = graph.fresh(value.dtype, value.shape, least=1, most=40)
    if graph.choose.random() < 0.5:
        divisor = graph.add("Neg", [divisor], is_exact=True)
    if graph.choose.random() < 0.5:
        graph.add("Div", [value, divisor], is_exact=True)
    else:
        fmod = graph.choose.randrange(2)
        graph.add("Mod", [value, divisor], is_exact=True, fmod=fmod)


def comparison(graph: GraphMaker) -> None:
    """A comparison, and at times a choice by it."""
    value = graph.chosen("float", "integer", "narrow", is_exact=True)
    other = partner(graph, value)
    if not other.is_exact:
        raise UnfitError
    condition = graph.add(graph.choose.choice(_COMPARISONS), [value, other], is_exact=True)
    if graph.choose.random() < 0.5:
        then = graph.chosen("float")
        graph.add("Where", [condition, then, partner(graph, then)], is_exact=True)


def logic(graph: GraphMaker) -> None:
    """Operations of bools or of bits."""
    value = graph.chosen("bool", "integer", "code")
    if value.dtype == np.bool_:
        operator = graph.choose.choice(("And", "Or", "Xor", "Not", "Equal"))
    else:
        operator = graph.choose.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    operands = [value] if operator.endswith("Not") else [value, partner(graph, value)]
    graph.add(operator, operands, is_exact=all(each.is_exact for each in operands))


def clip(graph: GraphMaker) -> None:
    """Between two bounds, either of which may be left out."""
    value = graph.chosen("float", "narrow", "integer")
    bounds = [
        graph.constant(np.asarray(each).astype(value.dtype))
        if graph.choose.random() < 0.7
        else None
        for each in (-1, 1)
    ]
    graph.add("Clip", [value, *bounds], is_exact=True)


def power(graph: GraphMaker) -> None:
    """A power by a known exponent, or by any one of what is positive."""
    value = graph.chosen("float")
    if graph.choose.random() < 0.7:
        exponent = graph.choose.choice((1.0, 2.0, 3.0, 4.0, 0.5, -1.0, 1.5))
        graph.add("Pow", [value, graph.constant(np.asarray(exponent, np.float32))])
    else:
        graph.add("Pow", [graph.add("Abs", [value], is_exact=True), partner(graph, value)])


def cast(graph: GraphMaker) -> None:
    """Another kind of number; floats that are rounded become no integers."""
    target = np.dtype(graph.choose.choice(_CASTS))
    value = graph.chosen("float", "narrow", "integer", "bool", "code")
    if value.dtype.kind not in "iub" and target.kind in "iub":
        if not value.is_exact or graph.has_specials:
            raise UnfitError
        largest = np.abs(np.concatenate([each.reshape(-1) for each in value.arrays]))
        if target.kind == "u" or largest.astype(np.float64).max(initial=0) > 100:
            raise UnfitError
    number = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9,
              "float16": 10, "float64": 11}[target.name]  # fmt: skip
    graph.add("Cast", [value], is_exact=True, to=number)


def gelu_of_microsoft(graph: GraphMaker) -> None:
    """One of the forms of GELU that onnxruntime adds."""
    value = graph.chosen("float")
    if not value.rank:
        raise UnfitError
    operator = graph.choose.choice(("BiasGelu", "FastGelu", "Gelu", "QuickGelu"))
    bias = [graph.fresh(F32, value.shape[-1:])] if operator in {"BiasGelu", "FastGelu"} else []
    graph.add(operator, [value, *bias], domain="com.microsoft")


# --- along axes -----------------------------------------------------------------------------------


def softmax(graph: GraphMaker) -> None:
    """A softmax along any axis, or its logarithm."""
    value = graph.chosen(*_FLOATS)
    if not value.rank:
        raise UnfitError
    axis = graph.choose.randrange(-value.rank, value.rank)
    graph.add(graph.choose.choice(("Softmax", "LogSoftmax")), [value], axis=axis)


def normalization(graph: GraphMaker) -> None:
    """Rows or the last axes normalized, with a scale and a bias."""
    value = graph.chosen(*_FLOATS)
    if not value.rank:
        raise UnfitError
    axis = graph.choose.randrange(-min(value.rank, 2), 0)
    shape = value.shape[axis:]
    scale, bias = graph.fresh(value.dtype, shape), graph.fresh(value.dtype, shape)
    chance = graph.choose.random()
    if chance < 0.5:
        given = [value, scale, bias] if graph.choose.random() < 0.7 else [value, scale]
        graph.add("LayerNormalization", given, axis=axis, epsilon=1e-5)
    elif chance < 0.7:
        graph.add("SimplifiedLayerNormalization", [value, scale], axis=axis, epsilon=1e-5)
    else:
        rows = graph.chosen(*_FLOATS, rank=3)
        skip = graph.fresh(rows.dtype, rows.shape)
        width = graph.fresh(rows.dtype, rows.shape[-1:])
        name = graph.choose.choice(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"))
        graph.add(name, [rows, skip, width], domain="com.microsoft", epsilon=1e-5)


def batch_normalization(graph: GraphMaker) -> None:
    """Channels normalized by known statistics."""
    value = graph.chosen("float", "narrow", rank=4)
    channels = value.shape[1:2]
    given = [graph.fresh(value.dtype, channels, is_constant=True) for _ in range(3)]
    variance = graph.fresh(value.dtype, channels, least=0.5, most=2.0, is_constant=True)
    graph.add("BatchNormalization", [value, *given, variance])


def reduction(graph: GraphMaker) -> None:
    """Axes, some or all of them, folded to one element."""
    operator = graph.choose.choice(_REDUCTIONS)
    is_order = operator in {"ReduceMax", "ReduceMin"}
    value = graph.chosen(*_FLOATS, *(("integer", "code") if is_order else ("integer",)))
    if value.dtype.kind in "iu" and operator not in {"ReduceSum", "ReduceMax", "ReduceMin"}:
        raise UnfitError
    keepdims = graph.choose.randrange(2)
    count = graph.choose.randint(0, value.rank)
    axes = graph.choose.sample(range(value.rank), count)
    given = [value]
    if axes or graph.choose.random() < 0.5:
        axes = [each - value.rank if graph.choose.random() < 0.3 else each for each in axes]
        given.append(graph.constant(np.array(axes, np.int64)))
    is_exact = is_order or value.dtype.kind in "iu"
    graph.add(operator, given, is_exact=is_exact, keepdims=keepdims)


ELEMENTWISE: dict[Callable[[GraphMaker], None], int] = {
    unary: 8, exact_unary: 4, binary: 10, division_of_integers: 2, comparison: 3, logic: 2, clip: 2,
    power: 2, cast: 3, gelu_of_microsoft: 2, softmax: 4, normalization: 4, batch_normalization: 2,
    reduction: 6,
}  # fmt: skip
