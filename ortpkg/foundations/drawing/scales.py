"""Scales that map values to positions along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Smaller values are 0 on an axis: dividing by them overflows.
_LEAST_VALUE = 1e-200


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Axis from 0, or on a logarithmic one from ``origin``, to ``greatest``.

    Attributes:
        start, end: Positions of its ends; the end may be the smaller one, as upwards in SVG.
        greatest: Value at the end.
        origin: First value of a logarithmic axis; 0 for a linear one.
    """

    start: float
    end: float
    greatest: float
    origin: float = 0.0

    @property
    def is_logarithmic(self) -> bool:
        """True if equal lengths are equal factors."""
        return self.origin > 0

    def length(self, value: float) -> float:
        """Return the distance of ``value`` from the start."""
        if not self.is_logarithmic:
            share = value / self.greatest
        else:
            span = math.log10(self.greatest / self.origin)
            share = math.log10(max(value, self.origin) / self.origin) / span
        return share * abs(self.end - self.start)

    def place(self, value: float) -> float:
        """Return the position of ``value``."""
        return self.start + math.copysign(self.length(value), self.end - self.start)

    def round_ticks(self, count: int) -> list[float]:
        """Return about ``count`` values for ticks.

        They are powers of ten, or steps of 1, 2 or 5 times one.
        """
        if self.is_logarithmic:
            first, last = math.ceil(math.log10(self.origin)), math.floor(math.log10(self.greatest))
            return [10.0**power for power in range(first, last + 1)]
        rough = self.greatest / count
        power = 10 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        return [step * number for number in range(int(self.greatest / step) + 1)]

    def even_ticks(self, count: int) -> list[float]:
        """Return values that divide the axis into ``count`` equal parts, with both ends."""
        return [self.greatest * number / count for number in range(count + 1)]


def scale_of(
    values: Sequence[float], *, start: float, end: float, logarithmic_from: float
) -> Scale:
    """Return the axis for ``values``, none of which is negative or infinite.

    It is logarithmic if the greatest is more than ``logarithmic_from`` times the smallest positive
    one.
    """
    positive = [value for value in values if value > _LEAST_VALUE]
    greatest = max(positive, default=1.0)
    least = min(positive, default=1.0)
    # A logarithmic axis starts below the smallest value, so that every bar has a length.
    is_wide = greatest / least > logarithmic_from
    origin = 10 ** math.floor(math.log10(least) - 0.3) if is_wide else 0.0
    return Scale(start=start, end=end, greatest=greatest, origin=origin)


def maxima(values: Sequence[float], count: int) -> list[float]:
    """Return the greatest of each of ``count`` equal parts of ``values``, in order.

    If there are at most ``count`` values, all are returned.
    """
    total = len(values)
    if total <= count:
        return list(values)
    return [
        max(values[number * total // count : (number + 1) * total // count])
        for number in range(count)
    ]
