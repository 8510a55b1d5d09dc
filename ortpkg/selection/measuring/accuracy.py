"""Distance of a model's outputs from the expected ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.package.formats.samples import Tolerance
from ortpkg.selection.matching.variant_facts import Precision

Array = npt.NDArray[Any]

#: Default tolerance of an output: float32 rounding over a few hundred operations.
DEFAULT_TOLERANCE = Tolerance(absolute=1e-4, relative=1e-3)
#: Default tolerances of variants in few bits, whose numbers are as coarse as their scales: relative
#: to the output's largest number, and by its direction. A ruined calibration changes the direction.
_FEW_BITS_TOLERANCES = {
    Precision.INT8: Tolerance(absolute=1e-4, of_largest=0.25, cosine=0.98),
    Precision.INT4: Tolerance(absolute=1e-4, of_largest=0.5, cosine=0.9),
}
#: Default tolerance of variants that compute in 16-bit floats, as a part of the output's largest
#: number: ten times the error of one rounding to bfloat16.
_ROUNDED_PART = 0.02
#: ``isbuiltin`` of a type of an extension, such as bfloat16.
_OF_EXTENSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """Distance of the outputs of one or more runs from the expected ones.

    Attributes:
        max_abs_error: largest absolute difference of two elements; infinite if shapes differ, or
            one is NaN.
        max_relative_error: largest difference of an output, as a part of the largest expected
            number; infinite in the same cases, and if only 0 is expected and something else comes.
        cosine: least cosine of the angle between two outputs as vectors; 1 means the same
            direction. None if no output has a direction (no numbers, or all zero).
        is_within: True if every element is within its tolerance; None if no tolerance is stated.
        what: the output that is farthest off, and by how much, for people; "" if all are equal.
    """

    max_abs_error: float = 0.0
    max_relative_error: float = 0.0
    cosine: float | None = None
    is_within: bool | None = None
    what: str = ""


def default_tolerance(expected: Array, precision: Precision | None) -> Tolerance:
    """Return the tolerance of an output for which the samples state none.

    Args:
        expected: the expected output.
        precision: precision that the variant computes in; None if unknown.
    """
    if precision in _FEW_BITS_TOLERANCES and is_float(expected.dtype):
        return _FEW_BITS_TOLERANCES[precision]
    if precision is not Precision.FP16:
        return DEFAULT_TOLERANCE
    numbers = numbers_of(expected, expected)
    if numbers is None:
        return DEFAULT_TOLERANCE
    return Tolerance(
        absolute=max(_ROUNDED_PART * largest_number(numbers[1]), DEFAULT_TOLERANCE.absolute),
        relative=_ROUNDED_PART,
    )


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return True for floating-point and complex numbers, those of extensions included."""
    return dtype.kind in "fc" or dtype.isbuiltin == _OF_EXTENSION


def largest_number(numbers: Array) -> float:
    """Return the largest finite absolute value; 0 if there is none."""
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))


def distance(
    actual: Mapping[str, Any],
    expected: Mapping[str, Array],
    tolerances: Mapping[str, Tolerance] | None,
) -> Distance:
    """Compare actual outputs with the expected ones; a missing one is infinitely far off.

    ``tolerances``: output → tolerance, for every output; None if the caller has none.
    """
    distances = [
        _output_distance(name, actual.get(name), array, tolerances)
        for name, array in expected.items()
    ]
    return farthest(distances)


def farthest(distances: Iterable[Distance]) -> Distance:
    """Combine several distances: the worst of each field."""
    all_distances = list(distances)
    if not all_distances:
        return Distance()
    worst = max(all_distances, key=lambda item: (item.is_within is False, item.max_abs_error))
    cosines = [item.cosine for item in all_distances if item.cosine is not None]
    judged = [item.is_within for item in all_distances if item.is_within is not None]
    return Distance(
        max_abs_error=max(item.max_abs_error for item in all_distances),
        max_relative_error=max(item.max_relative_error for item in all_distances),
        cosine=min(cosines) if cosines else None,
        is_within=all(judged) if judged else None,
        what=worst.what,
    )


def _output_distance(
    name: str, actual: Any, expected: Array, tolerances: Mapping[str, Tolerance] | None
) -> Distance:
    if actual is None:
        return _infinite(f"{name} is missing")
    array = np.asarray(actual)
    if array.shape != expected.shape:
        message = f"{name} has shape {list(array.shape)} instead of {list(expected.shape)}"
        return _infinite(message)
    pair = numbers_of(array, expected)
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
        max_relative_error=_relative_to_largest(right, difference),
        cosine=cosine_of(left, right),
        is_within=is_within,
        what=message,
    )


def is_within(actual: Any, expected: Array, tolerance: Tolerance) -> bool:
    """Return True if shapes agree and every element is within tolerance.

    NaN agrees with NaN only.
    """
    pair = numbers_of(actual, expected)
    if pair is None:
        return _is_same(actual, expected)
    return _is_close(*pair, tolerance)


def largest_difference(actual: Any, expected: Array) -> float:
    """Return the largest absolute difference.

    It is infinite if shapes differ, or if only one of two elements is NaN.
    """
    pair = numbers_of(actual, expected)
    if pair is None:
        return 0.0 if _is_same(actual, expected) else float("inf")
    return _largest_difference(*pair)


def numbers_of(actual: Any, expected: Array) -> tuple[Array, Array] | None:
    """Return both as float64 or complex128.

    None if shapes differ or one of them holds no numbers.
    """
    if not isinstance(actual, np.ndarray | np.generic):
        return None
    array = np.asarray(actual)
    if (
        expected.dtype.kind == "V"
        and expected.dtype.fields is None
        and expected.dtype.itemsize == array.dtype.itemsize
    ):
        expected = expected.view(array.dtype)  # npy files store bfloat16 and the like as raw bytes
    if array.shape != expected.shape or not (
        _is_number(array.dtype) and _is_number(expected.dtype)
    ):
        return None
    wide = np.complex128 if "c" in (array.dtype.kind, expected.dtype.kind) else np.float64
    return array.astype(wide), expected.astype(wide)


def _is_number(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fciub" or dtype.isbuiltin == _OF_EXTENSION


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


def _relative_to_largest(expected: Array, difference: float) -> float:
    """Return a difference as a part of the largest expected number."""
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
    cosine = None if tolerance.cosine is None else cosine_of(left, right)
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
    part, cosine = _relative_to_largest(right, difference), cosine_of(left, right)
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


def cosine_of(left: Array, right: Array) -> float | None:
    """Return the cosine of the angle between two arrays as vectors.

    None if one of them has no direction.
    """
    with np.errstate(all="ignore"):
        lengths = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
        cosine = float(np.real(np.vdot(left, right))) / lengths if lengths else float("nan")
    return min(1.0, max(-1.0, cosine)) if np.isfinite(cosine) else None
