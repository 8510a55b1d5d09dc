"""Check of outputs in few bits without what is common to all of them.

The default tolerances of variants in few bits are parts of an output's largest number and a least
cosine. A large bias makes the largest number large and every cosine nearly 1, however wrong the
rest is. So the outputs of all samples are compared a second time, after the mean of the expected
output has been subtracted from both: the mean of all elements, and the mean of each column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.selection.matching.variant_facts import Precision
from ortpkg.selection.measuring.accuracy import (
    cosine_of,
    default_tolerance,
    is_float,
    is_within,
    largest_number,
    numbers_of,
)

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Limit:
    """Largest error, as a part of the largest number that is left, and least cosine."""

    part: float
    cosine: float


#: Cosines are lower than those of whole outputs, since the part that agrees anyway is gone.
_LIMITS = {Precision.INT8: _Limit(0.25, 0.95), Precision.INT4: _Limit(0.5, 0.9)}
_SMALLEST_ERROR = 1e-4
#: Fewest rows whose mean says what all have in common; that of two is half of each.
_FEWEST_ROWS = 8
#: Variation, as a part of the largest number, below which an output is constant.
_CONSTANT = 1e-6


def variation_fault(
    name: str, actual: Sequence[Any], expected: Sequence[Array], precision: Precision | None
) -> str:
    """Return in words how the outputs of all samples vary otherwise than expected; "" if not.

    What a variant in 16-bit floats may be off by is always allowed. Outputs that hold no
    floating-point numbers, are constant, or have another shape than expected have no fault here.

    Args:
        name: of the output.
        actual, expected: arrays with rows along their leading axis, one or more each.
        precision: precision that the variant computes in; only int8 and int4 have limits.
    """
    limit = None if precision is None else _LIMITS.get(precision)
    if limit is None or not all(is_float(array.dtype) for array in expected):
        return ""
    pairs = [numbers_of(*pair) for pair in zip(actual, expected, strict=True)]
    numbers = [pair for pair in pairs if pair is not None]
    if not numbers or len(numbers) < len(pairs):
        return ""
    left, right = (_joined([pair[side] for pair in numbers]) for side in (0, 1))
    if is_within(left, right, default_tolerance(right, Precision.FP16)):
        return ""
    is_compared = np.isfinite(left) & np.isfinite(right)
    for mean, owner in _means(right, is_compared):
        centred = [np.where(is_compared, side - mean, 0.0) for side in (left, right)]
        largest = largest_number(centred[1])
        if largest <= _CONSTANT * largest_number(right):
            continue
        error = largest_number(centred[0] - centred[1])
        cosine = cosine_of(centred[0], centred[1])
        if error > _SMALLEST_ERROR + limit.part * largest or (
            cosine is not None and cosine < limit.cosine
        ):
            return _fault_text(name, owner, error, largest, cosine, limit)
    return ""


def _joined(arrays: Sequence[Array]) -> Array:
    """Return all rows in one array; all numbers in one row if the rows have different shapes."""
    rows = [np.atleast_1d(array) for array in arrays]
    if len({row.shape[1:] for row in rows}) == 1:
        return np.concatenate(rows)
    return np.concatenate([row.reshape(-1) for row in rows])[np.newaxis]


def _means(expected: Array, is_compared: npt.NDArray[np.bool_]) -> Iterator[tuple[Array, str]]:
    """Yield the mean of all elements, and of each column if there are enough rows; in words."""
    numbers = np.where(is_compared, expected, 0.0)
    with np.errstate(all="ignore"):
        yield numbers.sum() / max(1, int(is_compared.sum())), "the mean"
        if expected.ndim > 1 and len(expected) >= _FEWEST_ROWS:
            counts = np.maximum(1, is_compared.sum(axis=0))
            yield numbers.sum(axis=0) / counts, "the mean of each column"


def _fault_text(
    name: str, owner: str, error: float, largest: float, cosine: float | None, limit: _Limit
) -> str:
    direction = "" if cosine is None else f"; cosine {cosine:.5f}"
    return (
        f"{name} is off by up to {error:.3g} ({error / largest:.2%} of its largest difference from"
        f" {owner}, {largest:.3g}{direction}); allowed is {limit.part:.3g} of that, with a cosine"
        f" of {limit.cosine:g}"
    )
