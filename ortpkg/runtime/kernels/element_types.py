"""Groups of element types for kernel declarations, and the type that a kernel computes in.

numpy computes float16 slowly and the ml_dtypes types (bfloat16, float8) with a conversion per
operation; where more than one operation follows, kernels compute in float32 and round once at the
end.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ortpkg.graph.types import ElementType as E
from ortpkg.runtime.kernels.op_kernel import Tensor

FLOATS = frozenset({E.FLOAT, E.DOUBLE, E.FLOAT16, E.BFLOAT16})
SIGNED_INTEGERS = frozenset({E.INT8, E.INT16, E.INT32, E.INT64})
UNSIGNED_INTEGERS = frozenset({E.UINT8, E.UINT16, E.UINT32, E.UINT64})
INTEGERS = SIGNED_INTEGERS | UNSIGNED_INTEGERS
NUMBERS = FLOATS | INTEGERS
BOOLEAN = frozenset({E.BOOL})
COMPLEX = frozenset({E.COMPLEX64, E.COMPLEX128})

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)
_NARROW_FLOATS = frozenset(
    np.dtype(dtype)
    for dtype in (
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
)


def is_narrow_float(dtype: np.dtype[Any]) -> bool:
    """Return True if ``dtype`` is a float type that kernels compute in float32."""
    return dtype in _NARROW_FLOATS


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type to compute ``dtype`` in: float32 for narrow floats, else ``dtype``."""
    return _FLOAT32 if dtype in _NARROW_FLOATS else dtype


def widened(x: Tensor) -> Tensor:
    """Return ``x`` in its compute type; ``x`` itself if it has that type already."""
    return x.astype(_FLOAT32) if x.dtype in _NARROW_FLOATS else x


def widened_nbytes(*tensors: Tensor | None) -> int:
    """Return the bytes that :func:`widened` allocates for tensors; None counts nothing."""
    nbytes = 0
    for x in tensors:
        if x is not None and x.dtype in _NARROW_FLOATS:
            nbytes += x.size * _FLOAT32.itemsize
    return nbytes


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return True if ``dtype`` is a floating-point type, narrow ones included."""
    return dtype in (_FLOAT32, _FLOAT64) or dtype in _NARROW_FLOATS
