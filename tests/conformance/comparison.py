"""Whether a runtime gives what a case expects: structure, element type, shape, values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Two units in the last place of bfloat16, as onnx's own runner allows.
_BFLOAT16_RTOL = 2**-6


def difference(
    actual: Sequence[Any], expected: Sequence[Any], *, rtol: float, atol: float
) -> str | None:
    """What is wrong with the outputs ``actual``, in one sentence; None where nothing is."""
    if len(actual) != len(expected):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        problem = _value_difference(one, other, rtol, atol)
        if problem:
            return f"output {index}: {problem}"
    return None


def _value_difference(actual: Any, expected: Any, rtol: float, atol: float) -> str | None:
    if expected is None or actual is None:
        return (
            None
            if actual is expected
            else f"{type(actual).__name__} instead of {type(expected).__name__}"
        )
    if isinstance(expected, list):
        if not isinstance(actual, list):
            return f"{type(actual).__name__} instead of a sequence"
        problem = difference(actual, expected, rtol=rtol, atol=atol)
        return f"in the sequence, {problem}" if problem else None
    if not isinstance(actual, np.ndarray):
        return f"{type(actual).__name__} instead of an array"
    return _array_difference(actual, expected, rtol, atol)


def _array_difference(actual: Any, expected: Any, rtol: float, atol: float) -> str | None:
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if expected.dtype == object or actual.dtype == object:
        return None if actual.tolist() == expected.tolist() else "other strings"
    if actual.dtype != expected.dtype:
        return f"type {actual.dtype} instead of {expected.dtype}"
    if expected.dtype.name == "bfloat16":
        rtol = max(rtol, _BFLOAT16_RTOL)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    left, right = actual.astype(wide), expected.astype(wide)
    near = np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    if near.all():
        return None
    at = np.unravel_index(int(np.argmin(near)), near.shape)
    where = [int(index) for index in at]
    return (
        f"{int((~near).sum())} of {near.size} elements differ, first {where}: {left[at]} instead of"
        f" {right[at]}"
    )
