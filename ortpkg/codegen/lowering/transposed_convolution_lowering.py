"""ConvTranspose: a convolution of the source with zeros between its elements.

The weights of a tap stand on the other side of the window, and those of an output channel come
first. The zeros are never there: the convolution says how far its source is spread, and schedules
leave them out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortpkg.codegen.lowering.convolution_lowering import FLOATS, biased, check_window_count
from ortpkg.codegen.lowering.lowering_registry import lowers
from ortpkg.codegen.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
)
from ortpkg.codegen.tensor_ir.elements import Place, Read, Tensor, along
from ortpkg.codegen.tensor_ir.operations import Convolution, Window
from ortpkg.graph.graph import Node
from ortpkg.shapes.expressions import Size


@lowers("ConvTranspose")
def lower_transposed_convolution(scope: LoweringScope, node: Node) -> None:
    """A transposed convolution, with a bias for each output channel."""
    source, given = scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1])
    output = scope.tensor(node.outputs[0])
    if source.scalar is not given.scalar or source.scalar not in FLOATS:
        raise NotLoweredError("transposed convolutions are compiled for float32 and float16 alone")
    groups = int(attribute(node, "group", 1))
    weights = _turned_weights(scope, given, groups)
    if (
        len(source.shape) != len(given.shape)
        or source.shape[1] != given.shape[0]
        or output.shape[:2] != (source.shape[0], weights.shape[0])
    ):
        raise NotLoweredError("its weights are for other channels")
    check_window_count(output)
    for size in output.shape[2:]:  # as the numpy kernel and onnxruntime have it
        scope.require_not_negative(size - 1)
    spread = _ones_unless_stated(node, "strides", len(given.shape) - 2)
    kernel = [each for each in given.shape[2:] if isinstance(each, int)]
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
    """The windows over the source as it is spread."""
    rank = len(source.shape) - 2
    strides = _ones_unless_stated(node, "strides", rank)
    dilations = _ones_unless_stated(node, "dilations", rank)
    if not len(kernel) == len(strides) == len(dilations) == rank:
        raise NotLoweredError("the size of its windows is known only when it runs")
    before: list[Size] = []
    after: list[Size] = []
    for axis, cut in enumerate(_cuts(node, source, output, kernel)):
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


def _ones_unless_stated(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """Numbers of an attribute for each axis; an empty list is as good as none."""
    return tuple(attribute(node, name, ())) or (1,) * rank


def _cuts(node: Node, source: Tensor, output: Tensor, kernel: Sequence[int]) -> list[int]:
    """How much is cut off before the first element of each axis.

    Source: ONNX, ConvTranspose: with an output_shape, or auto_pad SAME, it follows from the sizes.
    """
    rank = len(kernel)
    pads = tuple(attribute(node, "pads", ())) or (0,) * 2 * rank
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto == "NOTSET" and not attribute(node, "output_shape", ()):
        return [int(each) for each in pads[:rank]]
    if auto == "VALID" and not attribute(node, "output_shape", ()):
        return [0] * rank
    strides = _ones_unless_stated(node, "strides", rank)
    dilations = _ones_unless_stated(node, "dilations", rank)
    added = tuple(attribute(node, "output_padding", ())) or (0,) * rank
    found = []
    for axis in range(rank):
        whole = (source.shape[2 + axis] - 1) * strides[axis]
        whole = whole + (kernel[axis] - 1) * dilations[axis] + 1 + added[axis]
        total = whole - output.shape[2 + axis]
        if not isinstance(total, int):
            raise NotLoweredError("its padding is known only when it runs")
        total = max(total, 0)
        found.append(total // 2 if auto == "SAME_UPPER" else total - total // 2)
    return found


def _turned_weights(scope: LoweringScope, given: Tensor, groups: int) -> Tensor:
    """Weights (channels, output channels / groups, kernel...) as those of a convolution."""
    inputs, own, *kernel = given.shape
    if groups < 1 or not isinstance(inputs, int) or not isinstance(own, int) or inputs % groups:
        raise NotLoweredError("its weights are for other channels")
    shape = (groups * own, inputs // groups, *kernel)
    value = scope.constant_value(given)
    if value is not None:
        grouped = value.reshape(groups, inputs // groups, own, *value.shape[2:])
        turned = np.flip(grouped.swapaxes(1, 2), tuple(range(3, grouped.ndim)))
        whole = turned.reshape(groups * own, inputs // groups, *value.shape[2:])
        return scope.constant_tensor(f"{given.name} turned", whole)
    split = scope.temporary(given.scalar, (groups, inputs // groups, own, *kernel), "groups")
    scope.alias(split, given)
    swapped = scope.temporary(given.scalar, (groups, own, inputs // groups, *kernel), "swapped")
    behind = (Place(((3 + axis, -1),), size - 1) for axis, size in enumerate(kernel))
    scope.map(swapped, Read(split, (along(0), along(2), along(1), *behind)))
    turned_tensor = scope.temporary(given.scalar, shape, "turned")
    scope.alias(turned_tensor, swapped)
    return turned_tensor
