"""Shapes of convolutions and poolings, by sliding windows."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import Sizes
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import ceil_divide, floor_divide, larger, smaller, total
from ortpkg.graph.types import ElementType

MICROSOFT = "com.microsoft"


def _list(context: ShapeContext, name: str, rank: int, default: int) -> list[int]:
    numbers = list(context.integers(name) or (default,) * rank)
    if len(numbers) != rank or any(value < (0 if name == "pads" else 1) for value in numbers):
        raise ShapeError(f"{context.node}: {name} {tuple(numbers)} for {rank} spatial axes")
    return numbers


def _pads(context: ShapeContext, rank: int) -> tuple[list[int], list[int]]:
    pads = list(context.integers("pads") or (0,) * (2 * rank))
    if len(pads) != 2 * rank:
        raise ShapeError(f"{context.node}: pads {tuple(pads)} for {rank} spatial axes")
    return pads[:rank], pads[rank:]


def windowed_sizes(
    context: ShapeContext, spatial: Sizes, kernel: Sequence[Size], *, ceils: bool = False
) -> list[Size]:
    """Return the number of windows along each spatial axis."""
    rank = len(spatial)
    strides, dilations = _list(context, "strides", rank, 1), _list(context, "dilations", rank, 1)
    auto_pad = context.attribute("auto_pad", "NOTSET")
    if len(kernel) != rank:
        raise ShapeError(f"{context.node}: a kernel of {len(kernel)} sizes for {rank} spatial axes")
    made: list[Size] = []
    before, after = _pads(context, rank) if auto_pad == "NOTSET" else ([0] * rank, [0] * rank)
    for axis, size in enumerate(spatial):
        stride = strides[axis]
        if auto_pad.startswith("SAME"):
            made.append(context.compute(ceil_divide, size, stride))
            continue
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        made.append(
            _window_count(context, size, before[axis], after[axis], reach, stride, ceils=ceils)
        )
    return made


def _window_count(
    context: ShapeContext,
    size: Size,
    before: int,
    after: int,
    reach: Size,
    stride: int,
    *,
    ceils: bool,
) -> Size:
    room = size + (before + after) - reach
    if isinstance(room, int) and isinstance(size, int):
        count = (-(-room // stride) if ceils else room // stride) + 1
        if ceils and (count - 1) * stride >= size + before:
            count -= 1
        if count < 0 or (count == 0 and size > 0):
            raise ShapeError(f"{context.node}: a window over {reach} elements on an axis of {size}")
        return count
    if ceils and isinstance(reach, int) and after >= reach:
        # The last window starts in the padding behind the input, and does not count.
        return context.compute(ceil_divide, room, stride)
    if not ceils or stride == 1:
        return context.compute(lambda: floor_divide(room, stride) + 1)
    # Whether it starts in the padding depends on the size itself.
    upper = context.compute(lambda: floor_divide(size + (before + stride - 1), stride))
    full = context.compute(lambda: floor_divide(room + (stride - 1), stride) + 1)
    return context.compute(lambda: -larger(upper * -1, full * -1))


def _kernel(context: ShapeContext, weight: Sizes | None, rank: int) -> Sequence[Size] | None:
    kernel = context.integers("kernel_shape")
    if kernel:
        return _list(context, "kernel_shape", rank, 1)
    return None if weight is None else weight[2:]


def _convolve(
    context: ShapeContext, x: int, w: int, element_type: ElementType | None = None
) -> None:
    shape, weight = context.shape(x), context.shape(w)
    if shape is None:
        rank = None if weight is None else len(weight)
        context.make(0, None if rank is None else context.new_sizes(rank), element_type)
        return
    if len(shape) < 3 or (weight is not None and len(weight) != len(shape)):
        raise ShapeError(
            f"{context.node}: an input of {len(shape)} dimensions does not fit its weight"
        )
    kernel = _kernel(context, weight, len(shape) - 2)
    channels = context.new_size() if weight is None else weight[0]
    if kernel is None:
        context.make(0, (shape[0], channels, *context.new_sizes(len(shape) - 2)), element_type)
        return
    context.make(0, (shape[0], channels, *windowed_sizes(context, shape[2:], kernel)), element_type)


@infers("Conv")
def conv(context: ShapeContext) -> None:
    _convolve(context, 0, 1)


@infers("ConvInteger")
def conv_integer(context: ShapeContext) -> None:
    _convolve(context, 0, 1, ElementType.INT32)


@infers("QLinearConv")
def qlinear_conv(context: ShapeContext) -> None:
    """Infer from (x, its scale and zero point, w, ..., y's scale, y's zero point)."""
    _convolve(context, 0, 3)


@infers("FusedConv", domain=MICROSOFT)
def fused_conv(context: ShapeContext) -> None:
    _convolve(context, 0, 1, context.element_type(0))


@infers("QLinearConv", domain=MICROSOFT)
def microsoft_qlinear_conv(context: ShapeContext) -> None:
    """Infer a quantized convolution; with ``channels_last``, channels come last."""
    element_type = context.element_type(7)
    if not context.attribute("channels_last", 0):
        _convolve(context, 0, 3, element_type)
        return
    shape, weight = context.shape(0), context.shape(3)
    if shape is None or weight is None:
        context.make(0, None if weight is None else context.new_sizes(len(weight)), element_type)
        return
    if len(shape) < 3 or len(weight) != len(shape):
        raise ShapeError(
            f"{context.node}: an input of {len(shape)} dimensions does not fit its weight"
        )
    kernel = _kernel(context, weight, len(shape) - 2)
    made = windowed_sizes(context, shape[1:-1], kernel or ())
    context.make(0, (shape[0], *made, weight[0]), element_type)


@infers("DeformConv")
def deform_conv(context: ShapeContext) -> None:
    _convolve(context, 0, 1)


@infers("CausalConvWithState")
def causal_conv_with_state(context: ShapeContext) -> None:
    """Infer an output as long as the input, and a state as long as the kernel minus 1."""
    shape, weight = context.shape(0), context.shape(1)
    context.make(0, shape)
    if context.shape(3) is not None:
        context.make(1, context.shape(3))
    elif shape is not None and weight is not None and len(shape) == len(weight) == 3:
        context.make(1, (shape[0], shape[1], context.compute(lambda: weight[2] - 1)))


@infers("ConvTranspose")
def conv_transpose(context: ShapeContext) -> None:
    shape, weight = context.shape(0), context.shape(1)
    if shape is None or weight is None:
        known_shape = shape or weight
        context.make(0, None if known_shape is None else context.new_sizes(len(known_shape)))
        return
    rank = len(shape) - 2
    if rank < 1 or len(weight) != len(shape):
        raise ShapeError(
            f"{context.node}: an input of {len(shape)} dimensions does not fit its weight"
        )
    channels = context.compute(lambda: weight[1] * context.attribute("group", 1))
    output_shape = context.integers("output_shape")
    if output_shape:
        sizes: Sequence[Size] = list(output_shape)[-rank:]
    else:
        sizes = _transposed_sizes(context, shape[2:], _kernel(context, weight, rank) or ())
    context.make(0, (shape[0], channels, *sizes))


def _transposed_sizes(context: ShapeContext, spatial: Sizes, kernel: Sequence[Size]) -> list[Size]:
    rank = len(spatial)
    strides, dilations = _list(context, "strides", rank, 1), _list(context, "dilations", rank, 1)
    added = list(context.integers("output_padding") or (0,) * rank)
    auto_pad = context.attribute("auto_pad", "NOTSET")
    if len(added) != rank or len(kernel) != rank:
        raise ShapeError(
            f"{context.node}: output_padding or kernel does not fit {rank} spatial axes"
        )
    before, after = _pads(context, rank) if auto_pad == "NOTSET" else ([0] * rank, [0] * rank)
    made = []
    for axis, size in enumerate(spatial):
        reach = context.compute(lambda axis=axis: (kernel[axis] - 1) * dilations[axis] + 1)
        grown = context.compute(lambda size=size, axis=axis: (size - 1) * strides[axis])
        whole = context.compute(total, grown, reach, added[axis])
        if auto_pad.startswith("SAME"):
            wanted = context.compute(lambda size=size, axis=axis: size * strides[axis])
            made.append(context.compute(smaller, wanted, whole))
        else:
            made.append(context.compute(total, whole, -before[axis], -after[axis]))
    return made


@infers("MaxPool", "AveragePool", "LpPool")
def pool(context: ShapeContext) -> None:
    shape = context.shape(0)
    if shape is None:
        return
    if len(shape) < 3:
        raise ShapeError(
            f"{context.node}: an input (N, C, D1, ...) is needed; it has {len(shape)} dimensions"
        )
    kernel = _list(context, "kernel_shape", len(shape) - 2, 1)
    made = (
        *shape[:2],
        *windowed_sizes(context, shape[2:], kernel, ceils=bool(context.attribute("ceil_mode", 0))),
    )
    context.make(0, made)
    context.make(1, made, ElementType.INT64)


@infers("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(context: ShapeContext) -> None:
    shape, element_type = context.shape(0), context.element_type(0)
    if shape is None or len(shape) < 3:
        context.make(0, None, element_type)
        return
    kernel = _list(context, "kernel_shape", len(shape) - 2, 1)
    sizes = windowed_sizes(
        context, shape[1:-1], kernel, ceils=bool(context.attribute("ceil_mode", 0))
    )
    context.make(0, (shape[0], *sizes, shape[-1]), element_type)


@infers("QLinearAveragePool", domain=MICROSOFT)
def quantized_average_pool(context: ShapeContext) -> None:
    """Infer a pooling whose channels come second, or last with ``channels_last``."""
    shape, element_type = context.shape(0), context.element_type(0)
    if shape is None or len(shape) < 3:
        context.make(0, None, element_type)
        return
    is_last = bool(context.attribute("channels_last", 0))
    kernel = _list(context, "kernel_shape", len(shape) - 2, 1)
    ceils = bool(context.attribute("ceil_mode", 0))
    spatial = windowed_sizes(context, shape[1:-1] if is_last else shape[2:], kernel, ceils=ceils)
    made = (shape[0], *spatial, shape[-1]) if is_last else (*shape[:2], *spatial)
    context.make(0, made, element_type)


@infers("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(context: ShapeContext) -> None:
    shape = context.shape(0)
    if shape is not None:
        if len(shape) < 2:
            raise ShapeError(
                f"{context.node}: an input (N, C, ...) is needed; it has {len(shape)} dimensions"
            )
        context.make(0, (*shape[:2], *(1,) * (len(shape) - 2)))


@infers("QLinearGlobalAveragePool", domain=MICROSOFT)
def quantized_global_pool(context: ShapeContext) -> None:
    shape, element_type = context.shape(0), context.element_type(0)
    if shape is None or len(shape) < 2:
        context.make(0, None, element_type)
        return
    ones = (1,) * (len(shape) - 2)
    is_last = bool(context.attribute("channels_last", 0))
    context.make(0, (shape[0], *ones, shape[-1]) if is_last else (*shape[:2], *ones), element_type)


@infers("MaxUnpool")
def max_unpool(context: ShapeContext) -> None:
    """Infer the given output shape, or reverse the windows' arithmetic."""
    shape, wanted = context.shape(0), context.elements(2)
    if shape is None or len(shape) < 3:
        return
    if context.has(2):
        target_sizes = (
            [context.new_size() for _ in shape] if wanted is None else list(wanted.values)
        )
        context.make(0, [context.new_size() if size is None else size for size in target_sizes])
        return
    rank = len(shape) - 2
    kernel, strides = _list(context, "kernel_shape", rank, 1), _list(context, "strides", rank, 1)
    before, after = _pads(context, rank)
    spatial = [
        context.compute(
            lambda size=size, axis=axis: (size - 1) * strides[axis] - (before[axis] + after[axis])
        )
        for axis, size in enumerate(shape[2:])
    ]
    sizes = [
        context.compute(
            lambda size=size, reach=reach: size + reach,
        )
        for size, reach in zip(spatial, kernel, strict=True)
    ]
    context.make(0, (*shape[:2], *sizes))


@infers("MaxRoiPool")
def max_roi_pool(context: ShapeContext) -> None:
    shape, rois = context.shape(0), context.shape(1)
    pooled = context.integers("pooled_shape")
    count = rois[0] if rois else context.new_size()
    channels = shape[1] if shape is not None and len(shape) > 1 else context.new_size()
    context.make(0, (count, channels, *pooled))


@infers("RoiAlign")
def roi_align(context: ShapeContext) -> None:
    shape, rois = context.shape(0), context.shape(1)
    count = rois[0] if rois else context.new_size()
    channels = shape[1] if shape is not None and len(shape) > 1 else context.new_size()
    context.make(
        0,
        (
            count,
            channels,
            context.attribute("output_height", 1),
            context.attribute("output_width", 1),
        ),
    )
