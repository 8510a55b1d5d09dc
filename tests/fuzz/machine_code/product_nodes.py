"""Random products, attentions, convolutions, pools and recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.machine_code.graph_maker import F16, F32, GraphMaker, Size, UnfitError, Value

_FLOATS = ("float", "float", "float", "narrow")
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_MASKED = -1e9


def product(graph: GraphMaker) -> None:
    """A product of matrices, with batches that broadcast, or of vectors."""
    left = graph.chosen(*_FLOATS)
    if not left.rank:
        raise UnfitError
    inner, columns = left.shape[-1], graph.size()
    chance = graph.choose.random()
    if chance < 0.12:
        shape = [inner]
    elif chance < 0.55 or left.rank < 3:
        shape = [inner, columns]
    else:
        batch = [
            graph.same(1) if graph.choose.random() < 0.3 else size for size in left.shape[:-2]
        ]  # fmt: skip
        shape = [*batch, inner, columns]
    right = graph.fresh(left.dtype, shape)
    if graph.choose.random() < 0.15:
        graph.add("FusedMatMul", [left, right], domain="com.microsoft", alpha=0.125)
    else:
        graph.add("MatMul", [left, right])


def transposed_product(graph: GraphMaker) -> None:
    """Products whose factors are read by columns."""
    left = graph.chosen("float")
    if left.rank < 2:
        raise UnfitError
    right = graph.fresh(left.dtype, [*left.shape[:-2], graph.size(), left.shape[-1]])
    flags: dict[str, Any] = {"transB": 1, "alpha": graph.choose.choice((1.0, 0.5))}
    graph.add("FusedMatMul", [left, right], domain="com.microsoft", **flags)


def gemm(graph: GraphMaker) -> None:
    """alpha * A * B + beta * C, each transposed or not, and C of fewer sizes."""
    left = graph.chosen(*_FLOATS, rank=2)
    first, second = graph.choose.randrange(2), graph.choose.randrange(2)
    rows, inner = reversed(left.shape) if first else left.shape
    columns = graph.size()
    right = graph.fresh(left.dtype, [columns, inner] if second else [inner, columns])
    given = [left, right]
    if graph.choose.random() < 0.7:
        shapes: tuple[list[Size], ...] = (
            [columns],
            [graph.same(1), columns],
            [rows, graph.same(1)],
            [rows, columns],
            [],
        )
        given.append(graph.fresh(left.dtype, graph.choose.choice(shapes)))
    factors: dict[str, Any] = {
        "alpha": graph.choose.choice((1.0, 0.5)),
        "beta": graph.choose.choice((1.0, 2.0)),
    }
    graph.add("Gemm", given, transA=first, transB=second, **factors)


def attention(graph: GraphMaker) -> None:
    """Two products with a softmax between, as a model's heads have them, with a mask or none."""
    # not where numbers may be infinite: whether a small weight is 0 in 16 bits decides what they give
    dtype = F16 if graph.choose.random() < 0.15 and not graph.has_specials else F32
    batch, heads = graph.size(most=3), graph.size(most=4)
    queries, keys = graph.size(), graph.size()
    width, value_width = (graph.size(is_fixed=True, most=64) for _ in range(2))
    query = graph.fresh(dtype, [batch, heads, queries, width])
    key = graph.fresh(dtype, [batch, heads, keys, width])
    # finite: a weight that is next to nothing may be 0, and 0 times what is infinite is NaN
    value = graph.fresh(dtype, [batch, heads, keys, value_width], least=-2.0, most=2.0)
    turned = graph.add("Transpose", [key], is_exact=True, perm=[0, 1, 3, 2])
    scores = graph.add("MatMul", [query, turned])
    if graph.choose.random() < 0.8:
        scale = graph.constant(np.asarray(0.25, dtype))
        scores = graph.add(graph.choose.choice(("Mul", "Div")), [scores, scale])
    chance = graph.choose.random()
    if chance < 0.3:
        shape = [graph.choose.choice((batch, graph.same(1))), graph.same(1), graph.same(1), keys]
        scores = graph.add("Add", [scores, graph.fresh(dtype, shape)])
    elif chance < 0.6 and dtype == F32:
        seen = graph.fresh(np.bool_, [graph.same(1), graph.same(1), queries, keys])
        hidden = graph.constant(np.asarray(_MASKED, np.float32))
        scores = graph.add("Where", [seen, scores, hidden], is_exact=True)
    weights = graph.add("Softmax", [scores], axis=-1)
    made = graph.add("MatMul", [weights, value])
    if graph.choose.random() < 0.6:
        made = graph.add("Transpose", [made], is_exact=True, perm=[0, 2, 1, 3])


# --- windows --------------------------------------------------------------------------------------


def _window(graph: GraphMaker, count: int) -> dict[str, Any]:
    """Attributes of a window of odd sizes, without its kernel."""
    choose = graph.choose
    found: dict[str, Any] = {
        "strides": [choose.choice((1, 1, 1, 2, 3)) for _ in range(count)],
        "dilations": [choose.choice((1, 1, 1, 2)) for _ in range(count)],
    }
    chance = choose.random()
    if chance < 0.2:
        found["auto_pad"] = choose.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif chance < 0.8:
        found["pads"] = [choose.choice((0, 0, 1, 1, 2)) for _ in range(2 * count)]
    return found


def image(graph: GraphMaker, *, most_channels: int = 40) -> Value:
    """A tensor of channels, its batch or its sizes open at times; one that there is, or a new one."""
    if graph.choose.random() < 0.5:
        try:
            return graph.chosen("float", rank=4)
        except UnfitError:
            pass
    count = graph.choose.choice((1, 2, 2, 2, 2, 3))
    channels = graph.size(is_fixed=True, most=most_channels)
    sides = [graph.size(most=5 if count == 3 else 17) for _ in range(count)]
    return graph.entered(graph.fresh(F32, [graph.size(most=3), channels, *sides]))


def convolution(graph: GraphMaker) -> None:
    """A convolution: of all channels, of groups, or depthwise; an activation behind at times."""
    source = image(graph)
    channels, count = source.fixed(1), source.rank - 2
    if not channels:
        raise UnfitError
    divisors = [each for each in (1, 2, 3, 4, channels) if channels % each == 0]
    groups = graph.choose.choice((1, 1, 1, *divisors, channels))
    out = groups * graph.choose.choice((1, 1, 2, 3, 5, 8, 16))
    if graph.has_specials and groups > 1 and (groups, out) != (channels, channels):
        raise UnfitError  # what is NaN goes over to channels that share a vector with it
    if groups == 1:
        out = graph.size(is_fixed=True, most=48)[0]
    kernel = [graph.choose.choice((1, 1, 2, 3, 3, 3, 4, 5, 7)) for _ in range(count)]
    # no infinite ones: what they give with a padding of zeros, ONNX does not say
    weights = graph.fresh(
        F32,
        [graph.same(each) for each in (out, channels // groups, *kernel)],
        least=-2.0,
        most=2.0,
        is_constant=graph.choose.random() < 0.8,
    )
    given = [source, weights]
    if graph.choose.random() < 0.6:
        given.append(graph.fresh(F32, [graph.same(out)], is_constant=True))
    made = graph.add("Conv", given, group=groups, **_window(graph, count))
    chance = graph.choose.random()
    if chance < 0.3:
        graph.add(graph.choose.choice(("Relu", "Sigmoid", "HardSwish")), [made])
    elif chance < 0.45:
        graph.add("Add", [made, graph.fresh(F32, made.shape)])


def pool(graph: GraphMaker) -> None:
    """The greatest or the mean of windows, or of whole channels."""
    source = image(graph)
    count = source.rank - 2
    if graph.choose.random() < 0.2:
        operator = graph.choose.choice(("GlobalAveragePool", "GlobalMaxPool"))
        graph.add(operator, [source], is_exact=operator == "GlobalMaxPool")
        return
    window = _window(graph, count)
    window["kernel_shape"] = [graph.choose.choice((1, 2, 2, 3, 3, 5)) for _ in range(count)]
    if graph.choose.random() < 0.3:
        window["ceil_mode"] = 1
    if graph.choose.random() < 0.5:
        graph.add("MaxPool", [source], is_exact=True, **window)
    else:
        padded = graph.choose.randrange(2)
        graph.add("AveragePool", [source], count_include_pad=padded, **window)


# --- recurrences ----------------------------------------------------------------------------------


def recurrence(graph: GraphMaker) -> None:
    """A recurrent layer with some of its inputs and attributes."""
    choose = graph.choose
    operator = choose.choice(("RNN", "GRU", "LSTM"))
    direction = choose.choice(("forward", "reverse", "bidirectional"))
    dtype = F16 if choose.random() < 0.15 else F32
    directions = graph.same(2 if direction == "bidirectional" else 1)
    is_batch_first = choose.random() < 0.25
    steps, batch = graph.size(most=17), graph.size(most=9)
    features, hidden = (graph.size(is_fixed=True, most=33) for _ in range(2))
    width = graph.same(_GATES[operator] * hidden[0])
    first = [batch, steps] if is_batch_first else [steps, batch]
    state = [batch, directions, hidden] if is_batch_first else [directions, batch, hidden]
    given: list[Value | None] = [
        graph.fresh(dtype, [*first, features]),
        graph.fresh(dtype, [directions, width, features]),
        graph.fresh(dtype, [directions, width, hidden]),
    ]
    optional: list[Callable[[], Value]] = [
        lambda: graph.fresh(dtype, [directions, graph.same(2 * width[0])]),
        lambda: graph.fresh(np.int32, [batch], least=0, most=min(steps)),
        lambda: graph.fresh(dtype, state),
    ]
    if operator == "LSTM":
        optional.append(lambda: graph.fresh(dtype, state))
        optional.append(lambda: graph.fresh(dtype, [directions, graph.same(3 * hidden[0])]))
    given += [make() if choose.random() < 0.5 else None for make in optional]
    attributes: dict[str, Any] = {"layout": 1} if is_batch_first else {}
    if operator == "GRU":
        attributes["linear_before_reset"] = choose.randrange(2)
    if choose.random() < 0.2:
        attributes["clip"] = 0.5
    graph.add(
        operator,
        given,
        outputs=3 if operator == "LSTM" else 2,
        direction=direction,
        hidden_size=hidden[0],
        **attributes,
    )


PRODUCTS: dict[Callable[[GraphMaker], None], int] = {
    product: 8, transposed_product: 2, gemm: 4, attention: 4, convolution: 8, pool: 4,
    recurrence: 4,
}  # fmt: skip
