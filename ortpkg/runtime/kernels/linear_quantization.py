"""Linear quantization and back: y = saturate(round(x / scale) + zero point), halves to even.

Functions here take and return arrays; the kernels around them are in
:mod:`ortpkg.runtime.kernels.quantization` and
:mod:`ortpkg.runtime.kernels.microsoft.microsoft_quantization`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.axes import element_count, normalized_axis
from ortpkg.runtime.kernels.cast import converted
from ortpkg.runtime.kernels.op_kernel import Tensor

_FLOAT32 = np.dtype(np.float32)
_SUB_BYTE_RANGES: dict[np.dtype[Any], tuple[int, int]] = {
    numpy_dtype(ElementType.UINT4): (0, 15),
    numpy_dtype(ElementType.INT4): (-8, 7),
    numpy_dtype(ElementType.UINT2): (0, 3),
    numpy_dtype(ElementType.INT2): (-2, 1),
}


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """Return the least and the greatest value of an integer type, 4- and 2-bit ones included.

    None for floats.
    """
    if dtype in _SUB_BYTE_RANGES:
        return _SUB_BYTE_RANGES[dtype]
    if dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def spread(parameter: Tensor, shape: tuple[int, ...], axis: int, block_size: int) -> Tensor:
    """Return a scale or zero point, shaped to broadcast with a tensor of ``shape``.

    A parameter of one element is for the whole tensor. Without ``block_size``, there is one element
    for each index of ``axis``; with it, one for each ``block_size`` indices of ``axis``.

    Raises:
        ValueError: the sizes do not fit.
    """
    if parameter.size == 1:
        return parameter.reshape(())
    axis = normalized_axis(axis, len(shape))
    if not block_size:
        if parameter.shape != (shape[axis],):
            raise ValueError(
                f"scales per index of axis {axis} of shape {shape} have shape ({shape[axis]},), not"
                f" {parameter.shape}"
            )
        return parameter.reshape(
            [shape[axis] if index == axis else 1 for index in range(len(shape))]
        )
    blocks = -(-shape[axis] // block_size)
    expected = (*shape[:axis], blocks, *shape[axis + 1 :])
    if parameter.shape != expected:
        raise ValueError(
            f"scales per block of {block_size} along axis {axis} of a tensor of shape {shape} have"
            f" shape {expected}, not {parameter.shape}"
        )
    repeated = np.repeat(parameter, block_size, axis=axis)
    return repeated[tuple(slice(0, size) for size in shape)]


def spread_nbytes(shape: tuple[int, ...], scale: Tensor, zero_point: Tensor | None) -> int:
    """Return the bytes of scales and zero points of blocks, spread to ``shape``, with copies."""
    of_scale = 2 * max(scale.itemsize, _FLOAT32.itemsize)
    of_point = 0 if zero_point is None else 2 * zero_point.itemsize + _FLOAT32.itemsize
    per_element = of_scale + of_point
    return element_count(shape) * per_element


def quantization_nbytes(out: Tensor, x: Tensor, scale: Tensor) -> int:
    """Return the most bytes that :func:`quantize_into` takes besides ``out``."""
    is_float = x.dtype == scale.dtype == _FLOAT32
    if is_float and out.dtype.itemsize <= np.dtype(np.int16).itemsize and out.dtype.kind in "iu":
        return x.size * _FLOAT32.itemsize
    divided = 0 if x.dtype == scale.dtype else scale.itemsize
    return x.size * (divided + scale.itemsize + 3 * _FLOAT32.itemsize)


def dequantization_nbytes(out: Tensor, x: Tensor) -> int:
    """Return the most bytes that :func:`dequantize_into` takes besides ``out``."""
    work = 0 if out.dtype == _FLOAT32 else _FLOAT32.itemsize
    is_long = x.dtype.kind in "iu" and x.dtype.itemsize >= np.dtype(np.int32).itemsize
    read = 2 * np.dtype(np.int64).itemsize if is_long else _FLOAT32.itemsize
    return x.size * (work + (0 if x.dtype.kind in "iu" and not is_long else read))


def quantize_into(
    out: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor | None, *, saturate: bool = True
) -> None:
    """Write ``x``, quantized, to ``out`` in its type; scale and zero point broadcast with it.

    The division is in ``scale``'s type. NaN becomes the least integer.
    """
    divided = np.asarray(np.divide(x.astype(scale.dtype, copy=False), scale))
    if integer_range(out.dtype) is None:
        shifted = (
            divided
            if zero_point is None
            else divided.astype(_FLOAT32) + zero_point.astype(_FLOAT32)
        )
        np.copyto(out, converted(shifted, out.dtype, saturate=saturate), casting="unsafe")
        return
    round_into(out, divided, zero_point)


def round_into(out: Tensor, x: Tensor, zero_point: Tensor | None) -> None:
    """Write round(x) + zero point to ``out``, saturated to its integer type.

    ``x`` is scaled already and is overwritten.
    """
    limits = integer_range(out.dtype)
    assert limits is not None
    rounded = np.asarray(np.rint(x, out=x) if x.ndim and x.flags.writeable else np.rint(x))
    if rounded.dtype.itemsize < _FLOAT32.itemsize or rounded.dtype.kind == "V":
        rounded = rounded.astype(_FLOAT32)  # half precision has no room for a 16-bit zero point
    if zero_point is not None:
        rounded = np.asarray(
            np.add(rounded, zero_point.astype(rounded.dtype), out=rounded if rounded.ndim else None)
        )
    # fmax, not maximum: it replaces NaN, whose conversion to an integer is undefined.
    into = rounded if rounded.ndim and rounded.dtype == _FLOAT32 else None
    rounded = np.fmin(np.fmax(rounded, limits[0], out=into), limits[1], out=into)
    if out.dtype in _SUB_BYTE_RANGES:
        rounded = np.asarray(rounded).astype(np.int8)
    np.copyto(out, rounded, casting="unsafe")


def dequantize_into(out: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor | None) -> None:
    """Write (x - zero point) · scale, computed in float32, to ``out``.

    Scale and zero point broadcast with ``x``.
    """
    work = out if out.dtype == _FLOAT32 else np.empty(x.shape, _FLOAT32)
    if (
        x.dtype.kind in "iu"
        and x.dtype.itemsize >= np.dtype(np.int32).itemsize
        and zero_point is not None
    ):
        np.copyto(work, x.astype(np.int64) - zero_point, casting="unsafe")
    else:
        (
            np.copyto(work, x, casting="unsafe")
            if x.dtype.kind in "iu"
            else np.copyto(work, x.astype(_FLOAT32))
        )
        if zero_point is not None:
            np.subtract(work, zero_point.astype(_FLOAT32), out=work)
    np.multiply(work, scale.astype(_FLOAT32, copy=False), out=work)
    if work is not out:
        np.copyto(out, work, casting="unsafe")
