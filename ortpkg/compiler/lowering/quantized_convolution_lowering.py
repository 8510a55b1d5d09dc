"""Lowers convolutions of quantized tensors."""

from __future__ import annotations

from ortpkg.compiler.fusion.integer_convolutions import is_multiplied
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.convolution_lowering import check_channels, window_of
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import LoweringScope, NotLoweredError, attribute
from ortpkg.compiler.lowering.quantized_elements import BYTES, code_of, parameter
from ortpkg.compiler.lowering.quantized_product_lowering import combined_scale
from ortpkg.compiler.tensor_ir.elements import Call, Convert, Element, Function, Made, scalar_of
from ortpkg.compiler.tensor_ir.operations import Convolution
from ortpkg.graph.graph import Node

_CHANNELS = 1


@lowers("ConvInteger")
def lower_integer_convolution(scope: LoweringScope, node: Node) -> None:
    """Lower to the exact sums, as i32."""
    source, weights, source_zero, weights_zero = (*node.inputs, "", "")[:4]
    _convolve(scope, node, (source, source_zero), (weights, weights_zero), None)


@lowers("QLinearConv")
def lower_quantized_convolution(scope: LoweringScope, node: Node) -> None:
    """Lower to sums plus a bias of the sums' scale, requantized to codes."""
    source, source_scale, source_zero, weights, weights_scale, weights_zero, scale, zero, bias = (
        *node.inputs,
        "",
    )[:9]
    output = scope.tensor(node.outputs[0])
    channels = {_CHANNELS: output.shape[_CHANNELS]}
    sums: Element = Made(Scalar.I32)
    added = parameter(scope, bias, channels)
    if added is not None:
        sums = Call(Function.ADD, (sums, added))
    factor = combined_scale(scope, (source_scale, weights_scale, scale), {}, channels)
    scaled = Call(Function.MUL, (Convert(sums, Scalar.F32), factor))
    epilogue = code_of(scaled, parameter(scope, zero, {}), output.scalar)
    _convolve(scope, node, (source, source_zero), (weights, weights_zero), epilogue)


def _convolve(
    scope: LoweringScope,
    node: Node,
    source_names: tuple[str, str],
    weights_names: tuple[str, str],
    epilogue: Element | None,
) -> None:
    """Emit a convolution of codes and their zero points, both by name."""
    output = scope.tensor(node.outputs[0])
    groups = int(attribute(node, "group", 1))
    source, weights = (scope.tensor(name) for name, _ in (source_names, weights_names))
    if not {source.scalar, weights.scalar} <= BYTES:
        raise NotLoweredError("its codes are not of 8 bits")
    kernel = tuple(size for size in weights.shape[2:] if isinstance(size, int))
    if len(kernel) != len(weights.shape) - 2:
        raise NotLoweredError("the size of its windows is known only when it runs")
    check_channels(source, weights, output, groups)
    zeros = (
        parameter(scope, source_names[1], {}),
        parameter(scope, weights_names[1], {_CHANNELS: output.shape[_CHANNELS]}),
    )
    for side, zero in zip((source, weights), zeros, strict=True):
        if zero is not None and scalar_of(zero) is not side.scalar:
            raise NotLoweredError("a zero point is of another kind than its codes")
    made = Convolution(
        output=output,
        source=source,
        weights=weights,
        groups=groups,
        window=window_of(node, source, output, kernel),
        source_zero=zeros[0],
        weights_zero=zeros[1],
        epilogue=epilogue,
    )
    if not is_multiplied(made):
        raise NotLoweredError("its weights have zero points, and groups of several channels")
    scope.emit(made)
