"""Lowers operators over windows: convolutions and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.elementwise_lowering import widened
from ortpkg.compiler.lowering.lowering_registry import lowers
from ortpkg.compiler.lowering.lowering_scope import LoweringScope, NotLoweredError, attribute
from ortpkg.compiler.lowering.row_lowering import narrowed, reduce_axes
from ortpkg.compiler.tensor_ir.elements import Call, Element, Function, Made, Read, Tensor, along
from ortpkg.compiler.tensor_ir.operations import Convolution, Pool, PoolFunction, Window
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.expressions import Size

#: Types that are convolved and pooled; all are computed as float32.
FLOATS = frozenset({Scalar.F32, Scalar.F16})
#: Most windows that an element is part of; with more, the embedded engine is faster, whose windows
#: share partial results.
_MOST_OVERLAP = 256
#: Most windows along an axis: schedules visit each one if padding is needed, which takes seconds.
_MOST_WINDOWS = 1 << 22


@lowers("Conv")
def lower_convolution(scope: LoweringScope, node: Node) -> None:
    """Lower a convolution with an optional bias; float16 is summed as float32."""
    source, weights = scope.tensor(node.inputs[0]), scope.tensor(node.inputs[1])
    output = scope.tensor(node.outputs[0])
    if source.scalar is not weights.scalar or source.scalar not in FLOATS:
        raise NotLoweredError("convolutions are compiled for float32 and float16 alone")
    kernel = tuple(size for size in weights.shape[2:] if isinstance(size, int))
    if len(kernel) != len(weights.shape) - 2:
        raise NotLoweredError("the size of its windows is known only when it runs")
    groups = int(attribute(node, "group", 1))
    check_channels(source, weights, output, groups)
    scope.emit(
        Convolution(
            output=output,
            source=source,
            weights=weights,
            groups=groups,
            window=window_of(node, source, output, kernel),
            epilogue=biased(scope, node, output),
        )
    )


def biased(scope: LoweringScope, node: Node, output: Tensor) -> Element | None:
    """Return the epilogue that adds the optional third input, a bias for each output channel."""
    made: Element = Made(Scalar.F32)
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = scope.tensor(node.inputs[2])
        if bias.shape != (output.shape[1],):
            raise NotLoweredError("its bias has another size than its channels")
        made = Call(Function.ADD, (made, widened(Read(bias, (along(1),)))))
    return narrowed(made, output)


def check_channels(source: Tensor, weights: Tensor, output: Tensor, groups: int) -> None:
    """Raise NotLoweredError if the weights do not fit the channels of source and output."""
    group_channels, out = weights.shape[1], weights.shape[0]
    if (
        len(source.shape) != len(weights.shape)
        or groups < 1
        or source.shape[1] != group_channels * groups
        or not isinstance(out, int)
        or out % groups
        or output.shape[:2] != (source.shape[0], out)
    ):
        raise NotLoweredError("its weights are for other channels")


def check_window_count(output: Tensor) -> None:
    """Raise NotLoweredError if an axis has more windows than schedules can visit."""
    if any(isinstance(size, int) and size > _MOST_WINDOWS for size in output.shape[2:]):
        raise NotLoweredError(f"it has more than {_MOST_WINDOWS} windows along an axis")


def window_of(node: Node, source: Tensor, output: Tensor, kernel: Sequence[int]) -> Window:
    """Return the windows of a node; NotLoweredError if their padding is known only at run time."""
    rank = len(kernel)
    check_window_count(output)
    strides = tuple(attribute(node, "strides", ())) or (1,) * rank
    dilations = tuple(attribute(node, "dilations", ())) or (1,) * rank
    before: list[Size] = []
    after: list[Size] = []
    pads = tuple(attribute(node, "pads", ())) or (0,) * (2 * rank)
    auto = attribute(node, "auto_pad", "NOTSET")
    for axis in range(rank):
        size, count = source.shape[2 + axis], output.shape[2 + axis]
        needed = (count - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - size
        if auto in {"SAME_UPPER", "SAME_LOWER"}:
            if not isinstance(needed, int):
                raise NotLoweredError("its padding is known only when it runs")
            total = max(needed, 0)
            first: Size = total // 2 if auto == "SAME_UPPER" else total - total // 2
        else:
            first = 0 if auto == "VALID" else pads[axis]
        before.append(first)
        after.append(needed - first)
    return Window(
        kernel=tuple(kernel),
        strides=strides,
        dilations=dilations,
        before=tuple(before),
        after=tuple(after),
    )


@lowers("MaxPool", "AveragePool")
def lower_pool(scope: LoweringScope, node: Node) -> None:
    """Lower to the maximum or the mean of each window."""
    if len([name for name in node.outputs if name]) > 1:
        raise NotLoweredError("its output of indices is used")
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    if source.scalar not in FLOATS:
        raise NotLoweredError("poolings are compiled for float32 and float16 alone")
    function = PoolFunction.MAX
    if node.op_type == "AveragePool":
        counts = bool(attribute(node, "count_include_pad", 0))
        if counts and attribute(node, "ceil_mode", 0):
            raise NotLoweredError("it counts padding that its last windows may lack")
        function = PoolFunction.AVERAGE_PADDED if counts else PoolFunction.AVERAGE
    window = window_of(node, source, output, tuple(attribute(node, "kernel_shape", ())))
    if _overlap(window, output) > _MOST_OVERLAP:
        raise NotLoweredError(f"each element is part of more than {_MOST_OVERLAP} of its windows")
    epilogue = narrowed(Made(Scalar.F32), output)
    scope.emit(
        Pool(output=output, source=source, function=function, window=window, epilogue=epilogue)
    )


def _overlap(window: Window, output: Tensor) -> int:
    """Return the number of windows that an element is part of."""
    overlaps = (
        min(-(-kernel // stride), size) if isinstance(size, int) else -(-kernel // stride)
        for kernel, stride, size in zip(
            window.kernel, window.strides, output.shape[2:], strict=True
        )
    )
    return prod(overlaps)


@lowers("GlobalAveragePool", "GlobalMaxPool")
def lower_global_pool(scope: LoweringScope, node: Node) -> None:
    """Lower to one window per channel, or to a reduction if the window's size is open."""
    source, output = scope.tensor(node.inputs[0]), scope.tensor(node.outputs[0])
    kernel = tuple(size for size in source.shape[2:] if isinstance(size, int))
    if source.scalar not in FLOATS:
        raise NotLoweredError("it is compiled for float32 and float16 alone")
    is_mean = node.op_type == "GlobalAveragePool"
    if len(kernel) != len(source.shape) - 2:
        axes = range(2, len(source.shape))
        reduce_axes(scope, "ReduceMean" if is_mean else "ReduceMax", source, output, axes)
        return
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    window = Window(kernel=kernel, strides=ones, dilations=ones, before=zeros, after=zeros)
    function = PoolFunction.AVERAGE if is_mean else PoolFunction.MAX
    epilogue = narrowed(Made(Scalar.F32), output)
    scope.emit(
        Pool(output=output, source=source, function=function, window=window, epilogue=epilogue)
    )
