"""Keeps onnx's shape inference from listing the elements of huge values: 10^12 of them take all memory there is.

Where inference follows data, it lists each element of a one-dimensional input of some operators, at 100 bytes each,
whatever its type. A declared or computed size is the model's own word, so first a *plain* inference, which lists
nothing, finds all sizes; then the nodes that would list too much are hidden from the one that follows data.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx.shape_inference

from ortpkg.graph.inference_guards import hide
from ortpkg.graph.limits import ModelLimits
from ortpkg.graph.proto_walk import walk_graphs

#: Operators that list the elements of their inputs, by themselves or in the function that they stand for.
LISTS_ELEMENTS = frozenset({
    "Add", "Cast", "Concat", "Gather", "Mul", "Size", "Slice", "Squeeze", "Sub", "Unsqueeze",
    "GreaterOrEqual", "GroupNormalization", "LessOrEqual", "MeanVarianceNormalization",
})  # fmt: skip
#: Operators that list the dimensions that they make, one for each element of their second input (Expand of opset 8).
LISTS_DIMENSIONS = frozenset({"Expand"})
#: Operators whose output has a dimension for each element of the input in this slot.
_SHAPE_SLOTS = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}
_OPERATORS = LISTS_ELEMENTS | LISTS_DIMENSIONS

_MOST_LISTED = 4096
_MOST_DIMENSIONS = 64
_MOST_ROUNDS_FOR_RANKS = 4

#: Value name → its type; None where graphs that do not see each other disagree.
_Types = dict[str, onnx.TypeProto | None]


def infer_following_data(proto: onnx.ModelProto) -> onnx.GraphProto:
    """``proto``'s graph with inferred types, data followed where that is safe. Changes ``proto``.

    Raises what onnx's inference raises: InferenceError, RuntimeError, ValueError.
    """
    graphs = list(walk_graphs(proto, limits=ModelLimits()))
    shaping = [node for graph in graphs for node in graph.node if node.op_type in _OPERATORS and not node.domain]
    expanding = [node for node in shaping if node.op_type in LISTS_DIMENSIONS]
    if expanding:
        hide(proto, expanding)
    types = _plain_types(proto, graphs, shaping)
    for node in expanding:
        node.domain = ""
    if any(_lists_too_much(node, types) for node in shaping):
        for graph in graphs:
            large = [node for node in graph.node if not node.domain and _lists_too_much(node, types)]
            hide(proto, large)
            _declare_outputs(graph, large, types)
    return onnx.shape_inference.infer_shapes(proto, data_prop=True).graph


def _plain_types(
    proto: onnx.ModelProto, graphs: Sequence[onnx.GraphProto], shaping: Sequence[onnx.NodeProto]
) -> _Types:
    """The types that inference finds without following data, helped by what can be said of ranks."""
    constants = _constant_types(graphs)
    plain = onnx.shape_inference.infer_shapes(proto, data_prop=False)
    for _ in range(_MOST_ROUNDS_FOR_RANKS):
        found = list(walk_graphs(plain, limits=ModelLimits()))
        types = _types_of(found, constants)
        is_enough = not any(_lists_too_much(node, types) for node in shaping)
        if is_enough or not _add_ranks(found, types):
            return types
        plain = onnx.shape_inference.infer_shapes(plain, data_prop=False)
    return _types_of(list(walk_graphs(plain, limits=ModelLimits())), constants)


def _constant_types(graphs: Sequence[onnx.GraphProto]) -> _Types:
    found: _Types = {}
    for graph in graphs:
        for tensor in graph.initializer:
            of_tensor = found[tensor.name] = onnx.TypeProto()
            of_tensor.tensor_type.elem_type = tensor.data_type
            of_tensor.tensor_type.shape.SetInParent()
            for size in tensor.dims:
                of_tensor.tensor_type.shape.dim.add(dim_value=size)
    return found


def _types_of(graphs: Sequence[onnx.GraphProto], constants: _Types) -> _Types:
    found = dict(constants)
    for graph in graphs:
        for value in (*graph.value_info, *graph.input, *graph.output):
            if not value.type.WhichOneof("value"):
                continue
            known = found.setdefault(value.name, value.type)
            if known is not None and known != value.type:
                found[value.name] = None
    return found


def _sizes(name: str, types: _Types) -> list[int | None] | None:
    """The dimensions of a tensor, None for each that is not known; None where even their number is not known."""
    found = types.get(name)
    if found is None or not found.HasField("tensor_type") or not found.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in found.tensor_type.shape.dim]


def _lists_too_much(node: onnx.NodeProto, types: _Types) -> bool:
    if node.op_type in LISTS_DIMENSIONS:
        return not all(_is_short(name, types) for name in node.input[1:])
    return node.op_type in LISTS_ELEMENTS and not all(_is_short(name, types) for name in node.input)


def _is_short(name: str, types: _Types) -> bool:
    """Whether all elements may be listed; those of a value of more or fewer dimensions than one never are."""
    sizes = _sizes(name, types)
    if sizes is None:
        found = types.get(name)
        return not name or (found is not None and not found.HasField("tensor_type"))
    return len(sizes) != 1 or (sizes[0] is not None and sizes[0] <= _MOST_LISTED)


def _add_ranks(graphs: Sequence[onnx.GraphProto], types: _Types) -> bool:
    """Declares how many dimensions shaping nodes make, where inference did not say; whether there was any."""
    added = False
    for graph in graphs:
        for node in graph.node:
            slot = _SHAPE_SLOTS.get(node.op_type)
            if slot is None or len(node.input) <= slot or not node.output or _sizes(node.output[0], types) is not None:
                continue
            rank = _rank_made(node, slot, types)
            element_type = _element_type(node, types)
            if rank is not None and element_type:
                named = onnx.helper.make_tensor_value_info(node.output[0], element_type, [None] * rank)
                declared = next((v for v in (*graph.output, *graph.value_info) if v.name == named.name), None)
                if declared is None:
                    graph.value_info.append(named)
                else:
                    declared.CopyFrom(named)
                added = True
    return added


def _rank_made(node: onnx.NodeProto, slot: int, types: _Types) -> int | None:
    sizes = _sizes(node.input[slot], types)
    if sizes is None or len(sizes) != 1 or sizes[0] is None or sizes[0] > _MOST_DIMENSIONS:
        return None
    if node.op_type != "Expand":
        return sizes[0]
    expanded = _sizes(node.input[0], types)
    return None if expanded is None else max(len(expanded), sizes[0])


def _element_type(node: onnx.NodeProto, types: _Types) -> int:
    """Of the node's output; 0 where it is not known."""
    found = types.get(node.output[0]) or (None if node.op_type == "ConstantOfShape" else types.get(node.input[0]))
    return found.tensor_type.elem_type if found is not None and found.HasField("tensor_type") else 0


def _declare_outputs(graph: onnx.GraphProto, nodes: list[onnx.NodeProto], types: _Types) -> None:
    """Declares what the plain inference found of hidden nodes' outputs."""
    names = {name for node in nodes for name in node.output if types.get(name) is not None}
    for values in (graph.output, graph.value_info):
        for value in values:
            if value.name in names:
                names.discard(value.name)
                if not value.type.WhichOneof("value"):
                    value.type.CopyFrom(types[value.name])
    for name in sorted(names):
        graph.value_info.add(name=name).type.CopyFrom(types[name])
