"""Steps that transformers share: bypass nodes, replace them, find constants and sole consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ortpkg.graph.graph import ONNX_DOMAIN, ArrayInitializer, Attribute, Graph, Node
from ortpkg.graph.operator_schemas import resolve_since_version
from ortpkg.graph.types import Shape, TensorType, element_type_of

Array = npt.NDArray[Any]


def bypass_node(graph: Graph, node: Node, slot: int = 0) -> bool:
    """Remove a node that passes its input ``slot`` on as its first output; the others are unused.

    Returns:
        True if it was removed. It stays if its output is one of the graph and the input's name must
        stay too: then a node has to stand between them.
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


def pass_through(graph: Graph, node: Node, slot: int = 0) -> bool:
    """Remove a node whose first output equals its input ``slot``; the other outputs are unused.

    Between an input and an output of a sub-graph a node has to stand, so it becomes an Identity,
    which our engine runs without a copy.

    Returns:
        True if the graph was changed.
    """
    if bypass_node(graph, node, slot):
        return True
    if graph.parent is None:
        return False
    replace_nodes(graph, [node], "Identity", [node.inputs[slot]], outputs=[node.outputs[0]])
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
    """Replace ``old`` by one new node that makes the value of the last of them.

    It takes over the last one's position, provider and, if none are given, its outputs. The caller
    has made sure that nothing else uses what the other nodes make.
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
    """Return the only node that uses ``value``, in one slot.

    None for graph outputs and values that sub-graphs use.
    """
    if graph.is_output(value) or graph.use_count(value) != 1:
        return None
    (use,) = graph.consumers_of(value)
    return None if use.slot < 0 else graph.node(use.node_index)


def sole_consumed_producer(graph: Graph, value: str, *op_types: str) -> Node | None:
    """Return the ONNX node of ``op_types`` whose only used output is ``value``, used once."""
    producer = graph.producer_of(value) if value else None
    if producer is None or producer.domain != ONNX_DOMAIN or producer.op_type not in op_types:
        return None
    if producer.outputs[0] != value or has_used_output(graph, producer.outputs[1:]):
        return None
    return producer if sole_consumer(graph, value) is not None else None


def has_used_output(graph: Graph, outputs: Sequence[str]) -> bool:
    """Return True if any of these values is consumed, or is a graph output."""
    return any(name and (graph.is_output(name) or graph.use_count(name)) for name in outputs)


def same_provider(*nodes: Node) -> bool:
    """Return True if the nodes run on one provider; nodes of different ones are not fused.

    If a rule may change one of them, it may change them all.
    """
    return len({node.execution_provider for node in nodes}) == 1


def constant_array(graph: Graph, value: str, *, largest_nbytes: int) -> Array | None:
    """Return the constant ``value`` as an array.

    None if it is not constant, or is larger than ``largest_nbytes``.
    """
    initializer = graph.constant(value) if value else None
    if initializer is None or initializer.nbytes > largest_nbytes:
        return None
    return initializer.numpy()


def constant_ints(graph: Graph, value: str) -> tuple[int, ...] | None:
    """Return the integers of a small constant (a shape, axes, ...); None if it is not constant."""
    array = constant_array(graph, value, largest_nbytes=4096)
    if array is None or array.dtype.kind not in "iu":
        return None
    return tuple(int(number) for number in array.reshape(-1))


def is_finite(array: Array, dtype: np.dtype[Any]) -> bool:
    """Return True if ``array``, converted to ``dtype``, has neither NaN nor infinities."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.astype(dtype)).all())


def keeps_digits(largest: Array, factor: Array, dtype: np.dtype[Any]) -> bool:
    """Return True if numbers, the largest of which is ``largest``, may be multiplied in ``dtype``.

    No product may overflow: numbers that are added to it, or zeros that it is multiplied by, would
    become NaN. The largest product may not be so small that it lacks digits, as what comes later
    may be large.
    """
    limits = ml_dtypes.finfo(dtype)
    numbers, factors = np.abs(largest.astype(np.float64)), np.abs(factor.astype(np.float64))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        products = numbers * factors
    is_zero = (products == 0) & ((numbers == 0) | (factors == 0))
    is_normal = (products >= float(limits.tiny)) & (products <= float(limits.max))
    return bool((is_zero | is_normal).all())


def add_constant(graph: Graph, stem: str, array: Array) -> str:
    """Add a constant and return its new name. The array must not change afterwards."""
    name = graph.make_name(stem)
    array.flags.writeable = False
    element_type = element_type_of(array.dtype)
    graph.add_initializer(ArrayInitializer(name, array, element_type))
    graph.set_type(name, TensorType(element_type, array.shape))
    return name


def tensor_type(graph: Graph, value: str) -> TensorType | None:
    """Return the type of ``value`` if it is known to be a tensor, else None."""
    value_type = graph.type_of(value) if value else None
    return value_type if isinstance(value_type, TensorType) else None


def known_shape(graph: Graph, value: str) -> Shape | None:
    """Return the shape of ``value`` if at least its rank is known, else None."""
    value_type = tensor_type(graph, value)
    return None if value_type is None else value_type.shape


def is_per_channel(shape: tuple[int, ...], rank: int, channels: int) -> bool:
    """Return True if ``shape`` broadcasts over [batch, channels, ...] of ``rank`` unchanged.

    Such a tensor has a value per channel, or one for all, and leaves the other's shape as it is.
    """
    if rank < 2 or len(shape) > rank:
        return False
    padded = (1,) * (rank - len(shape)) + shape
    return padded[1] in (1, channels) and all(
        size == 1 for axis, size in enumerate(padded) if axis != 1
    )


def per_channel(array: Array, rank: int, channels: int) -> Array:
    """Return a tensor that passes :func:`is_per_channel` as a vector with one value per channel."""
    padded = array.reshape((1,) * (rank - array.ndim) + array.shape)
    return np.broadcast_to(padded.reshape(-1), (channels,))
