"""Steps of transformers: bypass a node, replace nodes by one, find constants, sole consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.graph.graph import ONNX_DOMAIN, ArrayInitializer, Attribute, Graph, Node
from ortpkg.graph.operator_schemas import resolve_since_version
from ortpkg.graph.types import Shape, TensorType, element_type_of

Array = npt.NDArray[Any]


def bypass_node(graph: Graph, node: Node, slot: int = 0) -> bool:
    """Removes ``node``, whose first output equals its input ``slot`` and whose others nobody uses.

    Returns whether it could. It cannot where the output is the graph's and the input's name must
    stay too: then a node has to stand between.
    """
    output, source = node.outputs[0], node.inputs[slot]
    if not graph.is_output(output):
        graph.remove_node(node)
        graph.replace_all_uses(output, source)
        return True
    producer = graph.producer_of(source)
    if producer is None or graph.is_output(source):
        return False
    graph.remove_node(node)
    graph.rename_output(producer, source, output)
    graph.replace_all_uses(source, output)
    graph.types.pop(source, None)
    return True


def replace_nodes(
    graph: Graph,
    old: Sequence[Node],
    op_type: str,
    inputs: Sequence[str],
    *,
    domain: str = ONNX_DOMAIN,
    attributes: Mapping[str, Attribute] | None = None,
    outputs: Sequence[str] | None = None,
) -> Node:
    """Puts one new node in place of ``old``, whose last makes the value that remains.

    It takes over that one's place, outputs (unless others are given) and provider. The caller has
    made sure that nobody else uses what the others make.
    """
    last = old[-1]
    for node in old:
        graph.remove_node(node)
    opset = graph.opset_imports.setdefault(domain, 1)
    return graph.add_node(
        op_type,
        inputs,
        last.outputs if outputs is None else outputs,
        domain=domain,
        name=last.name,
        attributes=attributes,
        since_version=resolve_since_version(domain, op_type, opset),
        execution_provider=last.execution_provider,
        doc_string=last.doc_string,
        metadata=last.metadata,
        at=last,
    )


def sole_consumer(graph: Graph, value: str) -> Node | None:
    """The node that alone uses ``value``, in one slot; None for graph outputs and sub-graphs."""
    if graph.is_output(value) or graph.use_count(value) != 1:
        return None
    (use,) = graph.consumers_of(value)
    return None if use.slot < 0 else graph.node(use.node_index)


def sole_consumed_producer(graph: Graph, value: str, *op_types: str) -> Node | None:
    """The ONNX node of ``op_types`` that makes ``value``, its only used output, used once."""
    producer = graph.producer_of(value) if value else None
    if producer is None or producer.domain != ONNX_DOMAIN or producer.op_type not in op_types:
        return None
    if producer.outputs[0] != value or has_used_output(graph, producer.outputs[1:]):
        return None
    return producer if sole_consumer(graph, value) is not None else None


def has_used_output(graph: Graph, outputs: Sequence[str]) -> bool:
    """Whether any of these values is consumed or a graph output."""
    return any(name and (graph.is_output(name) or graph.use_count(name)) for name in outputs)


def same_provider(*nodes: Node) -> bool:
    """Whether the nodes run on one provider; those of different ones are not fused."""
    return len({node.execution_provider for node in nodes}) == 1


def constant_array(graph: Graph, value: str, *, largest_nbytes: int) -> Array | None:
    """The constant ``value`` as an array.

    None where it is none, or is larger than the transformer wants to read.
    """
    initializer = graph.constant(value) if value else None
    if initializer is None or initializer.nbytes > largest_nbytes:
        return None
    return initializer.numpy()


def constant_ints(graph: Graph, value: str) -> tuple[int, ...] | None:
    """The whole numbers of a small constant (a shape, axes, ...); None where it is not constant."""
    array = constant_array(graph, value, largest_nbytes=4096)
    if array is None or array.dtype.kind not in "iu":
        return None
    return tuple(int(number) for number in array.reshape(-1))


def add_constant(graph: Graph, stem: str, array: Array) -> str:
    """Adds a constant under a new name, which it returns. The array must not change afterwards."""
    name = graph.make_name(stem)
    array.flags.writeable = False
    element_type = element_type_of(array.dtype)
    graph.add_initializer(ArrayInitializer(name, array, element_type))
    graph.set_type(name, TensorType(element_type, array.shape))
    return name


def tensor_type(graph: Graph, value: str) -> TensorType | None:
    """The type of ``value`` where it is known to be a tensor."""
    value_type = graph.type_of(value) if value else None
    return value_type if isinstance(value_type, TensorType) else None


def known_shape(graph: Graph, value: str) -> Shape | None:
    """The shape of ``value`` where at least its rank is known."""
    found = tensor_type(graph, value)
    return None if found is None else found.shape


def is_per_channel(shape: tuple[int, ...], rank: int, channels: int) -> bool:
    """Whether a tensor of ``shape`` broadcasts over [batch, channels, ...] of ``rank`` unchanged.

    It has a value per channel, or one for all, and leaves that shape as it is.
    """
    if rank < 2 or len(shape) > rank:
        return False
    padded = (1,) * (rank - len(shape)) + shape
    return padded[1] in (1, channels) and all(
        size == 1 for axis, size in enumerate(padded) if axis != 1
    )


def per_channel(array: Array, rank: int, channels: int) -> Array:
    """A tensor for which :func:`is_per_channel` holds, as a vector with one value per channel."""
    padded = array.reshape((1,) * (rank - array.ndim) + array.shape)
    return np.broadcast_to(padded.reshape(-1), (channels,))
