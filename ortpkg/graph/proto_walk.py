"""Walks over everything in a ModelProto: graphs within graphs, functions, training graphs.

It does not recurse, since untrusted models nest as deep as they like.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import onnx

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.load_control import polled_parts
from ortpkg.graph.model_limits import ModelLimits

#: Messages that contain a model's nodes and tensors, and the nodes themselves.
ModelPart = onnx.GraphProto | onnx.FunctionProto | onnx.NodeProto


def walk_parts(model: onnx.ModelProto, *, limits: ModelLimits) -> Iterator[ModelPart]:
    """Yield every graph and function of a model, each before its nodes, in a single walk.

    Graphs are the main one, all sub-graphs (in functions too), and those of training information.

    Raises:
        InvalidGraphError: past the limits on node count or nesting.
        LimitExceededError: if the current session or command has reached a limit.
    """
    pending: list[tuple[onnx.GraphProto | onnx.FunctionProto, int]] = [(model.graph, 0)]
    pending += [(function, 0) for function in model.functions]
    for training in model.training_info:
        pending += [(training.initialization, 0), (training.algorithm, 0)]
    pending.reverse()
    node_count = 0
    while pending:
        part, depth = pending.pop()
        if depth > limits.subgraph_depth:
            raise InvalidGraphError(f"graphs are nested deeper than {limits.subgraph_depth} levels")
        node_count += len(part.node)
        if node_count > limits.node_count:
            raise InvalidGraphError(f"the model has more than {limits.node_count} nodes")
        yield part
        subgraphs: list[onnx.GraphProto] = []
        for node in polled_parts(part.node):
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    subgraphs.append(attribute.g)
                subgraphs += attribute.graphs
        pending += [(graph, depth + 1) for graph in reversed(subgraphs)]


def walk_nodes(model: onnx.ModelProto, *, limits: ModelLimits) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of :func:`walk_parts`."""
    for part in walk_parts(model, limits=limits):
        if isinstance(part, onnx.NodeProto):
            yield part


def walk_graphs(model: onnx.ModelProto, *, limits: ModelLimits) -> Iterator[onnx.GraphProto]:
    """Yield the graphs of :func:`walk_parts`."""
    for part in walk_parts(model, limits=limits):
        if isinstance(part, onnx.GraphProto):
            yield part


def walk_tensors(model: onnx.ModelProto, *, limits: ModelLimits) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of :func:`walk_parts`, in its order."""
    for part in walk_parts(model, limits=limits):
        yield from tensors_of(part)


def tensors_of(part: ModelPart) -> Iterable[onnx.TensorProto]:
    """Return a part's own tensors: initializers, attributes, sparse values and indices."""
    if isinstance(part, onnx.NodeProto):
        attributes = part.attribute
        return _attribute_tensors(attributes) if attributes else ()
    if isinstance(part, onnx.GraphProto):
        return itertools.chain(
            polled_parts(part.initializer), _dense_parts(part.sparse_initializer)
        )
    return _attribute_tensors(part.attribute_proto)


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
