"""Lowers normalizations of groups: spatial axes, groups of channels, or several last axes."""

from __future__ import annotations

from math import prod

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import as_kind, widened
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import (
    LoweringScope,
    NotLoweredError,
    attribute,
    identity_read,
)
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Element,
    Function,
    Made,
    Read,
    Tensor,
    along,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import RowFunction, RowNormalize
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.size_operations import divide_exactly


@lowers("InstanceNormalization")
def lower_instance_normalization(scope: LoweringScope, node: Node) -> None:
    """Lower to standardized channels of each image, times a scale, plus a bias."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    batch, channels, *spatial = source.shape
    rows = (batch, channels, prod(spatial, start=1))
    made = scope.temporary(output.scalar, rows, "made")
    value: Element = Made(Scalar.F32)
    for name, function in zip(node.inputs[1:3], (Function.MUL, Function.ADD), strict=True):
        value = Call(function, (value, _channel_parameter(scope, name, channels)))
    _standardize(scope, node, source, made, as_kind(value, made.scalar))
    scope.alias(output, made)


@lowers("GroupNormalization")
def lower_group_normalization(scope: LoweringScope, node: Node) -> None:
    """Lower to standardized groups of channels, times a scale, plus a bias, for each channel.

    Before opset 21, scale and bias were for each group.
    """
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    batch, channels, *spatial = source.shape
    groups = int(attribute(node, "num_groups", 1))
    in_group = divide_exactly(channels, groups)
    if in_group is None:
        raise NotLoweredError("whether groups divide its channels is known only when it runs")
    plane = prod(spatial, start=1)
    made = scope.temporary(Scalar.F32, (batch, groups, in_group * plane), "made")
    _standardize(scope, node, source, made, None)
    is_of_group = node.since_version < 21
    parts = (batch, groups, in_group, plane) if is_of_group else (batch, channels, plane)
    view = scope.temporary(Scalar.F32, parts, "channels")
    scaled = scope.temporary(output.scalar, parts, "scaled")
    scope.alias(view, made)
    value: Element = identity_read(view)
    for name, function in zip(node.inputs[1:3], (Function.MUL, Function.ADD), strict=True):
        factor = _channel_parameter(scope, name, groups if is_of_group else channels)
        value = Call(function, (value, factor))
    scope.map(scaled, as_kind(value, scaled.scalar))
    scope.alias(output, scaled)


def _channel_parameter(scope: LoweringScope, name: str, channels: Size) -> Element:
    """Return the vector's element for the channel, which axis 1 counts."""
    vector = scope.tensor(name)
    scope.require_equal(vector.shape[0], channels)
    return widened(Read(vector, (along(1),)))


def _standardize(
    scope: LoweringScope, node: Node, source: Tensor, made: Tensor, epilogue: Element | None
) -> None:
    """Emit the normalization of a tensor's elements in rows of the shape of ``made``."""
    flat = scope.temporary(source.scalar, made.shape, "rows")
    value = widened(identity_read(flat))
    if scalar_of(value) is not Scalar.F32:
        raise NotLoweredError("it is compiled for float32 and narrower floats alone")
    scope.alias(flat, source)
    scope.emit(
        RowNormalize(
            output=made,
            function=RowFunction.STANDARDIZE,
            axes=made.shape,
            value=value,
            epsilon=float(attribute(node, "epsilon", 1e-5)),
            epilogue=epilogue,
        )
    )
