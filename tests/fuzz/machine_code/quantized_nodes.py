"""Random nodes of 8-bit codes: quantized tensors, and products of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.machine_code.graph_maker import F32, GraphMaker, Size, UnfitError, Value
from tests.fuzz.machine_code.product_nodes import _window

_MICROSOFT = "com.microsoft"
_CODES = (np.uint8, np.int8)


def _scale(graph: GraphMaker, shape: list[Size] | None = None) -> Value:
    """A scale, or one for each row or column."""
    return graph.fresh(F32, shape or [], least=0.01, most=0.1, is_constant=True)


def _zero(graph: GraphMaker, kind: Any, shape: list[Size] | None = None) -> Value:
    """A zero point, which is 0 for a third."""
    most = 0 if graph.choose.random() < 0.33 else 100
    least = -most if kind is np.int8 else 0
    return graph.fresh(kind, shape or [], least=least, most=most, is_constant=True)


def _codes(graph: GraphMaker, shape: list[Size], **keywords: Any) -> tuple[Value, Any]:
    kind = graph.choose.choice(_CODES)
    return graph.fresh(kind, shape, **keywords), kind


def quantize(graph: GraphMaker) -> None:
    """Codes of numbers, then numbers again at times; with a scale for each channel."""
    value = graph.chosen("float")
    if graph.has_specials:
        raise UnfitError
    kind = graph.choose.choice(_CODES)
    axis, shape = 1, None
    if value.rank > 1 and value.fixed(value.rank - 1) and graph.choose.random() < 0.3:
        axis, shape = value.rank - 1, [value.shape[-1]]
    scale, zero = _scale(graph, shape), _zero(graph, kind, shape)
    made = graph.add("QuantizeLinear", [value, scale, zero], is_exact=True, axis=axis)
    if not made.is_exact:
        made = graph.flipped(made)
    if graph.choose.random() < 0.8:
        graph.add("DequantizeLinear", [made, scale, zero], axis=axis)


def dequantize(graph: GraphMaker) -> None:
    """Numbers of codes."""
    codes, kind = _codes(graph, [graph.size(most=20) for _ in range(graph.choose.randint(1, 4))])
    given = [codes, _scale(graph)]
    if graph.choose.random() < 0.7:
        given.append(_zero(graph, kind))
    graph.add("DequantizeLinear", given)


def dynamic_quantize(graph: GraphMaker) -> None:
    """Codes over the range of what they stand for, then an integer product of them."""
    value = graph.chosen("float", is_exact=True)
    if graph.has_specials or not value.rank or any(each.size == 0 for each in value.arrays):
        raise UnfitError
    codes = graph.add("DynamicQuantizeLinear", [value], outputs=3, is_exact=True)
    scale, zero = graph.values[-2:]
    right, kind = _codes(graph, [value.shape[-1], graph.size()], is_constant=True)
    sums = graph.add("MatMulInteger", [codes, right, zero, _zero(graph, kind)], is_exact=True)
    real = graph.add("Cast", [sums], is_exact=True, to=1)
    factor = graph.add("Mul", [scale, _scale(graph)])
    graph.add("Mul", [real, factor])


def dynamic_quantize_matmul(graph: GraphMaker) -> None:
    """The product of numbers that are quantized first with weights that are codes."""
    value = graph.chosen("float", is_exact=True)
    if graph.has_specials or value.rank < 2 or any(each.size == 0 for each in value.arrays):
        raise UnfitError
    columns = graph.size(is_fixed=True)
    right, kind = _codes(graph, [value.shape[-1], columns], is_constant=True)
    bias = graph.fresh(F32, [columns]) if graph.choose.random() < 0.5 else None
    given = [value, right, _scale(graph), _zero(graph, kind), bias]
    graph.add("DynamicQuantizeMatMul", given, domain=_MICROSOFT)


def integer_product(graph: GraphMaker) -> None:
    """Exact sums of products of codes."""
    batch = [graph.size(most=3) for _ in range(graph.choose.randint(0, 2))]
    rows, inner, columns = (graph.size() for _ in range(3))
    left, first = _codes(graph, [*batch, rows, inner])
    right, second = _codes(graph, [inner, columns])
    given: list[Value | None] = [left, right]
    if graph.choose.random() < 0.7:
        given.append(_zero(graph, first))
        if graph.choose.random() < 0.7:
            given.append(_zero(graph, second, [columns] if graph.choose.random() < 0.3 else None))
    graph.add("MatMulInteger", given, is_exact=True)


def linear_product(graph: GraphMaker) -> None:
    """A quantized product of quantized matrices, in ONNX's form or in onnxruntime's."""
    rows, inner, columns = (graph.size() for _ in range(3))
    left, first = _codes(graph, [rows, inner])
    right, second = _codes(graph, [inner, columns], is_constant=None)
    own = [columns] if len(set(columns)) == 1 and graph.choose.random() < 0.3 else None
    sides = [left, _scale(graph), _zero(graph, first)]
    others = [right, _scale(graph, own), _zero(graph, second, own)]
    over = graph.fresh(F32, [], least=0.5, most=2.0, is_constant=True)
    if graph.choose.random() < 0.5:
        given = [*sides, *others, over, _zero(graph, first)]
        made = graph.add("QLinearMatMul", given, is_exact=True)
    else:
        bias = graph.fresh(np.int32, [columns], least=-1000, most=1000, is_constant=None)
        given = [*sides, *others, bias, over, _zero(graph, first)]
        made = graph.add("QGemm", given, is_exact=True, domain=_MICROSOFT)
    graph.flipped(made)


def product_to_float(graph: GraphMaker) -> None:
    """A product of quantized matrices as numbers."""
    rows, inner, columns = (graph.size() for _ in range(3))
    left, first = _codes(graph, [rows, inner])
    right, second = _codes(graph, [inner, columns])
    given = [left, right, _scale(graph), _scale(graph), _zero(graph, first), _zero(graph, second)]
    graph.add("MatMulIntegerToFloat", given, domain=_MICROSOFT)


def quantized_product(graph: GraphMaker) -> None:
    """Two quantized factors between (De)QuantizeLinear, as models have them that were trained so."""
    rows, inner, columns = graph.size(), graph.size(is_fixed=True), graph.size(is_fixed=True)
    left, first = _codes(graph, [rows, inner])
    right, second = _codes(graph, [inner, columns], is_constant=True)
    one = graph.add("DequantizeLinear", [left, _scale(graph), _zero(graph, first)])
    own = [columns] if graph.choose.random() < 0.4 else None
    other = graph.add(
        "DequantizeLinear", [right, _scale(graph, own), _zero(graph, second, own)], axis=1
    )
    made = graph.add("MatMul", [one, other])
    if graph.choose.random() < 0.5:
        made = graph.add("Add", [made, graph.fresh(F32, [columns])])
    _quantized_end(graph, made)


def quantized_convolution(graph: GraphMaker) -> None:
    """A convolution of codes: exact sums, codes, or between (De)QuantizeLinear."""
    channels, out = graph.size(is_fixed=True, most=24)[0], graph.size(is_fixed=True, most=24)[0]
    groups = channels if graph.choose.random() < 0.25 else 1
    out = channels if groups > 1 else out
    source, first = _codes(
        graph, [graph.size(most=2), graph.same(channels), graph.size(most=9), graph.size(most=9)]
    )
    kernel = [graph.same(graph.choose.choice((1, 1, 2, 3, 3, 5))) for _ in range(2)]
    shape = [graph.same(out), graph.same(channels // groups), *kernel]
    weights, second = _codes(graph, shape, is_constant=True)
    window = {**_window(graph, 2), "group": groups}
    form = graph.choose.randrange(3)
    if form == 0:
        given = [source, weights, _zero(graph, first), _zero(graph, second)]
        graph.add("ConvInteger", given, is_exact=True, **window)
        return
    own = [graph.same(out)] if graph.choose.random() < 0.4 else None
    sides = [source, _scale(graph), _zero(graph, first)]
    others = [weights, _scale(graph, own), _zero(graph, second, own)]
    if form == 1:
        over = graph.fresh(F32, [], least=0.5, most=2.0, is_constant=True)
        bias = graph.fresh(np.int32, [graph.same(out)], least=-999, most=999, is_constant=True)
        given = [*sides, *others, over, _zero(graph, first), bias]
        graph.flipped(graph.add("QLinearConv", given, is_exact=True, **window))
        return
    one = graph.add("DequantizeLinear", sides)
    other = graph.add("DequantizeLinear", others, axis=0)
    given = [one, other]
    if graph.choose.random() < 0.5:
        given.append(graph.fresh(F32, [graph.same(out)], is_constant=True))
    made = graph.add("Conv", given, **window)
    if graph.choose.random() < 0.4:
        made = graph.add("Relu", [made], is_exact=True)
    _quantized_end(graph, made)


def _quantized_end(graph: GraphMaker, made: Value) -> None:
    if graph.choose.random() < 0.7:
        kind = graph.choose.choice(_CODES)
        scale = graph.fresh(F32, [], least=0.5, most=2.0, is_constant=True)
        graph.flipped(graph.add("QuantizeLinear", [made, scale, _zero(graph, kind)], is_exact=True))


def linear_binary(graph: GraphMaker) -> None:
    """A sum or a product of quantized tensors, the second of which may broadcast."""
    shape = [graph.size(most=20) for _ in range(graph.choose.randint(1, 4))]
    kind = graph.choose.choice(_CODES)
    other = [graph.same(1) if graph.choose.random() < 0.3 else size for size in shape]
    sides: list[Value] = []
    for sizes in (shape, other):
        sides += [graph.fresh(kind, sizes), _scale(graph), _zero(graph, kind)]
    operator = graph.choose.choice(("QLinearAdd", "QLinearMul"))
    given = [*sides, _scale(graph), _zero(graph, kind)]
    graph.flipped(graph.add(operator, given, is_exact=True, domain=_MICROSOFT))


QUANTIZED: dict[Callable[[GraphMaker], None], int] = {
    quantize: 3, dequantize: 2, dynamic_quantize: 3, dynamic_quantize_matmul: 2, integer_product: 4,
    linear_product: 3, product_to_float: 2, quantized_product: 4, quantized_convolution: 6,
    linear_binary: 2,
}  # fmt: skip
