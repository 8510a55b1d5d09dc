"""Lowers ConvTranspose to a convolution of the source with zeros between its elements.

The kernel of the weights is flipped, and output channels come first. The zeros are never stored:
the convolution's ``spread`` tells how far the source's elements are apart, and schedules skip the
zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortpkg.compiler.lowering.convolution_lowering import FLOATS, biased, check_window_count
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
)
from ortpkg.compiler.tensor_ir.elements import Coordinate, Read, Tensor, along
from ortpkg.compiler.tensor_ir.operations import Convolution, Window
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size


@lowers("ConvTranspose")
def lower_transposed_convolution(scope: LoweringScope, node: Node) -> None:
    """Lower a transposed convolution, with an optional bias for each output channel."""
    source, node_weights = scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1])
    output = scope.tensor(node.outputs[0])
    if source.scalar is not node_weights.scalar or source.scalar not in FLOATS:
        raise NotLoweredError("transposed convolutions are compiled for float32 and float16 alone")
    groups = int(attribute(node, "group", 1))
    weights = _convolution_weights(scope, node_weights, groups)
    if (
        len(source.shape) != len(node_weights.shape)
        or source.shape[1] != node_weights.shape[0]
        or output.shape[:2] != (source.shape[0], weights.shape[0])
    ):
        raise NotLoweredError("its weights are for other channels")
    check_window_count(output)
    for size in output.shape[2:]:  # the numpy kernel and onnxruntime refuse empty outputs too
        scope.require_not_negative(size - 1)
    spread = _axis_numbers(node, "strides", len(node_weights.shape) - 2)
    kernel = [kernel_size for kernel_size in node_weights.shape[2:] if isinstance(kernel_size, int)]
    window = _window(node, source, output, kernel)
    scope.emit(
        Convolution(
            output=output,
            source=source,
            weights=weights,
            groups=groups,
            window=window,
            spread=spread if max(spread) > 1 else None,
            epilogue=biased(scope, node, output),
        )
    )


def _window(node: Node, source: Tensor, output: Tensor, kernel: Sequence[int]) -> Window:
    """Return the windows over the spread source."""
    rank = len(source.shape) - 2
    strides = _axis_numbers(node, "strides", rank)
    dilations = _axis_numbers(node, "dilations", rank)
    if not len(kernel) == len(strides) == len(dilations) == rank:
        raise NotLoweredError("the size of its windows is known only when it runs")
    before: list[Size] = []
    after: list[Size] = []
    for axis, cut in enumerate(_cropped_before(node, source, output, kernel)):
        reach = (kernel[axis] - 1) * dilations[axis]
        size = (source.shape[2 + axis] - 1) * strides[axis] + 1
        before.append(reach - cut)
        after.append(output.shape[2 + axis] + reach - size - before[axis])
    return Window(
        kernel=tuple(kernel),
        strides=(1,) * rank,
        dilations=dilations,
        before=tuple(before),
        after=tuple(after),
    )


def _axis_numbers(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """Return an attribute's number for each axis; ones if it is missing or empty."""
    return tuple(attribute(node, name, ())) or (1,) * rank


def _cropped_before(node: Node, source: Tensor, output: Tensor, kernel: Sequence[int]) -> list[int]:
    """Return the number of elements cropped before the first one of each axis.

    Source: ONNX, ConvTranspose: with an output_shape, or auto_pad SAME, it follows from the sizes.
    """
    rank = len(kernel)
    pads = tuple(attribute(node, "pads", ())) or (0,) * 2 * rank
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto == "NOTSET" and not attribute(node, "output_shape", ()):
        return [int(pad) for pad in pads[:rank]]
    if auto == "VALID" and not attribute(node, "output_shape", ()):
        return [0] * rank
    strides = _axis_numbers(node, "strides", rank)
    dilations = _axis_numbers(node, "dilations", rank)
    added = tuple(attribute(node, "output_padding", ())) or (0,) * rank
    crops = []
    for axis in range(rank):
        whole = (source.shape[2 + axis] - 1) * strides[axis]
        whole = whole + (kernel[axis] - 1) * dilations[axis] + 1 + added[axis]
        total = whole - output.shape[2 + axis]
        if not isinstance(total, int):
            raise NotLoweredError("its padding is known only when it runs")
        total = max(total, 0)
        crops.append(total // 2 if auto == "SAME_UPPER" else total - total // 2)
    return crops


def _convolution_weights(scope: LoweringScope, node_weights: Tensor, groups: int) -> Tensor:
    """Return weights (channels, output channels / groups, kernel...) as those of a convolution."""
    inputs, group_outputs, *kernel = node_weights.shape
    if (
        groups < 1
        or not isinstance(inputs, int)
        or not isinstance(group_outputs, int)
        or inputs % groups
    ):
        raise NotLoweredError("its weights are for other channels")
    shape = (groups * group_outputs, inputs // groups, *kernel)
    value = scope.constant_value(node_weights)
    if value is not None:
        grouped = value.reshape(groups, inputs // groups, group_outputs, *value.shape[2:])
        turned = np.flip(grouped.swapaxes(1, 2), tuple(range(3, grouped.ndim)))
        whole = turned.reshape(groups * group_outputs, inputs // groups, *value.shape[2:])
        return scope.constant_tensor(f"{node_weights.name} turned", whole)
    split = scope.temporary(
        node_weights.scalar, (groups, inputs // groups, group_outputs, *kernel), "groups"
    )
    scope.alias(split, node_weights)
    swapped = scope.temporary(
        node_weights.scalar, (groups, group_outputs, inputs // groups, *kernel), "swapped"
    )
    behind = (Coordinate(((3 + axis, -1),), size - 1) for axis, size in enumerate(kernel))
    scope.map(swapped, Read(split, (along(0), along(2), along(1), *behind)))
    turned_tensor = scope.temporary(node_weights.scalar, shape, "turned")
    scope.alias(turned_tensor, swapped)
    return turned_tensor
