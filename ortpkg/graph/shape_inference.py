"""Fills in the types of values, by ONNX's own shape inference with symbolic dimensions and data propagation.

Only the graph crosses into protobuf: weights are declared by type and shape, and those of a few elements, which may be
shapes or axes, are sent along. So the size of a model's weights does not matter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import onnx
import onnx.shape_inference

from ortpkg.errors import InvalidGraphError, OrtpkgError, quoted
from ortpkg.graph.graph import Graph, Initializer
from ortpkg.graph.inference_guards import CRASHES_ON_UNTYPED, all_graphs, hide_nodes_that_crash, verify_equations
from ortpkg.graph.inference_sizes import infer_following_data
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import WriteOptions, inline_tensor, tensor_header, to_model_proto
from ortpkg.graph.schemas import schema_of
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import (
    Dimension,
    ElementType,
    Shape,
    SparseTensorType,
    TensorType,
    ValueType,
)
from ortpkg.graph.value_types import value_type_from_proto

_log = logging.getLogger(__name__)

_LARGEST_SENT_NBYTES = 2048
_MOST_ROUNDS_FOR_HIDDEN = 4
_NAMES_IN_USE = "names of dimensions in use"


def types_are_known(model: Model, *, with_sizes: bool) -> bool:
    """Whether inference has nothing to add: every node's output has a type, ``with_sizes`` one without unknown ones."""
    for graph in all_graphs(model.graph):
        for node in graph.nodes:
            for output in node.outputs:
                known = graph.types.get(output)
                if output and (known is None or (with_sizes and not _is_static(known))):
                    return False
    return True


def _is_static(known: ValueType) -> bool:
    return isinstance(known, TensorType) and known.is_static


def infer_types(model: Model) -> None:
    """Fills ``graph.types`` of the main graph and of all sub-graphs.

    What a model declares is kept where inference says nothing, and for the names of its outputs' dimensions. Where a
    declared dimension and an inferred one differ, neither is believed. A failing inference leaves types unknown.

    Raises InvalidGraphError where a declared element type or kind contradicts what the node makes.
    """
    for graph in all_graphs(model.graph):
        for name, initializer in graph.initializers.items():
            graph.types.setdefault(name, TensorType(initializer.element_type, initializer.shape))
    verify_equations(model.graph)
    inferred, hidden_count = _infer(model, only_undefined_operators=True)
    if inferred is not None and _lacks_declared(inferred):
        again, hidden_count = _infer(model, only_undefined_operators=False)
        inferred = again or inferred
    for _ in range(_MOST_ROUNDS_FOR_HIDDEN):
        if inferred is None:
            return
        _take_over(inferred)
        if not hidden_count:
            return
        # What was hidden for want of a type may have it now.
        hidden_before = hidden_count
        inferred, hidden_count = _infer(model, only_undefined_operators=False)
        if hidden_count == hidden_before:
            return


def dimension_names(graph: Graph) -> list[str]:
    """Names of symbolic dimensions that the model declares, each once."""
    found: dict[str, None] = {}
    for current in all_graphs(graph):
        for value_type in current.types.values():
            found |= dict.fromkeys(name for name in _shape(value_type) or () if isinstance(name, str))
    return list(found)


#: What inference says of each graph's values.
_Inferred = list[tuple[Graph, dict[str, ValueType]]]


def _infer(model: Model, *, only_undefined_operators: bool) -> tuple[_Inferred | None, int]:
    """The inferred types, None where inference fails as a whole; and how many nodes it did not get to see.

    ``only_undefined_operators``: of the declared types of nodes' outputs, only those are sent that inference cannot
    know, so that the others can be held against what it finds.
    """

    def keeps_type(graph: Graph, value: str) -> bool:
        producer = graph.producer_of(value)
        if not only_undefined_operators or producer is None or schema_of(producer) is None:
            return True
        return any(node.op_type in CRASHES_ON_UNTYPED for node in graph.consumer_nodes(value))

    options = WriteOptions(tensor=_sent_tensor, attribute_tensor=_sent_tensor, keeps_type=keeps_type)
    proto = to_model_proto(model, options=options)
    # Inference makes up names for new dimensions. It avoids those that it sees, so show it all that the model has.
    hidden_count = hide_nodes_that_crash(proto)
    names = dimension_names(model.graph)
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info(_NAMES_IN_USE, int(ElementType.FLOAT), names))
    try:
        inferred = infer_following_data(proto)
    except OrtpkgError:  # an operator of one's own refuses the shapes of its inputs
        raise
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        _log.info("shape inference failed: %s", quoted(error))
        return None, hidden_count
    return [(graph, _inferred_types(message)) for graph, message in _pairs(model.graph, inferred)], hidden_count


def _sent_tensor(initializer: Initializer) -> onnx.TensorProto:
    if initializer.nbytes <= _LARGEST_SENT_NBYTES and initializer.element_type is not ElementType.STRING:
        return inline_tensor(initializer)
    tensor = tensor_header(initializer)
    # Inference refuses to read external data, and so never looks at values that are not there.
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")
    return tensor


def _inferred_types(proto: onnx.GraphProto) -> dict[str, ValueType]:
    found: dict[str, ValueType] = {}
    for values in (proto.value_info, proto.output):
        for value in values:
            value_type = value_type_from_proto(value.type, f"value {quoted(value.name)}")
            if value_type is not None:
                found[value.name] = value_type
    return found


def _pairs(graph: Graph, proto: onnx.GraphProto) -> Iterator[tuple[Graph, onnx.GraphProto]]:
    """Each graph with its message; nodes were written in topological order."""
    pending = [(graph, proto)]
    while pending:
        current, message = pending.pop()
        yield current, message
        for index, node_proto in zip(topological_order(current), message.node, strict=True):
            messages = {}
            for attribute in node_proto.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    messages[attribute.name] = attribute.g
                messages.update({f"{attribute.name}[{i}]": inner for i, inner in enumerate(attribute.graphs)})
            pending += [(inner, messages[name]) for name, inner in current.node(index).subgraphs.items()]


def _lacks_declared(types: _Inferred) -> bool:
    """Whether inference got stuck before a value whose type the model declares."""
    for current, inferred in types:
        for name, declared in current.types.items():
            if current.producer_of(name) is None:
                continue
            found = inferred.get(name)
            if found is None or _knows_less(_shape(found), _shape(declared)):
                return True
    return False


def _knows_less(inferred: Shape | None, declared: Shape | None) -> bool:
    if declared is None or inferred is None:
        return inferred is None and declared is not None
    return len(inferred) == len(declared) and any(
        isinstance(mine, int) and not isinstance(found, int) for found, mine in zip(inferred, declared, strict=True)
    )


def _take_over(types: _Inferred) -> None:
    for graph, found in types:
        for name, inferred in found.items():
            if graph.producer_of(name) is not None:
                graph.set_type(name, _merged(graph, name, graph.types.get(name), inferred))


def _shape(value_type: ValueType) -> Shape | None:
    return value_type.shape if isinstance(value_type, TensorType | SparseTensorType) else ()


def _merged(graph: Graph, name: str, declared: ValueType | None, inferred: ValueType) -> ValueType:
    if declared is None:
        return inferred
    if str(declared) != str(inferred):
        producer = graph.producer_of(name)
        raise InvalidGraphError(
            f"{quoted(name)} is declared as {declared}, but {producer or 'the model'} makes a {inferred}",
            node_name=producer.name if producer is not None else None,
        )
    if isinstance(declared, TensorType) and isinstance(inferred, TensorType):
        shape = _merged_shape(declared.shape, inferred.shape, keep_names=graph.is_output(name))
        return TensorType(declared.element_type, shape)
    return inferred


def _merged_shape(declared: Shape | None, inferred: Shape | None, *, keep_names: bool) -> Shape | None:
    if declared is None or inferred is None:
        return inferred if declared is None else declared
    if len(declared) != len(inferred):
        return None
    return tuple(_merged_dimension(*pair, keep_names=keep_names) for pair in zip(declared, inferred, strict=True))


def _merged_dimension(declared: Dimension, inferred: Dimension, *, keep_names: bool) -> Dimension:
    if isinstance(declared, int) and isinstance(inferred, int):
        return declared if declared == inferred else None
    if isinstance(declared, int) or isinstance(inferred, int):
        return declared if isinstance(declared, int) else inferred
    if keep_names:
        return declared or inferred
    return inferred or declared
