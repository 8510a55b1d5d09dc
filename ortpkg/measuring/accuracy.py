"""How far outputs are from those that were expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.package.formats.samples import Tolerance
from ortpkg.selection.variant_facts import Precision

Array = npt.NDArray[Any]

#: What an output may differ by where the samples do not say: float32 rounding over a few hundred
#: operations.
DEFAULT_TOLERANCE = Tolerance(absolute=1e-4, relative=1e-3)
#: The same of variants in few bits, whose numbers are as coarse as their scales: by the output's
#: largest number and its direction. A calibration that ruins a model turns its outputs.
_OF_FEW_BITS = {
    Precision.INT8: Tolerance(absolute=1e-4, of_largest=0.25, cosine=0.98),
    Precision.INT4: Tolerance(absolute=1e-4, of_largest=0.5, cosine=0.9),
}
#: The same of variants that compute in 16-bit floats, as a part of the output's largest number: ten
#: times what one rounding to bfloat16 takes off.
_ROUNDED_PART = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """The distance of one run's outputs, or of many runs', from what was expected.

    Attributes:
        max_abs_error: the largest absolute difference of two elements; infinite where shapes
            differ, or one is NaN.
        max_relative_error: the largest difference of an output, as a part of the largest number
            that is expected of it; infinite as that, and where only 0 is expected and something
            else comes.
        cosine: the least cosine of the angle between two outputs as vectors; 1 is the same
            direction. None where no output has a direction (no numbers, or all zero).
        is_within: whether every element is within its tolerance; None where no tolerance is stated.
        what: the output that is farthest off, and by how much, for people; "" where all are equal.
    """

    max_abs_error: float = 0.0
    max_relative_error: float = 0.0
    cosine: float | None = None
    is_within: bool | None = None
    what: str = ""


def default_tolerance(expected: Array, precision: Precision | None) -> Tolerance:
    """What an output may differ by where the samples do not say.

    Args:
        expected: the output.
        precision: that the variant computes in; None where nobody knows.
    """
    if precision in _OF_FEW_BITS and (expected.dtype.kind in "fc" or expected.dtype.isbuiltin == 2):
        return _OF_FEW_BITS[precision]
    if precision is not Precision.FP16:
        return DEFAULT_TOLERANCE
    numbers = _numbers(expected, expected)
    if numbers is None:
        return DEFAULT_TOLERANCE
    return Tolerance(
        absolute=max(_ROUNDED_PART * largest_number(numbers[1]), DEFAULT_TOLERANCE.absolute),
        relative=_ROUNDED_PART,
    )


def largest_number(numbers: Array) -> float:
    """The largest finite number without its sign; 0 where there is none."""
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))


def distance(
    actual: Mapping[str, Any],
    expected: Mapping[str, Array],
    tolerances: Mapping[str, Tolerance] | None,
) -> Distance:
    """Compare the outputs that are expected; one that is missing is infinitely far off.

    ``tolerances``: output → tolerance, for every one; None where the caller knows of none.
    """
    found = [_one(name, actual.get(name), array, tolerances) for name, array in expected.items()]
    return farthest(found)


def farthest(distances: Iterable[Distance]) -> Distance:
    """The distance of many: the worst of each."""
    found = list(distances)
    if not found:
        return Distance()
    worst = max(found, key=lambda each: (each.is_within is False, each.max_abs_error))
    cosines = [each.cosine for each in found if each.cosine is not None]
    judged = [each.is_within for each in found if each.is_within is not None]
    return Distance(
        max_abs_error=max(each.max_abs_error for each in found),
        max_relative_error=max(each.max_relative_error for each in found),
        cosine=min(cosines) if cosines else None,
        is_within=all(judged) if judged else None,
        what=worst.what,
    )


def _one(
    name: str, actual: Any, expected: Array, tolerances: Mapping[str, Tolerance] | None
) -> Distance:
    if actual is None:
        return _infinite(f"{name} is missing")
    array = np.asarray(actual)
    if array.shape != expected.shape:
        message = f"{name} has shape {list(array.shape)} instead of {list(expected.shape)}"
        return _infinite(message)
    pair = _numbers(array, expected)
    if pair is None:
        if not _is_same(array, expected):
            return _infinite(f"{name} holds other texts")
        return Distance(is_within=True)
    left, right = pair
    difference = _largest_difference(left, right)
    is_within: bool | None = None
    message = _off_by(name, difference)
    if tolerances is not None:
        is_within = _is_close(left, right, tolerances[name])
        if not is_within and difference < float("inf"):
            message += _scale_and_limit(left, right, difference, tolerances[name])
    elif difference == float("inf"):
        is_within = False  # no tolerance allows that
    return Distance(
        max_abs_error=difference,
        max_relative_error=_as_part_of(right, difference),
        cosine=_cosine(left, right),
        is_within=is_within,
        what=message,
    )


def is_within(actual: Any, expected: Array, tolerance: Tolerance) -> bool:
    """Whether shapes agree and every element is within tolerance; NaN agrees with NaN only."""
    pair = _numbers(actual, expected)
    if pair is None:
        return _is_same(actual, expected)
    return _is_close(*pair, tolerance)


def largest_difference(actual: Any, expected: Array) -> float:
    """The largest absolute difference.

    Infinite where shapes differ or only one of two elements is NaN.
    """
    pair = _numbers(actual, expected)
    if pair is None:
        return 0.0 if _is_same(actual, expected) else float("inf")
    return _largest_difference(*pair)


def _numbers(actual: Any, expected: Array) -> tuple[Array, Array] | None:
    """Both as float64 or complex128; None where shapes differ or one of them holds no numbers."""
    if not isinstance(actual, np.ndarray | np.generic):
        return None
    array = np.asarray(actual)
    if (
        expected.dtype.kind == "V"
        and expected.dtype.fields is None
        and expected.dtype.itemsize == array.dtype.itemsize
    ):
        expected = expected.view(array.dtype)  # npy files hold bfloat16 and its like as raw bytes
    if array.shape != expected.shape or not (
        _is_number(array.dtype) and _is_number(expected.dtype)
    ):
        return None
    wide = np.complex128 if "c" in (array.dtype.kind, expected.dtype.kind) else np.float64
    return array.astype(wide), expected.astype(wide)


def _is_number(dtype: np.dtype[Any]) -> bool:
    # 2: a type that an extension adds, such as bfloat16
    return dtype.kind in "fciub" or dtype.isbuiltin == 2


def _is_same(actual: Any, expected: Array) -> bool:
    if not isinstance(actual, np.ndarray | np.generic) or np.shape(actual) != expected.shape:
        return False
    array = np.asarray(actual)
    if _is_number(array.dtype) or _is_number(expected.dtype):
        return False
    return bool(np.array_equal(array.astype(str), expected.astype(str)))


def _infinite(what: str) -> Distance:
    return Distance(
        max_abs_error=float("inf"), max_relative_error=float("inf"), is_within=False, what=what
    )


def _as_part_of(expected: Array, difference: float) -> float:
    """A difference as a part of the largest number that is expected."""
    if not difference:
        return 0.0
    largest = largest_number(expected)
    return difference / largest if largest else float("inf")


def _is_close(left: Array, right: Array, tolerance: Tolerance) -> bool:
    absolute = tolerance.absolute
    if tolerance.of_largest:
        absolute += tolerance.of_largest * largest_number(right)
    if not np.allclose(left, right, rtol=tolerance.relative, atol=absolute, equal_nan=True):
        return False
    cosine = None if tolerance.cosine is None else _cosine(left, right)
    return cosine is None or tolerance.cosine is None or cosine >= tolerance.cosine


def limit_text(tolerance: Tolerance) -> str:
    """Return the error that an output may have, in words: "0.0001 and 0.1% of each number"."""
    parts = [f"{tolerance.absolute:.3g}"] if tolerance.absolute or not tolerance.of_largest else []
    parts += [f"{tolerance.relative:.3g} of each number"] if tolerance.relative else []
    parts += [f"{tolerance.of_largest:.3g} of the largest number"] if tolerance.of_largest else []
    text = " and ".join(parts)
    return text if tolerance.cosine is None else f"{text}, with a cosine of {tolerance.cosine:g}"


def _scale_and_limit(left: Array, right: Array, difference: float, tolerance: Tolerance) -> str:
    """Return what the error is compared with: the largest number, the direction, the limit."""
    part, cosine = _as_part_of(right, difference), _cosine(left, right)
    scale = f"{part:.2%} of its largest number, {largest_number(right):.3g}"
    direction = "" if cosine is None else f"; cosine {cosine:.5f}"
    return f" ({scale}{direction}); allowed is {limit_text(tolerance)}"


def _off_by(name: str, difference: float) -> str:
    if difference == float("inf"):
        return f"{name} has NaN or infinity where a number is expected, or the other way round"
    return f"{name} is off by up to {difference:.3g}" if difference else ""


def _largest_difference(left: Array, right: Array) -> float:
    with np.errstate(all="ignore"):
        difference = np.atleast_1d(np.abs(left - right))
    difference[np.atleast_1d((left == right) | (np.isnan(left) & np.isnan(right)))] = 0.0
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf).max(initial=0.0))


def _cosine(left: Array, right: Array) -> float | None:
    with np.errstate(all="ignore"):
        lengths = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
        found = float(np.real(np.vdot(left, right))) / lengths if lengths else float("nan")
    return min(1.0, max(-1.0, found)) if np.isfinite(found) else None
