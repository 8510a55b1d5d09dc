"""What normalizations written out share: x over the root of a mean of squares, scale, shift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ortpkg.engine.transformers.patterns import made_by, same_dimension, scalar
from ortpkg.engine.transformers.rewriting import (
    Array,
    add_constant,
    constant_array,
    constant_ints,
    known_shape,
    sole_consumer,
)
from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import Dimension, ElementType, numpy_dtype

_FIRST_VERSION_WITH_AXES_INPUT = 18
_LARGEST_PARAMETER_NBYTES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class RootMeanSquare:
    """``numerator / sqrt(mean(squared², last axis) + epsilon)``.

    Attributes:
        numerator, squared: values.
        nodes: all nodes but the one that divides.
    """

    numerator: str
    squared: str
    epsilon: float
    nodes: list[Node]


def match_root_mean_square(graph: Graph, node: Node) -> RootMeanSquare | None:
    """Of a node that divides by the root, or multiplies with its reciprocal."""
    for slot in (1,) if node.op_type == "Div" else (1, 0):
        found = _root(graph, node.inputs[slot], is_reciprocal=node.op_type == "Mul")
        if found is None:
            continue
        value, nodes = found
        addition = made_by(graph, value, "Add")
        if addition is None:
            continue
        for constant in (1, 0):
            epsilon = scalar(graph, addition.inputs[constant], most_dimensions=1)
            mean = match_mean(graph, addition.inputs[1 - constant])
            square = None if mean is None else made_by(graph, mean.inputs[0], "Pow", "Mul")
            if epsilon is None or mean is None or square is None:
                continue
            squared = _squared(graph, square)
            if squared is not None:
                return RootMeanSquare(
                    numerator=node.inputs[1 - slot],
                    squared=squared,
                    epsilon=epsilon,
                    nodes=[square, mean, addition, *nodes],
                )
    return None


def _root(graph: Graph, value: str, *, is_reciprocal: bool) -> tuple[str, list[Node]] | None:
    """What ``value`` is the root of, or its reciprocal, and the nodes between."""
    nodes: list[Node] = []
    if is_reciprocal:
        power = made_by(graph, value, "Pow")
        if power is not None and scalar(graph, power.inputs[1], most_dimensions=1) == -0.5:
            return power.inputs[0], [power]
        inverse = made_by(graph, value, "Reciprocal", "Div")
        if inverse is None:
            return None
        if inverse.op_type == "Div" and scalar(graph, inverse.inputs[0], most_dimensions=1) != 1:
            return None
        nodes.append(inverse)
        value = inverse.inputs[-1]
    root = made_by(graph, value, "Sqrt")
    return None if root is None else (root.inputs[0], [root, *nodes])


def _squared(graph: Graph, node: Node) -> str | None:
    if node.op_type == "Mul":
        return node.inputs[0] if node.inputs[0] == node.inputs[1] else None
    return node.inputs[0] if scalar(graph, node.inputs[1], most_dimensions=1) == 2 else None


def match_mean(graph: Graph, value: str) -> Node | None:
    """The node that makes ``value`` the mean over the last axis, which stays with size 1."""
    node = made_by(graph, value, "ReduceMean")
    if node is None or not node.attribute("keepdims", 1):
        return None
    axes = node.attribute("axes")
    if node.since_version >= _FIRST_VERSION_WITH_AXES_INPUT:
        axes = (
            constant_ints(graph, node.inputs[1])
            if len(node.inputs) > 1 and node.inputs[1]
            else None
        )
    if axes is None or len(axes) != 1:
        return None
    shape = known_shape(graph, node.inputs[0])
    last = axes[0] == -1 or (shape is not None and axes[0] == len(shape) - 1)
    return node if last and shape else None


def row_parameter(
    graph: Graph, node: Node | None, op_type: str, x: str, *, behind: str = ""
) -> tuple[Node, str] | None:
    """``node`` if it is of ``op_type``, and its operand with one number per column.

    The other operand has the shape of ``x``. ``behind``: its name, where a shape of one dimension
    does not tell the two apart. :func:`as_row` makes a vector of the operand.
    """
    if (
        node is None
        or node.domain != ONNX_DOMAIN
        or node.op_type != op_type
        or node.inputs[0] == node.inputs[1]
    ):
        return None
    shape = known_shape(graph, x)
    for slot in (0, 1):
        name = node.inputs[slot]
        if name == behind:
            continue
        own, other = known_shape(graph, name), known_shape(graph, node.inputs[1 - slot])
        if (
            not shape
            or not own
            or other is None
            or len(other) != len(shape)
            or len(own) > len(shape)
        ):
            continue
        if not all(same_dimension(size, shape[-1]) for size in (own[-1], *other[-1:])):
            continue
        if len(own) == 1 or (set(own[:-1]) == {1} and _row_of(graph, name) is not None):
            return node, name
    return None


def _row_of(graph: Graph, name: str) -> Array | None:
    return constant_array(graph, name, largest_nbytes=_LARGEST_PARAMETER_NBYTES)


def as_row(graph: Graph, name: str) -> str:
    """Return the name of a vector: ``name`` itself, or a new constant of its elements.

    Called only for what :func:`row_parameter` gives, once a rule is certain to fuse.
    """
    shape, array = known_shape(graph, name), _row_of(graph, name)
    if shape is None or len(shape) == 1 or array is None:
        return name
    return add_constant(graph, name, array.reshape(-1).copy())


def scale_and_shift(graph: Graph, node: Node, x: str) -> tuple[list[Node], str, str]:
    """The nodes that scale and shift columns behind ``node``, and the two values ("": none)."""
    value = node.outputs[0]
    scale = row_parameter(graph, sole_consumer(graph, value), "Mul", x, behind=value)
    if scale is None:
        return [], "", ""
    value = scale[0].outputs[0]
    shift = row_parameter(graph, sole_consumer(graph, value), "Add", x, behind=value)
    if shift is None:
        return [scale[0]], scale[1], ""
    return [scale[0], shift[0]], scale[1], shift[1]


def ones(graph: Graph, columns: Dimension, element_type: ElementType) -> str | None:
    """A new constant of ones, a row long; None where the length is not known, or is no row's."""
    dtype = numpy_dtype(element_type)
    if not isinstance(columns, int) or columns * dtype.itemsize > _LARGEST_PARAMETER_NBYTES:
        return None
    return add_constant(graph, "ones", np.ones(columns, dtype))
