"""Convolutions and poolings of random shapes, with what numpy makes of them, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.tensor_ir.operations import Window

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCase:
    """Sizes along the spatial axes, and the window over them."""

    source: tuple[int, ...]
    window: Window

    @property
    def output(self) -> tuple[int, ...]:
        """How many windows there are along each axis."""
        window = self.window
        return tuple(
            (size + _number(before) + _number(after) - (kernel - 1) * dilation - 1) // stride + 1
            for size, before, after, kernel, dilation, stride in zip(
                self.source,
                window.before,
                window.after,
                window.kernel,
                window.dilations,
                window.strides,
                strict=True,
            )
        )

    def taps(self, source: Array, fill: float) -> Iterator[tuple[tuple[int, ...], Array]]:
        """For each tap of the window, the elements that it meets, of the output's sizes."""
        window = self.window
        pairs = zip(window.before, window.after, strict=True)
        sides = [(_number(before), _number(after)) for before, after in pairs]
        padded = np.pad(source, [(0, 0), (0, 0), *sides], constant_values=fill)
        for tap in product(*map(range, window.kernel)):
            slices = [
                slice(place * dilation, place * dilation + (count - 1) * stride + 1, stride)
                for place, dilation, count, stride in zip(
                    tap, window.dilations, self.output, window.strides, strict=True
                )
            ]
            yield tap, padded[:, :, *slices]


def random_window(generator: np.random.Generator, rank: int, most: int) -> WindowCase:
    """A window that fits at least once along each axis, of which none is longer than ``most``."""
    kernel = tuple(int(each) for each in generator.integers(1, 5, rank))
    dilations = tuple(int(each) for each in generator.choice([1, 1, 2], rank))
    pads = generator.integers(0, 4, (2, rank)) * generator.integers(0, 2)
    source = []
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        least = max(1, reach - int(pads[:, axis].sum()))
        source.append(int(generator.integers(least, max(least, most) + 1)))
    window = Window(
        kernel=kernel,
        strides=tuple(int(each) for each in generator.integers(1, 4, rank)),
        dilations=dilations,
        before=tuple(int(each) for each in pads[0]),
        after=tuple(int(each) for each in pads[1]),
    )
    return WindowCase(source=tuple(source), window=window)


def convolved(source: Array, weights: Array, case: WindowCase, groups: int) -> Array:
    """The convolution, in f64."""
    batch, channels = source.shape[:2]
    outputs, group_channels = weights.shape[:2]
    made = np.zeros((batch, groups, outputs // groups, *case.output))
    parted = weights.reshape(groups, outputs // groups, group_channels, *weights.shape[2:])
    for tap, elements in case.taps(source.astype(np.float64), 0.0):
        grouped = elements.reshape(batch, groups, channels // groups, prod(case.output))
        place: Any = (..., *tap)
        sums = np.einsum("bgcp,goc->bgop", grouped, parted[place])
        made += sums.reshape(made.shape)
    return made.reshape(batch, outputs, *case.output)


def in_blocks(array: Array, lanes: int) -> Array:
    """A plain array blocked; lanes behind the last channel are 0."""
    batch, channels, *spatial = array.shape
    blocks = -(-channels // lanes)
    wide = np.zeros((batch, blocks * lanes, *spatial), array.dtype)
    wide[:, :channels] = array
    split = wide.reshape(batch, blocks, lanes, *spatial)
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


def blocked_shape(shape: Sequence[Any], lanes: int) -> tuple[Any, ...]:
    """The shape of a plain tensor blocked."""
    return (shape[0], -(-shape[1] // lanes), *shape[2:], lanes)


def _number(size: object) -> int:
    assert isinstance(size, int)
    return size
