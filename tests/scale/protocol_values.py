"""Arrays of every datatype of the protocol, at its edges."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

#: Datatype → its extremes, and what else may go wrong.
VALUES: dict[str, Any] = {
    "BOOL": np.array([True, False]),
    **{
        f"{kind}INT{bits}": np.array(
            [np.iinfo(f"{kind}int{bits}".lower()).min, np.iinfo(f"{kind}int{bits}".lower()).max],
            f"{kind}int{bits}".lower(),
        )
        for kind in ("", "U")
        for bits in (8, 16, 32, 64)
    },
    "FP16": np.array([-65504, 6e-8], np.float16),
    "BF16": np.array([-1.5, 256], ml_dtypes.bfloat16),
    "FP32": np.array([-3.4028235e38, 1e-45], np.float32),
    "FP64": np.array([-1.7976931348623157e308, 5e-324], np.float64),
    "BYTES": np.array([b"", "é\0😀".encode()], object),
}
SHAPES: dict[str, Any] = {
    "(2, 1)": lambda values: values.reshape(2, 1),
    "scalar": lambda values: values[1:].reshape(()),
    "empty": lambda values: np.empty((0, 3), values.dtype),
}


def check_same(found: Any, expected: Any) -> None:
    """Whether an array came back as it went, texts as bytes or not."""
    found = np.asarray(found)
    assert found.shape == expected.shape
    if expected.dtype.kind == "O":
        texts = [each if isinstance(each, bytes) else each.encode() for each in found.ravel()]
        assert texts == expected.ravel().tolist()
    else:
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
