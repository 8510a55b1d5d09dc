"""Windows of an image laid out as the columns of a matrix, a panel of output rows at a time.

The input rows that a panel sees go into a padded *band* first, split by stride phase along the last axis: there, the
elements that one tap of the kernel meets along a row lie side by side, whatever the stride.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ortpkg.kernels.axes import element_count
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.windows import Windows


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows ``start`` to ``stop`` (along the first of two or more spatial axes) of the windows over an image."""

    windows: Windows
    spatial: tuple[int, ...]
    start: int
    stop: int

    def band_shape(self, channels: int) -> tuple[int, ...]:
        """(channels, input rows, padded middle axes, stride phases, elements of a phase)."""
        w = self.windows
        reaches = [(k - 1) * d for k, d in zip(w.kernel, w.dilations, strict=True)]
        counts = (self.stop - self.start, *w.output[1:-1])
        rows = [(count - 1) * s + r + 1 for count, s, r in zip(counts, w.strides, reaches, strict=False)]
        return (channels, *rows, w.strides[-1], w.output[-1] + reaches[-1] // w.strides[-1])

    def column_shape(self, channels: int) -> tuple[int, ...]:
        """(channels, *kernel, *output positions of the panel)."""
        return (channels, *self.windows.kernel, self.stop - self.start, *self.windows.output[1:])

    def fill_band(self, x: Tensor, band: Tensor, zero_point: float = 0) -> None:
        """Copies what the panel sees of ``x`` (channels, *spatial) minus ``zero_point`` into ``band``; padding is 0."""
        w, last = self.windows, len(self.spatial) - 1
        firsts = [-before for before in w.before]
        firsts[0] += self.start * w.strides[0]
        places, sources, is_covered = [], [], True
        for axis in range(last):
            length = band.shape[1 + axis]
            low, high = _meeting(firsts[axis], length, 1, self.spatial[axis])
            places.append(slice(low, high))
            sources.append(slice(firsts[axis] + low, firsts[axis] + high))
            is_covered &= low == 0 and high == length
        step, length = w.strides[-1], band.shape[-1]
        for phase in range(step):
            low, high = _meeting(firsts[-1] + phase, length, step, self.spatial[-1])
            at = firsts[-1] + phase + low * step
            target = band[..., phase, :]
            if not is_covered or low or high != length:
                target.fill(zero_point)
            if high > low:
                own = slice(at, at + (high - low - 1) * step + 1, step)
                target[(slice(None), *places, slice(low, high))] = x[(slice(None), *sources, own)]
        if zero_point:
            np.subtract(band, band.dtype.type(zero_point), out=band)

    def unroll(self, band: Tensor, columns: Tensor) -> None:
        """Copies the windows from ``band`` into ``columns``, whose shape is that of :meth:`column_shape`."""
        w, last = self.windows, len(self.spatial) - 1
        steps = band.strides[1 : 1 + last]
        kernel_steps = [step * d for step, d in zip(steps, w.dilations[:-1], strict=True)]
        output_steps = [step * s for step, s in zip(steps, w.strides[:-1], strict=True)]
        outputs = columns.shape[2 + last :]
        for tap in range(w.kernel[-1]):
            shift = tap * w.dilations[-1]
            source = as_strided(
                band[..., shift % w.strides[-1], shift // w.strides[-1] :],
                shape=(band.shape[0], *w.kernel[:-1], *outputs),
                strides=(band.strides[0], *kernel_steps, *output_steps, band.itemsize),
                writeable=False,
            )
            every: list[Any] = [slice(None)] * (1 + last)
            np.copyto(columns[(*every, tap)], source)

    @property
    def positions(self) -> slice:
        """Where the panel's windows lie among all of an image's."""
        rest = element_count(self.windows.output[1:])
        return slice(self.start * rest, self.stop * rest)


def _meeting(first: int, count: int, step: int, size: int) -> tuple[int, int]:
    """Which of the positions first, first + step, ... (``count`` of them) lie within 0 to ``size``: a range."""
    low = min(max(-(first // step), 0), count)
    high = max(min((size - 1 - first) // step + 1, count), low)
    return low, high


def panels(windows: Windows, spatial: tuple[int, ...], rows: int) -> list[Panel]:
    """The windows cut into panels of ``rows`` rows."""
    count = windows.output[0]
    return [Panel(windows, spatial, start, min(start + rows, count)) for start in range(0, count, rows)]
