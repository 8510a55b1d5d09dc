"""Padding of images, and views of the windows over them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ortpkg.runtime.kernels.op_kernel import Tensor
from ortpkg.runtime.kernels.sliding_windows import SlidingWindows


@lru_cache(maxsize=1024)
def _padded_shape(windows: SlidingWindows, spatial: tuple[int, ...]) -> tuple[int, ...]:
    """Return the spatial shape in which every window lies inside.

    Without padding it is the shape of the image.
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


def padded_image(
    x: Tensor, windows: SlidingWindows, dtype: np.dtype[Any], zero_point: float
) -> Tensor:
    """Return ``x`` (channels, *spatial) minus ``zero_point`` in ``dtype``, surrounded by zeros.

    The result is C-contiguous: ``x`` itself if it is that already.
    """
    shape = _padded_shape(windows, x.shape[1:])
    if shape == x.shape[1:] and x.dtype == dtype and not zero_point and x.flags.c_contiguous:
        return x
    image = np.zeros((x.shape[0], *shape), dtype)
    inside = image[
        (
            slice(None),
            *(
                slice(first, first + size)
                for first, size in zip(windows.before, x.shape[1:], strict=True)
            ),
        )
    ]
    np.subtract(x, dtype.type(zero_point), out=inside, dtype=dtype, casting="unsafe")
    return image


def window_view(image: Tensor, windows: SlidingWindows, start: int, stop: int) -> Tensor:
    """Return windows of ``image`` as (channels, *kernel, rows ``start`` to ``stop``, *outputs).

    ``image`` is a result of :func:`padded_image`, which the view shares its memory with.
    """
    steps = image.strides[1:]
    view: Tensor = np.ndarray(
        (image.shape[0], *windows.kernel, stop - start, *windows.output[1:]),
        image.dtype,
        image.data,
        start * windows.strides[0] * steps[0],
        (
            image.strides[0],
            *(step * dilation for step, dilation in zip(steps, windows.dilations, strict=True)),
            *(step * stride for step, stride in zip(steps, windows.strides, strict=True)),
        ),
    )
    return view
