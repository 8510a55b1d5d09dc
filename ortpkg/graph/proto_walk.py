"""Walks over everything in a ModelProto: graphs within graphs, functions, training graphs.

It does not recurse, for strangers nest as deep as they like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from ortpkg.errors import InvalidGraphError
from ortpkg.graph.model_limits import ModelLimits


def walk_nodes(model: onnx.ModelProto, *, limits: ModelLimits) -> Iterator[onnx.NodeProto]:
    """Every node of the main graph, of all sub-graphs and of all model-local functions.

    Raises InvalidGraphError past the limits on node count or nesting.
    """
    for _graph, nodes in _walk(model, limits):
        yield from nodes


def walk_graphs(model: onnx.ModelProto, *, limits: ModelLimits) -> Iterator[onnx.GraphProto]:
    """The main graph, all sub-graphs (in functions too), and graphs of training information."""
    for graph, _nodes in _walk(model, limits):
        if graph is not None:
            yield graph


def walk_tensors(model: onnx.ModelProto, *, limits: ModelLimits) -> Iterator[onnx.TensorProto]:
    """Every tensor: initializers, those in attributes, sparse ones as values and indices."""
    for graph, nodes in _walk(model, limits):
        if graph is not None:
            yield from graph.initializer
            yield from _dense_parts(graph.sparse_initializer)
        for node in nodes:
            yield from _attribute_tensors(node.attribute)
    for function in model.functions:
        yield from _attribute_tensors(function.attribute_proto)


def _walk(
    model: onnx.ModelProto, limits: ModelLimits
) -> Iterator[tuple[onnx.GraphProto | None, Iterable[onnx.NodeProto]]]:
    roots: list[tuple[onnx.GraphProto | None, Iterable[onnx.NodeProto], int]] = [
        (model.graph, model.graph.node, 0)
    ]
    roots += [(None, function.node, 0) for function in model.functions]
    for training in model.training_info:
        roots += [(graph, graph.node, 0) for graph in (training.initialization, training.algorithm)]
    node_count = 0
    pending = roots[::-1]
    while pending:
        graph, nodes, depth = pending.pop()
        if depth > limits.subgraph_depth:
            raise InvalidGraphError(f"graphs are nested deeper than {limits.subgraph_depth} levels")
        yield graph, nodes
        found: list[tuple[onnx.GraphProto | None, Iterable[onnx.NodeProto], int]] = []
        for node in nodes:
            node_count += 1
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    found.append((attribute.g, attribute.g.node, depth + 1))
                found += [(inner, inner.node, depth + 1) for inner in attribute.graphs]
        if node_count > limits.node_count:
            raise InvalidGraphError(f"the model has more than {limits.node_count} nodes")
        pending += found[::-1]


def _dense_parts(sparse: Iterable[onnx.SparseTensorProto]) -> Iterator[onnx.TensorProto]:
    for tensor in sparse:
        yield tensor.values
        yield tensor.indices


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("sparse_tensor"):
            yield from _dense_parts([attribute.sparse_tensor])
        yield from _dense_parts(attribute.sparse_tensors)
