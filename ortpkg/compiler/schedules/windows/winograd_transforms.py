"""Winograd's transforms for windows of 3: squares of 6 elements give squares of 4 sums.

A sum over a window of 3 at 4 neighbouring positions is a product of polynomials. It is found from
its
values at six points, where it is one product each: 36 products in two dimensions for 16 sums, which
take 144 directly. Points are 0, ±3/4, ±3/2 and infinity: all numbers of the transforms except those
of
weights are exact in binary, and the error is about twice that of the direct sums; the usual
points 0, ±1, ±2 have ten times.

Source: A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2016; B. Barabasz
and others, "Error Analysis and Improving the Accuracy of Winograd Convolution", 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy.typing as npt

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder

#: Sizes along an axis: of the window, of a square's sums, and of a square's source elements.
WINDOW, OUTPUT_SIZE, INPUT_SIZE = 3, 4, 6
_NEAR, _FAR = 0.75, 1.5
_NEAR_SQUARED, _FAR_SQUARED = _NEAR * _NEAR, _FAR * _FAR


def transformed_source(b: KernelBuilder, elements: Sequence[Value]) -> list[Value]:
    """Return six neighbours as values at the points, times the divisor of the weights."""
    d = elements
    both, product = _NEAR_SQUARED + _FAR_SQUARED, _NEAR_SQUARED * _FAR_SQUARED
    even_near, odd_near = b.fma(d[2], -_FAR_SQUARED, d[4]), b.fma(d[1], -_FAR_SQUARED, d[3])
    even_far, odd_far = b.fma(d[2], -_NEAR_SQUARED, d[4]), b.fma(d[1], -_NEAR_SQUARED, d[3])
    return [
        b.fma(d[0], product, b.fma(d[2], -both, d[4])),
        b.fma(odd_near, _NEAR, even_near),
        b.fma(odd_near, -_NEAR, even_near),
        b.fma(odd_far, _FAR, even_far),
        b.fma(odd_far, -_FAR, even_far),
        b.fma(d[1], product, b.fma(d[3], -both, d[5])),
    ]


def transformed_sums(b: KernelBuilder, values: Sequence[Value]) -> list[Value]:
    """Return the four sums from the products at the points."""
    near, far = b.add(values[1], values[2]), b.add(values[3], values[4])
    near_odd, far_odd = b.sub(values[1], values[2]), b.sub(values[3], values[4])
    return [
        b.add(values[0], b.add(near, far)),
        b.fma(near_odd, _NEAR, b.mul(far_odd, _FAR)),
        b.fma(near, _NEAR_SQUARED, b.mul(far, _FAR_SQUARED)),
        b.fma(near_odd, _NEAR**3, b.fma(far_odd, _FAR**3, values[5])),
    ]


def transformed_weights(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return weights (..., 3, 3) as f64 values at all pairs of points, (36, ...).

    Sums are made one after the other, so that all machines give the same bits.
    """
    # imported here, since only packing needs numpy
    import numpy as np

    points = (0.0, _NEAR, -_NEAR, _FAR, -_FAR)
    powers = [
        [term / prod(point - other for other in points if other != point)
         for term in (1.0, point, point * point)]
        for point in points
    ]  # fmt: skip
    powers.append([0.0, 0.0, 1.0])
    window = np.ascontiguousarray(np.moveaxis(weights, (-2, -1), (0, 1)), np.float64)
    made = np.empty((INPUT_SIZE, INPUT_SIZE, *weights.shape[:-2]))
    for row, left in enumerate(powers):
        rows = [sum(left[at] * window[at, column] for at in range(WINDOW))
                for column in range(WINDOW)]  # fmt: skip
        for column, right in enumerate(powers):
            made[row, column] = sum(right[at] * rows[at] for at in range(WINDOW))
    return made.reshape(INPUT_SIZE * INPUT_SIZE, *weights.shape[:-2])
