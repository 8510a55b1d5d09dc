"""Geometry of sliding windows: kernel shape, strides, dilations, padding, output size.

Source: the Conv, ConvTranspose and *Pool operators. Lists run over the spatial axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.runtime.kernels.op_kernel import OpKernelInfo

_POLLED_TAPS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindows:
    """Windows over one input shape.

    Attributes:
        kernel, strides, dilations: one number per spatial axis.
        before, after: padding; if the last window reaches beyond ``after`` (ceil mode), it sees
            nothing there.
        output: number of windows.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    output: tuple[int, ...]

    def most_taps(self, axis: int, size: int) -> int:
        """Return the largest possible number of :meth:`taps`."""
        of_each_window = size // self.dilations[axis] + 1
        return min(len(self._reaching(axis, size)), self.output[axis] * of_each_window)

    def _reaching(self, axis: int, size: int) -> range:
        """Return the positions in the window that can reach the input; few if it is much larger."""
        first, dilation = self.before[axis], self.dilations[axis]
        last_start = (self.output[axis] - 1) * self.strides[axis] - first
        lowest = max(-(last_start // dilation), 0)
        return range(lowest, min((size - 1 + first) // dilation + 1, self.kernel[axis]))

    def taps(self, axis: int, size: int) -> Iterator[tuple[slice, slice]]:
        """Yield the (outputs, inputs) that each position of a window joins, without padding."""
        stride, first = self.strides[axis], self.before[axis]
        for tap in self._reaching(axis, size):
            if not tap % _POLLED_TAPS:
                poll_run()
            shift = tap * self.dilations[axis] - first
            start = max(-(shift // stride), 0)  # the first window whose element lies at 0 or beyond
            stop = min((size - 1 - shift) // stride + 1, self.output[axis])
            if stop > start:
                at = start * stride + shift
                yield slice(start, stop), slice(at, at + (stop - start - 1) * stride + 1, stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAttributes:
    """Window attributes of a node, before the input's shape is known.

    They are empty if left out.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str
    ceil_mode: bool

    @classmethod
    def of(cls, info: OpKernelInfo) -> WindowAttributes:
        """Read a node's attributes; :mod:`ortpkg.graph.attribute_checks` has checked each alone."""
        return cls(
            kernel=tuple(info.attribute("kernel_shape", ())),
            strides=tuple(info.attribute("strides", ())),
            dilations=tuple(info.attribute("dilations", ())),
            pads=tuple(info.attribute("pads", ())),
            auto_pad=str(info.attribute("auto_pad", "NOTSET")),
            ceil_mode=bool(info.attribute("ceil_mode", 0)),
        )

    def lists(
        self, rank: int, kernel: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return kernel, strides and dilations for ``rank`` spatial axes.

        Raises:
            ValueError: a list has a wrong length or value.
        """
        kernel = self.kernel or tuple(kernel)
        strides, dilations = self.strides or (1,) * rank, self.dilations or (1,) * rank
        for name, values in (
            ("kernel_shape", kernel),
            ("strides", strides),
            ("dilations", dilations),
        ):
            if len(values) != rank or any(value < 1 for value in values):
                raise ValueError(
                    f"{name} {tuple(values)} does not fit {rank} spatial axes of windows of size 1"
                    " or more"
                )
        if self.pads and (len(self.pads) != 2 * rank or any(pad < 0 for pad in self.pads)):
            raise ValueError(
                f"pads {self.pads} do not fit {rank} spatial axes: two of 0 or more per axis are"
                " needed"
            )
        return tuple(kernel), tuple(strides), tuple(dilations)

    def windows(self, spatial: tuple[int, ...], kernel: tuple[int, ...] = ()) -> SlidingWindows:
        """Return the windows over an input with these spatial sizes.

        There are none if a window exceeds the axis by at most a stride.

        Raises:
            ValueError: ONNX's formula gives a negative count.
        """
        return _windows(self, spatial, kernel)

    def find_windows(self, spatial: tuple[int, ...], kernel: tuple[int, ...]) -> SlidingWindows:
        """Compute what :meth:`windows` returns, without remembering it."""
        rank = len(spatial)
        kernel, strides, dilations = self.lists(rank, kernel)
        before, after, output = [], [], []
        for axis, size in enumerate(spatial):
            reach, stride = (kernel[axis] - 1) * dilations[axis] + 1, strides[axis]
            if self.auto_pad.startswith("SAME"):
                count = -(-size // stride)
                total = max((count - 1) * stride + reach - size, 0)
                first = total // 2 if self.auto_pad == "SAME_UPPER" else total - total // 2
                last = total - first
            else:
                first, last = self._explicit_pads(axis, rank)
                room = size + first + last - reach
                count = (-(-room // stride) if self.ceil_mode else room // stride) + 1
                if self.ceil_mode and (count - 1) * stride >= size + first:
                    # a window that would start in the padding behind the input does not count
                    count -= 1
            if count < 0:  # 0 is an empty output, as the operators' formula says
                raise ValueError(
                    f"a window reaching over {reach} elements does not fit an axis of {size}"
                    " elements"
                )
            before.append(first)
            after.append(last)
            output.append(count)
        return SlidingWindows(
            kernel=kernel,
            strides=strides,
            dilations=dilations,
            before=tuple(before),
            after=tuple(after),
            output=tuple(output),
        )

    def _explicit_pads(self, axis: int, rank: int) -> tuple[int, int]:
        if self.auto_pad == "VALID" or not self.pads:
            return 0, 0
        return self.pads[axis], self.pads[rank + axis]


@lru_cache(maxsize=1024)
def _windows(
    attributes: WindowAttributes, spatial: tuple[int, ...], kernel: tuple[int, ...]
) -> SlidingWindows:
    return attributes.find_windows(spatial, kernel)
