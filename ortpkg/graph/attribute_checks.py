"""Checks of attributes that no provider can compute with, with one message for all providers.

Three functions differ in the knowledge that they need:

- :func:`attribute_problems` looks at the attributes alone. The reader calls it for every node, so
  later stages never meet a group of 0, a negative pad or an auto_pad that does not exist.
- :func:`verify_fits` checks attributes against shapes. A session calls it once types are inferred,
  before any provider claims nodes.
- :func:`open_question` describes a question that neither could decide, since a shape is unknown
  before a run. The embedded kernels check it then. A provider that would not check leaves such a
  node, with that text as its reason in ``get_capability``.

The operators here are those that more than one provider computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.axis_checks import axis_problem
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.needed_operators import MICROSOFT_DOMAIN
from ortpkg.graph.topology import all_graphs
from ortpkg.graph.types import Shape, TensorType

#: Operators with sliding windows → the slot of their weight; None for pools.
_WINDOWED: Mapping[tuple[str, str], int | None] = {
    (ONNX_DOMAIN, "AveragePool"): None,
    (ONNX_DOMAIN, "Conv"): 1,
    (ONNX_DOMAIN, "ConvInteger"): 1,
    (ONNX_DOMAIN, "ConvTranspose"): 1,
    (ONNX_DOMAIN, "DeformConv"): 1,
    (ONNX_DOMAIN, "LpPool"): None,
    (ONNX_DOMAIN, "MaxPool"): None,
    (ONNX_DOMAIN, "MaxUnpool"): None,
    (ONNX_DOMAIN, "QLinearConv"): 3,
    (MICROSOFT_DOMAIN, "FusedConv"): 1,
    (MICROSOFT_DOMAIN, "NhwcMaxPool"): None,
    (MICROSOFT_DOMAIN, "QLinearAveragePool"): None,
    (MICROSOFT_DOMAIN, "QLinearConv"): 3,
}
#: Attributes of these with numbers for each spatial axis → how many, and the least.
_WINDOW_LISTS: Mapping[str, tuple[int, int]] = {
    "kernel_shape": (1, 1),
    "strides": (1, 1),
    "dilations": (1, 1),
    "output_padding": (1, 0),
    "pads": (2, 0),
}
_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_WINDOW_VALUES: Mapping[str, tuple[str | int, ...]] = {
    "auto_pad": _AUTO_PADS,
    "storage_order": (0, 1),
}
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
_DIRECTIONS = ("forward", "reverse", "bidirectional")
_HEADS: Mapping[str, int] = {"num_heads": 1, "kv_num_heads": 1, "q_num_heads": 1}
_RECURRENT_LEAST: Mapping[str, int] = {"hidden_size": 1}
#: Operator → inputs that hold one number, in a tensor of any rank; others are broadcast or cut.
_ONE_NUMBER: Mapping[str, Mapping[int, str]] = {
    "Clip": {1: "min", 2: "max"},
    "CumSum": {1: "axis"},
    "Dropout": {1: "ratio", 2: "training_mode"},
    "OneHot": {1: "depth"},
    "Range": {0: "start", 1: "limit", 2: "delta"},
    "TopK": {1: "k"},
    "Trilu": {1: "k"},
}
_REDUCTIONS = ("none", "add", "mul", "max", "min")
_LOSSES: Mapping[str, tuple[str | int, ...]] = {"reduction": ("none", "mean", "sum")}
_EXTREMES: Mapping[str, tuple[str | int, ...]] = {"select_last_index": (0, 1)}
#: Numbers that ONNX gives to float32, float16, float64 and bfloat16.
_FLOAT_KINDS = (1, 10, 11, 16)
_COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel_for_nn", "tf_crop_and_resize",
)  # fmt: skip

#: Operator → attribute → the least that it may be; of lists, each number.
_LEAST: Mapping[tuple[str, str], Mapping[str, int]] = {
    **{
        operator: {"group": 1, "p": 1, "output_shape": 1, "offset_group": 1}
        | {name: least for name, (_, least) in _WINDOW_LISTS.items()}
        for operator in _WINDOWED
    },
    (ONNX_DOMAIN, "Attention"): _HEADS,
    (ONNX_DOMAIN, "Col2Im"): {"dilations": 1, "pads": 0, "strides": 1},
    (ONNX_DOMAIN, "DepthToSpace"): {"blocksize": 1},
    (ONNX_DOMAIN, "GRU"): _RECURRENT_LEAST,
    (ONNX_DOMAIN, "GlobalLpPool"): {"p": 1},
    (ONNX_DOMAIN, "GroupNormalization"): {"num_groups": 1},
    (ONNX_DOMAIN, "LRN"): {"size": 1},
    (ONNX_DOMAIN, "LSTM"): _RECURRENT_LEAST,
    (ONNX_DOMAIN, "RNN"): _RECURRENT_LEAST,
    (ONNX_DOMAIN, "RoiAlign"): {"output_height": 0, "output_width": 0, "sampling_ratio": 0},
    (ONNX_DOMAIN, "SpaceToDepth"): {"blocksize": 1},
    (MICROSOFT_DOMAIN, "Attention"): _HEADS,
    (MICROSOFT_DOMAIN, "GroupNorm"): {"groups": 1},
    (MICROSOFT_DOMAIN, "GroupQueryAttention"): _HEADS,
    (MICROSOFT_DOMAIN, "MultiHeadAttention"): _HEADS,
}
#: Operator → attribute → all that it may be.
_VALUES: Mapping[tuple[str, str], Mapping[str, tuple[str | int, ...]]] = {
    **dict.fromkeys(_WINDOWED, _WINDOW_VALUES),
    (ONNX_DOMAIN, "ArgMax"): _EXTREMES,
    (ONNX_DOMAIN, "ArgMin"): _EXTREMES,
    (ONNX_DOMAIN, "Attention"): {"softmax_precision": _FLOAT_KINDS},
    (ONNX_DOMAIN, "BitShift"): {"direction": ("LEFT", "RIGHT")},
    (ONNX_DOMAIN, "DepthToSpace"): {"mode": ("DCR", "CRD")},
    (ONNX_DOMAIN, "GRU"): {"direction": _DIRECTIONS, "layout": (0, 1)},
    (ONNX_DOMAIN, "Gelu"): {"approximate": ("none", "tanh")},
    (ONNX_DOMAIN, "GridSample"): {
        "mode": ("linear", "nearest", "cubic", "bilinear", "bicubic"),
        "padding_mode": ("zeros", "border", "reflection"),
    },
    (ONNX_DOMAIN, "LSTM"): {"direction": _DIRECTIONS, "layout": (0, 1)},
    (ONNX_DOMAIN, "LpNormalization"): {"p": (1, 2)},
    (ONNX_DOMAIN, "NegativeLogLikelihoodLoss"): _LOSSES,
    (ONNX_DOMAIN, "Pad"): {"mode": ("constant", "reflect", "edge", "wrap")},
    (ONNX_DOMAIN, "RNN"): {"direction": _DIRECTIONS, "layout": (0, 1)},
    (ONNX_DOMAIN, "Resize"): {
        "coordinate_transformation_mode": _COORDINATES,
        "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
        "mode": ("nearest", "linear", "cubic"),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    },
    (ONNX_DOMAIN, "RoiAlign"): {
        "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
        "mode": ("avg", "max"),
    },
    (ONNX_DOMAIN, "ScatterElements"): {"reduction": _REDUCTIONS},
    (ONNX_DOMAIN, "ScatterND"): {"reduction": _REDUCTIONS},
    (ONNX_DOMAIN, "SoftmaxCrossEntropyLoss"): _LOSSES,
    (ONNX_DOMAIN, "SpaceToDepth"): {"mode": ("DCR", "CRD")},
}
#: Numbers of ``_LEAST`` beyond it are cut to 32 bits by providers: a stride of 2^32 to 0.
_MOST_NUMBER = (1 << 31) - 1
_STATE_WEIGHT = 2
#: Inputs of Resize with a number for each axis, since opset 11.
_RESIZE_SLOTS = {2: "scales", 3: "sizes"}
_RESIZE_WITH_SIZES = 11
_DROPOUT_WITH_INPUTS = 12
_RATIO = 1
_PER_CHANNEL = range(1, 5)


def attribute_problems(node: Node) -> Iterator[str]:
    """Yield the problems of a node's attributes, independent of its inputs.

    Each is a sentence without its subject, the node. Attributes of another kind than the operator
    defines are not checked.
    """
    operator = (node.domain, node.op_type)
    for name, lower_bound in _LEAST.get(operator, {}).items():
        if any(number < lower_bound for number in _integers(node, name)):
            yield (
                f"has the attribute {quoted(name)} of {node.attribute(name)}; numbers of"
                f" {lower_bound} or more were expected"
            )
        if any(number > _MOST_NUMBER for number in _integers(node, name)):
            yield (
                f"has the attribute {quoted(name)} of {node.attribute(name)}; numbers up to"
                f" {_MOST_NUMBER} were expected"
            )
    for name, values in _VALUES.get(operator, {}).items():
        value = node.attribute(name)
        if value is not None and type(value) is type(values[0]) and value not in values:
            yield (
                f"has the attribute {quoted(name)} of"
                f" {quoted(value) if isinstance(value, str) else value}; one of"
                f" {', '.join(map(str, values))} was expected"
            )
    if operator in _WINDOWED:
        yield from _misfit_lists(node, _window_rank(node))
    if node.op_type in _RECURRENT and not (clip := _number(node, "clip", 0.0)) >= 0:
        yield f"has the attribute 'clip' of {clip:g}; a number of 0 or more was expected"
    if node.op_type == "RoiAlign" and not 0 < (scale := _number(node, "spatial_scale", 1.0)) < inf:
        yield f"has the attribute 'spatial_scale' of {scale:g}; a number above 0 was expected"
    if operator == (ONNX_DOMAIN, "TfIdfVectorizer"):
        yield from _pool_misfits(node)
    if operator == (ONNX_DOMAIN, "Transpose"):
        order = _integers(node, "perm")
        if sorted(order) != list(range(len(order))):
            yield f"has the attribute 'perm' of {order}; each axis was expected once"


def _pool_misfits(node: Node) -> Iterator[str]:
    """Yield the problems of the lists that describe the n-grams of TfIdfVectorizer."""
    pool = _integers(node, "pool_int64s") or _list(node, "pool_strings", "STRINGS")
    starts, columns = (_integers(node, name) for name in ("ngram_counts", "ngram_indexes"))
    ends = (*starts[1:], len(pool))
    if any(not 0 <= start <= end for start, end in zip(starts, ends, strict=False)):
        yield (
            f"has the attribute 'ngram_counts' of {starts}; places in the pool of {len(pool)}"
            " words in rising order were expected"
        )
        return
    sizes = zip(starts, ends, range(1, len(starts) + 1), strict=False)
    count = sum((end - start) // size for start, end, size in sizes)
    lists = {"ngram_indexes": len(columns)}
    if "weights" in node.attributes:
        lists["weights"] = len(_list(node, "weights", "FLOATS"))
    for name, length in lists.items():
        if length < count:
            yield f"has the attribute '{name}' of {length} numbers; {count} were expected"
    if any(column < 0 for column in columns):
        yield "has a number below 0 in the attribute 'ngram_indexes'; columns were expected"


def fit_problem(graph: Graph, node: Node) -> str:
    """Return the problem of a node's attributes with the shapes of its inputs, as far as known.

    It is a sentence without its subject, the node; "" if there is no problem.
    """
    if (node.domain, node.op_type) in _WINDOWED:
        return next(_window_misfits(graph, node), "")
    if node.domain != ONNX_DOMAIN:
        return ""
    if problem := _several_numbers(graph, node):
        return problem
    if node.op_type == "Resize" and node.since_version >= _RESIZE_WITH_SIZES:
        return _resize_misfit(graph, node)
    if node.op_type == "BatchNormalization" and node.attribute("spatial", 1):
        return _channel_misfit(graph, node)
    if node.op_type == "Dropout" and node.since_version >= _DROPOUT_WITH_INPUTS:
        return _ratio_misfit(graph, node)
    if node.op_type in _RECURRENT:
        state, sizes = _shape(graph, node, _STATE_WEIGHT), _integers(node, "hidden_size")
        if state and sizes and isinstance(state[-1], int) and state[-1] != sizes[0]:
            return (
                f"has the attribute 'hidden_size' of {sizes[0]}, which does not fit its weight R of"
                f" shape {_text(state)}"
            )
    return ""


def verify_fits(graph: Graph) -> None:
    """Raise InvalidGraphError for a node whose attributes do not fit the shapes of its inputs.

    Sub-graphs are included. Kernels check in a run what is unknown before it.
    """
    for current in all_graphs(graph):
        for node in current.nodes:
            problem = fit_problem(current, node) or axis_problem(current, node)
            if problem:
                raise InvalidGraphError(f"{node} {problem}", node_name=node.name)


def open_question(graph: Graph, node: Node) -> str:
    """Return the reason that only a run shows if a node's attributes fit its inputs; "" for none.

    It is a clause that a provider may give as its reason to leave the node.
    """
    operator = (node.domain, node.op_type)
    if operator not in _WINDOWED:
        return ""
    if _window_rank(node) is not None and _shape(graph, node, 0) is None:
        return "only a run shows how many axes its windows have"
    slot = _WINDOWED[operator]
    weight = None if slot is None else _shape(graph, node, slot)
    is_known = weight is not None and all(isinstance(size, int) for size in weight[2:])
    if slot is not None and _integers(node, "kernel_shape") and not is_known:
        return "only a run shows whether its weight has the size that kernel_shape says"
    return ""


# --- windows --------------------------------------------------------------------------------------


def _window_rank(node: Node) -> int | None:
    """Return the number of spatial axes by the first list that exists; None without any."""
    for name, (per_axis, _) in _WINDOW_LISTS.items():
        numbers = _integers(node, name)
        if numbers:
            return len(numbers) // per_axis
    return None


def _misfit_lists(node: Node, rank: int | None) -> Iterator[str]:
    for name, (per_axis, _) in _WINDOW_LISTS.items():
        numbers = _integers(node, name)
        if rank is not None and numbers and len(numbers) != per_axis * rank:
            yield (
                f"has the attribute {quoted(name)} of {numbers}; {per_axis * rank} numbers were"
                f" expected for windows over {rank} axes"
            )


def _window_misfits(graph: Graph, node: Node) -> Iterator[str]:
    data = _shape(graph, node, 0)
    if data is not None:
        yield from _misfit_lists(node, len(data) - 2)
    slot = _WINDOWED[node.domain, node.op_type]
    weight = None if slot is None else _shape(graph, node, slot)
    if not weight or len(weight) < 3:
        return
    kernel, sizes = _integers(node, "kernel_shape"), weight[2:]
    if kernel and (
        len(kernel) != len(sizes)
        or any(
            isinstance(size, int) and size != stated_size
            for size, stated_size in zip(sizes, kernel, strict=True)
        )
    ):
        yield (
            f"has the attribute 'kernel_shape' of {kernel}, which does not fit its weight of shape"
            f" {_text(weight)}"
        )
    group = _integers(node, "group")
    if group and isinstance(weight[0], int) and weight[0] % group[0]:
        yield (
            f"has the attribute 'group' of {group[0]}, which does not divide the first axis of its"
            f" weight of shape {_text(weight)}"
        )


def _resize_misfit(graph: Graph, node: Node) -> str:
    data, axes = _shape(graph, node, 0), _integers(node, "axes")
    expected = len(axes) or (None if data is None else len(data))
    for slot, name in _RESIZE_SLOTS.items():
        shape = _shape(graph, node, slot)
        count = shape[0] if shape else None
        # No numbers at all mean that the input is left out.
        if isinstance(count, int) and expected is not None and count not in (0, expected):
            return f"takes {count} {name}; {expected} were expected, one for each axis"
    return ""


def _several_numbers(graph: Graph, node: Node) -> str:
    """Return the problem of an input that has to contain one number."""
    for slot, name in _ONE_NUMBER.get(node.op_type, {}).items():
        shape = _shape(graph, node, slot)
        if shape and any(isinstance(size, int) and size != 1 for size in shape):
            return f"takes its {name} of shape {_text(shape)}; one number was expected"
    return ""


def _channel_misfit(graph: Graph, node: Node) -> str:
    """Return the problem of parameters that have to contain a number for each channel."""
    data = _shape(graph, node, 0)
    channels = {} if not data or len(data) < 2 else {"its channels": data[1]}
    for slot in _PER_CHANNEL:
        shape = _shape(graph, node, slot)
        if shape is not None:
            channels[f"its input {slot} of shape {_text(shape)}"] = (
                shape[0] if len(shape) == 1 else -1
            )
    counts = {name: size for name, size in channels.items() if isinstance(size, int)}
    first = next(iter(counts.values()), 0)
    for name, size in counts.items():
        if size != first:
            return f"takes {name}; a number for each of {first} channels was expected"
    return ""


def _ratio_misfit(graph: Graph, node: Node) -> str:
    """Return the problem of a constant ratio, even though inference does not use it."""
    ratio = graph.constant(node.inputs[_RATIO]) if len(node.inputs) > _RATIO else None
    if ratio is None or ratio.shape or 0 <= (number := float(ratio.numpy())) < 1:
        return ""
    return f"has a ratio of {number:g}; a number from 0 to below 1 was expected"


# --- what a node says -----------------------------------------------------------------------------


def _number(node: Node, name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    return default if attribute is None or attribute.kind != "FLOAT" else attribute.value


def _list(node: Node, name: str, kind: str) -> Sequence[Any]:
    attribute = node.attributes.get(name)
    return () if attribute is None or attribute.kind != kind else attribute.value


def _integers(node: Node, name: str) -> tuple[int, ...]:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.kind not in ("INT", "INTS"):
        return ()
    return (attribute.value,) if attribute.kind == "INT" else tuple(attribute.value)


def _shape(graph: Graph, node: Node, slot: int) -> Shape | None:
    value = node.inputs[slot] if slot < len(node.inputs) else ""
    value_type = graph.type_of(value) if value else None
    return value_type.shape if isinstance(value_type, TensorType) else None


def _text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"
