"""Windows of an image laid out as the columns of a matrix, some rows of windows at a time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.scratch import Slot, take_scratch
from ortpkg.kernels.sliding_windows import Windows


@lru_cache(maxsize=1024)
def _padded_shape(windows: Windows, spatial: tuple[int, ...]) -> tuple[int, ...]:
    """The spatial shape in which every window lies inside.

    That of the image itself where there is no padding.
    """
    return tuple(
        max(first + size, (count - 1) * stride + (reach - 1) * dilation + 1)
        for first, size, count, stride, reach, dilation in zip(
            windows.before,
            spatial,
            windows.output,
            windows.strides,
            windows.kernel,
            windows.dilations,
            strict=True,
        )
    )


def padded_image(x: Tensor, windows: Windows, dtype: np.dtype[Any], zero_point: float) -> Tensor:
    """``x`` (channels, *spatial) minus ``zero_point`` in ``dtype``, among zeros, C-contiguous.

    ``x`` itself where it is that already.
    """
    shape = _padded_shape(windows, x.shape[1:])
    if shape == x.shape[1:] and x.dtype == dtype and not zero_point and x.flags.c_contiguous:
        return x
    (image,) = take_scratch(Slot.SHARED, ((x.shape[0], *shape), dtype))
    if shape == x.shape[1:]:
        inside = image
    else:
        image.fill(0)
        places = [
            slice(first, first + size)
            for first, size in zip(windows.before, x.shape[1:], strict=True)
        ]
        inside = image[(slice(None), *places)]
    inside[...] = x
    if zero_point:
        np.subtract(inside, dtype.type(zero_point), out=inside)
    return image


def unroll(image: Tensor, windows: Windows, start: int, columns: Tensor) -> None:
    """Copies windows to ``columns`` (channels, *kernel, rows from ``start``, *other outputs).

    ``image`` is what :func:`padded_image` gave.
    """
    steps = image.strides[1:]
    source: Tensor = np.ndarray(
        columns.shape,
        image.dtype,
        image.data,
        start * windows.strides[0] * steps[0],
        (
            image.strides[0],
            *(step * dilation for step, dilation in zip(steps, windows.dilations, strict=True)),
            *(step * stride for step, stride in zip(steps, windows.strides, strict=True)),
        ),
    )
    np.copyto(columns, source)
