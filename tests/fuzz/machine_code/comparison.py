"""Whether machine code gave what the numpy kernels give, as far as rounding allows.

Integers, bools and floats that no rounding touches are equal, NaN where NaN. Other floats differ by
no more than ``_MOST_MOVED`` times what the reference moves where every number on the way moves by
16 roundings of its kind: longer sums, and differences of near numbers, may differ by more. Codes of
8 bits that follow from rounded numbers may be one off.
"""

from __future__ import annotations

import numpy as np

from tests.fuzz.machine_code.graph_maker import MOVED, Array, Value

_MOST_MOVED = 4.0
#: What a number may differ by in any case, in moves of its own.
_SHARE = 4.0
#: Smaller floats may be 0.
_LEAST = 2.0**-126


def difference(made: Array, value: Value, run: int) -> str | None:
    """How what was computed differs from the value of that run; None where it does not."""
    wanted, moved = value.arrays[run], value.moved[run]
    if (made.dtype, made.shape) != (wanted.dtype, wanted.shape):
        return f"{made.dtype} {made.shape} instead of {wanted.dtype} {wanted.shape}"
    if not wanted.size:
        return None
    if wanted.dtype.kind in "iub":
        allowed = 0 if value.is_exact else np.abs(_wide(moved) - _wide(wanted)).max() + 1
        off = np.abs(_wide(made) - _wide(wanted))
        return _told(off > allowed, made, wanted, float(allowed))
    return _difference_of_floats(_wide(made), _wide(wanted), _wide(moved), value)


def _wide(array: Array) -> Array:
    return array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)


def _difference_of_floats(made: Array, wanted: Array, moved: Array, value: Value) -> str | None:
    with np.errstate(all="ignore"):
        if value.is_exact:
            same = (made == wanted) | (np.isnan(made) & np.isnan(wanted))
            return _told(~same, made, wanted, 0.0)
        # where what moves becomes infinite, or NaN, rounding decides
        is_steady = np.isfinite(moved) == np.isfinite(wanted)
        is_wrong = ~np.isfinite(wanted) & is_steady
        is_wrong &= ~((made == wanted) | (np.isnan(made) & np.isnan(wanted)))
        finite = np.isfinite(wanted) & np.isfinite(moved)
        span = np.abs(moved[finite] - wanted[finite]).max(initial=0)
        allowed = _MOST_MOVED * span + _SHARE * MOVED[value.dtype] * np.abs(wanted) + _LEAST
        is_wrong |= finite & ~(np.abs(made - wanted) <= allowed)
        most = float(np.where(finite, allowed, 0).max())
    return _told(is_wrong, made, wanted, most)


def _told(is_wrong: Array, made: Array, wanted: Array, allowed: float) -> str | None:
    """What is wrong, with the first place; None where nothing is."""
    if not is_wrong.any():
        return None
    at = tuple(int(each) for each in np.argwhere(is_wrong)[0])
    return (
        f"{int(is_wrong.sum())} of {is_wrong.size} elements differ by more than {allowed:.3g};"
        f" {made[at]!r} instead of {wanted[at]!r} at {list(at)} of {list(made.shape)}"
    )
