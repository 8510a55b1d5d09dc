"""From values to places along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: What is less is 0 on an axis: dividing it gives numbers that computers cannot tell from 0.
_LEAST_VALUE = 1e-200


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis from 0, or on a logarithmic one from ``origin``, to ``greatest``.

    Attributes:
        start, end: the places of its two ends; the end may be the lesser, as upwards in SVG.
        origin: what a logarithmic axis begins with; 0 for a linear one.
    """

    start: float
    end: float
    greatest: float
    origin: float = 0.0

    @property
    def is_logarithmic(self) -> bool:
        """Whether equal lengths are equal factors."""
        return self.origin > 0

    def length(self, value: float) -> float:
        """How far from the start ``value`` lies, towards the end."""
        if not self.is_logarithmic:
            share = value / self.greatest
        else:
            span = math.log10(self.greatest / self.origin)
            share = math.log10(max(value, self.origin) / self.origin) / span
        return share * abs(self.end - self.start)

    def place(self, value: float) -> float:
        """Where ``value`` lies."""
        return self.start + math.copysign(self.length(value), self.end - self.start)

    def round_ticks(self, count: int) -> list[float]:
        """About so many values for marks: powers of ten, or steps of 1, 2 or 5 of one."""
        if self.is_logarithmic:
            first, last = math.ceil(math.log10(self.origin)), math.floor(math.log10(self.greatest))
            return [10.0**power for power in range(first, last + 1)]
        rough = self.greatest / count
        power = 10 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        return [step * number for number in range(int(self.greatest / step) + 1)]

    def even_ticks(self, count: int) -> list[float]:
        """Values that part the axis into so many equal parts, both ends included."""
        return [self.greatest * number / count for number in range(count + 1)]


def scale_of(
    values: Sequence[float], *, start: float, end: float, logarithmic_from: float
) -> Scale:
    """The axis for ``values``, none of which is negative or infinite.

    It is logarithmic where the greatest is that many times the least that is more than 0.
    """
    known = [value for value in values if value > _LEAST_VALUE]
    greatest = max(known, default=1.0)
    least = min(known, default=1.0)
    # A logarithmic axis begins below the least value, so that every bar has a length.
    is_wide = greatest / least > logarithmic_from
    origin = 10 ** math.floor(math.log10(least) - 0.3) if is_wide else 0.0
    return Scale(start=start, end=end, greatest=greatest, origin=origin)


def maxima(values: Sequence[float], count: int) -> list[float]:
    """The greatest of each of ``count`` equal parts of ``values``, in order.

    All of ``values`` where there are no more than ``count`` of them.
    """
    total = len(values)
    if total <= count:
        return list(values)
    return [
        max(values[number * total // count : (number + 1) * total // count])
        for number in range(count)
    ]
