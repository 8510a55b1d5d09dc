"""Shapes of resized and sampled images, spectra, windows of signals, random tensors."""

from __future__ import annotations

import math

from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import Sizes
from ortpkg.graph.shapes.resampling import scale_as_ratio, scaled_size
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.shapes.size_operations import floor_divide
from ortpkg.graph.types import ElementType

_SCALES_SINCE_11, _SIZES_SINCE_11 = 2, 3


@infers("Resize", "Upsample")
def resize(context: ShapeContext) -> None:
    """Infer given sizes, or the floor of each size times a scale."""
    shape = context.shape(0)
    if shape is None:
        return
    op_type, version = context.node.op_type, context.version
    is_new = op_type == "Resize" and version >= 11
    axes = context.integers("axes") if is_new else None
    positions = (
        [context.axis(axis, len(shape)) for axis in axes] if axes else list(range(len(shape)))
    )
    made = list(shape)
    if is_new and context.has(_SIZES_SINCE_11):
        sizes = context.elements(_SIZES_SINCE_11)
        if context.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
            _keep_ratio(context, made, shape, positions)
        else:
            target_sizes = [None] * len(positions) if sizes is None else list(sizes.values)
            if len(target_sizes) != len(positions):
                raise ShapeError(
                    f"{context.node}: {len(target_sizes)} sizes for {len(positions)} axes"
                )
            for axis, size in zip(positions, target_sizes, strict=True):
                made[axis] = context.new_size() if size is None else size
        context.make(0, made)
        return
    scales = _scales(context, is_new=is_new)
    if scales is not None and len(scales) != len(positions):
        raise ShapeError(f"{context.node}: {len(scales)} scales for {len(positions)} axes")
    for index, axis in enumerate(positions):
        made[axis] = (
            context.new_size() if scales is None else _scaled(context, shape[axis], scales[index])
        )
    context.make(0, made)


def _scales(context: ShapeContext, *, is_new: bool) -> list[float] | None:
    if context.version < 9 and context.node.op_type == "Upsample":
        if context.version < 7:
            return [
                1.0,
                1.0,
                context.attribute("height_scale", 1.0),
                context.attribute("width_scale", 1.0),
            ]
        return list(context.attribute("scales", ())) or None
    array = context.constant(_SCALES_SINCE_11 if is_new else 1)
    if array is not None and array.dtype.kind != "f":
        raise ShapeError(f"{context.node}: scales of type {array.dtype}")
    return None if array is None else [float(value) for value in array.reshape(-1)]


def _scaled(context: ShapeContext, size: Size, scale: float) -> Size:
    if not math.isfinite(scale) or scale <= 0 or scale > 2**31:
        raise ShapeError(f"{context.node}: a scale of {scale}")
    if isinstance(size, int):
        return scaled_size(size, scale)
    ratio = scale_as_ratio(scale)
    if ratio is None:
        return context.new_size()
    return context.compute(lambda: floor_divide(size * ratio[0], ratio[1]))


def _keep_ratio(
    context: ShapeContext, made: list[Size], shape: Sizes, positions: list[int]
) -> None:
    """Set sizes by one scale for all axes: the smallest or the largest that the sizes need."""
    sizes = context.numbers(_SIZES_SINCE_11)
    sizes_before = [shape[axis] for axis in positions]
    numbers_before = [size for size in sizes_before if isinstance(size, int) and size]
    if sizes is None or len(sizes) != len(positions) or len(numbers_before) < len(sizes_before):
        for axis in positions:
            made[axis] = context.new_size()
        return
    choose = min if context.attribute("keep_aspect_ratio_policy") == "not_larger" else max
    # The kernel (runtime/kernels/resize.py) computes the scale in the same way.
    scale = choose(
        size / was if size else 1.0 for size, was in zip(sizes, numbers_before, strict=True)
    )
    for axis, was in zip(positions, numbers_before, strict=True):
        made[axis] = math.floor(scale * was + 0.5)


@infers("GridSample")
def grid_sample(context: ShapeContext) -> None:
    """Infer (N, C, *sizes) from an input (N, C, ...) and a grid (N, *sizes, number of axes)."""
    shape, grid = context.shape(0), context.shape(1)
    if shape is None and grid is None:
        return
    rank = len(shape) if shape is not None else len(grid or ())
    if rank < 3 or (shape is not None and grid is not None and len(shape) != len(grid)):
        raise ShapeError(
            f"{context.node}: an input (N, C, ...) and a grid of as many dimensions are needed"
        )
    leading = shape[:2] if shape is not None else context.new_sizes(2)
    context.make(0, (*leading, *(grid[1:-1] if grid is not None else context.new_sizes(rank - 2))))


@infers("AffineGrid")
def affine_grid(context: ShapeContext) -> None:
    """Infer a grid (N, H, W, 2) for sizes (N, C, H, W), (N, D, H, W, 3) for (N, C, D, H, W)."""
    sizes = context.elements(1)
    if sizes is None:
        count = context.shape(1)
        if (
            count is not None
            and len(count) == 1
            and isinstance(count[0], int)
            and count[0] in {4, 5}
        ):
            context.make(0, (*context.new_sizes(count[0] - 1), count[0] - 2))
        return
    if len(sizes.values) not in {4, 5}:
        raise ShapeError(f"{context.node}: 4 or 5 sizes are needed, not {len(sizes.values)}")
    values = [context.new_size() if value is None else value for value in sizes]
    context.make(0, (values[0], *values[2:], len(values) - 2))


@infers("ImageDecoder")
def image_decoder(context: ShapeContext) -> None:
    """Infer an image (height, width, channels)."""
    channels = 1 if context.attribute("pixel_format", "RGB") == "Grayscale" else 3
    context.make(0, (*context.new_sizes(2), channels), ElementType.UINT8)


# --- signals --------------------------------------------------------------------------------------


@infers("DFT")
def dft(context: ShapeContext) -> None:
    """Infer a spectrum; a one-sided one has half the frequencies plus one.

    The last axis holds real and imaginary parts.
    """
    shape = context.shape(0)
    if shape is None:
        return
    if len(shape) < 2:
        raise ShapeError(f"{context.node}: at least two dimensions are needed")
    axis: int | None = context.attribute("axis", 1) if context.version < 20 else -2
    if context.version >= 20 and context.has(2):
        axis = context.number(2)
    made = list(shape)
    one_sided, is_inverse = (
        bool(context.attribute("onesided", 0)),
        bool(context.attribute("inverse", 0)),
    )
    made[-1] = 1 if one_sided and is_inverse else 2
    if axis is None and not context.has(1) and not one_sided:
        context.make(0, made)
        return
    if axis is None:
        context.make(0, (*context.new_sizes(len(shape) - 1), made[-1]))
        return
    position = context.axis(axis, len(shape))
    if context.has(1):
        length = context.size(1)
        made[position] = context.new_size() if length is None else length
    elif one_sided and is_inverse:
        made[position] = context.compute(lambda: (shape[position] - 1) * 2)
    if one_sided and not is_inverse:
        made[position] = context.compute(lambda: floor_divide(made[position], 2) + 1)
    context.make(0, made)


@infers("STFT")
def stft(context: ShapeContext) -> None:
    """Infer frames of a spectrum, (batch, frames, frequencies, 2)."""
    shape, window = context.shape(0), context.shape(2)
    if shape is None or len(shape) < 2:
        return
    step = context.number(1)
    length: Size | None = context.size(3)
    if length is None and context.has(2) and window is not None and len(window) == 1:
        length = window[0]
    frames: Size = context.new_size()
    bins: Size = context.new_size()
    if length is not None:
        frame_length = length
        bins = (
            context.compute(lambda: floor_divide(frame_length, 2) + 1)
            if context.attribute("onesided", 1)
            else frame_length
        )
        if step is not None and step > 0:
            frames = context.compute(lambda: floor_divide(shape[1] - frame_length, step) + 1)
    context.make(0, (shape[0], frames, bins, 2))


@infers("HannWindow", "HammingWindow", "BlackmanWindow")
def window(context: ShapeContext) -> None:
    length = context.size(0)
    size = context.new_size() if length is None else length
    context.make(0, (size,), context.chosen_type("output_datatype", ElementType.FLOAT))


@infers("MelWeightMatrix")
def mel_weight_matrix(context: ShapeContext) -> None:
    bins, length = context.size(0), context.size(1)
    rows = (
        context.new_size()
        if length is None
        else context.compute(lambda: floor_divide(length, 2) + 1)
    )
    columns = context.new_size() if bins is None else bins
    context.make(0, (rows, columns), context.chosen_type("output_datatype", ElementType.FLOAT))


# --- random numbers -------------------------------------------------------------------------------


@infers("RandomNormal", "RandomUniform")
def random(context: ShapeContext) -> None:
    context.make(
        0, tuple(context.integers("shape")), context.chosen_type("dtype", ElementType.FLOAT)
    )


@infers("Bernoulli", "RandomNormalLike", "RandomUniformLike")
def random_like(context: ShapeContext) -> None:
    context.make(0, context.shape(0), context.chosen_type("dtype", context.element_type(0)))


@infers("Multinomial")
def multinomial(context: ShapeContext) -> None:
    shape = context.shape(0)
    rows = shape[0] if shape else context.new_size()
    chosen = context.chosen_type("dtype", ElementType.INT32)
    context.make(0, (rows, context.attribute("sample_size", 1)), chosen)
