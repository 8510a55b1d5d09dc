"""Scaler, Normalizer and LinearRegressor of ai.onnx.ml, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

_TYPES = ["float32", "float64", "int64", "int32"]


def rows(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    made = np.random.default_rng(0).standard_normal(shape) * 3
    return made.astype(dtype)


def assert_as_onnxruntime(op_type: str, x: np.ndarray[Any, Any], **attributes: Any) -> None:
    given: dict[str, Any] = {"domain": "ai.onnx.ml", **attributes}
    made = run_op(op_type, x, **given)
    expected = run_on_onnxruntime(op_type, x, **given)
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (4, 3)])
@pytest.mark.parametrize("dtype", _TYPES)
def test_scaler_subtracts_before_it_rounds(dtype: str, shape: tuple[int, ...]) -> None:
    x = rows(dtype, *shape)
    assert_as_onnxruntime("Scaler", x, offset=[0.5, 1.25, 2.0], scale=[0.1, 2.0, 3.0])
    assert_as_onnxruntime("Scaler", x, offset=[0.5], scale=[0.1])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("shape", [(3,), (4, 3)])
@pytest.mark.parametrize("dtype", _TYPES)
def test_normalizer_divides_rows_by_their_norm(
    dtype: str, shape: tuple[int, ...], norm: str
) -> None:
    x = rows(dtype, *shape)
    assert_as_onnxruntime("Normalizer", x, norm=norm)
    assert_as_onnxruntime("Normalizer", -np.abs(x) - x.dtype.type(1), norm=norm)
    assert_as_onnxruntime("Normalizer", x * x.dtype.type(0), norm=norm)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("targets", [2, 3])
def test_regressor_agrees_with_onnxruntime(targets: int, transform: str) -> None:
    numbers = np.random.default_rng(1).standard_normal(4 * targets).tolist()
    given = {"coefficients": numbers[: 3 * targets], "intercepts": numbers[3 * targets :]}
    x = rows("float32", 4, 3)
    assert_as_onnxruntime("LinearRegressor", x, targets=targets, post_transform=transform, **given)


def test_regressor_of_integers_makes_float32() -> None:
    made = run_op(
        "LinearRegressor",
        np.array([[1, 2]]),
        domain="ai.onnx.ml",
        coefficients=[0.5, 0.25],
        intercepts=[0.125],
    )
    assert (made.dtype, made.tolist()) == (np.float32, [[1.125]])


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("Scaler", {"offset": [1.0, 2.0]}, "2 offsets and 1 scales do not fit 3 features"),
        ("Normalizer", {"norm": "L3"}, "no norm 'L3': MAX, L1, L2 exist"),
        ("LinearRegressor", {"coefficients": [1.0]}, "rows of 1 features are needed"),
        ("LinearRegressor", {"coefficients": [1.0], "targets": 2}, "do not fit 2 targets"),
    ],
)
def test_numbers_that_do_not_fit_are_named(
    op_type: str, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        run_op(op_type, rows("float32", 4, 3), domain="ai.onnx.ml", **attributes)
