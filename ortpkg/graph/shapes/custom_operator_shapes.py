"""Shapes of custom operators, computed by their declarations (``output_shapes``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortpkg.foundations.errors import InvalidGraphError, OrtpkgError, printable, quoted
from ortpkg.graph.custom_op import CustomOp
from ortpkg.graph.custom_op_registry import find_custom_op
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size, symbol
from ortpkg.graph.shapes.shape_context import InferenceFunction, ShapeContext
from ortpkg.graph.types import Dimension


def find_custom_inference(node: Node) -> InferenceFunction | None:
    """Return the inference of a registered operator that declares shapes; None for any other."""
    operator = find_custom_op(node.domain, node.op_type, node.since_version)
    if operator is None or operator.output_shapes is None:
        return None
    declared = operator

    def infer(context: ShapeContext) -> None:
        _infer(declared, context)

    return infer


def _infer(operator: CustomOp, context: ShapeContext) -> None:
    sizes: dict[str, Size] = {}
    input_shapes = [_shown(context.shape(slot), sizes) for slot in range(len(context.node.inputs))]
    for slot, shape in enumerate(_output_shapes(operator, context.node, input_shapes)):
        if shape is not None and slot < len(context.node.outputs):
            context.make(slot, [_size(dimension, context, sizes) for dimension in shape])


def _shown(shape: Sequence[Size] | None, sizes: dict[str, Size]) -> tuple[Dimension, ...] | None:
    """Return a shape as operators see it: numbers, and names for other sizes."""
    if shape is None:
        return None
    for size in shape:
        sizes.setdefault(str(size), size)
    return tuple(size if isinstance(size, int) else str(size) for size in shape)


def _size(dimension: Any, context: ShapeContext, sizes: dict[str, Size]) -> Size:
    if dimension is None:
        return context.new_size()
    return sizes.get(dimension, symbol(dimension)) if isinstance(dimension, str) else int(dimension)


def _output_shapes(
    operator: CustomOp, node: Node, input_shapes: Sequence[tuple[Dimension, ...] | None]
) -> Sequence[Sequence[Dimension] | None]:
    """Return the operator's output shapes; InvalidGraphError if it refuses the inputs'."""
    assert operator.output_shapes is not None
    attributes = {
        name: _attribute(node, name, default) for name, default in operator.attributes.items()
    }
    try:
        return tuple(operator.output_shapes(*input_shapes, **attributes))
    except OrtpkgError:
        raise
    except Exception as error:
        name = f"{operator.domain}.{operator.op_type}"
        raise InvalidGraphError(
            f"operator {quoted(name)} refuses the shapes of its inputs: {printable(error)}",
            node_name=node.name,
        ) from error


def _attribute(node: Node, name: str, default: Any) -> Any:
    """Return the attribute's value in the form that the kernel gets."""
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    value = node.attribute(name)
    if attribute.kind == "TENSOR":
        return value.numpy()
    return list(value) if isinstance(value, tuple) else value
