"""Activations against formulas in float64: extremes, block borders, narrow types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortpkg.runtime.kernels.special_functions import BLOCK
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

EXTREMES = np.array([-np.inf, -1e4, -90, -1, -1e-8, 0, 1e-8, 1, 90, 1e4, np.inf], np.float32)
erf = np.vectorize(math.erf, otypes=[np.float64])


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


FORMULAS: dict[str, Callable[[Any], Any]] = {
    "Sigmoid": logistic,
    "Softplus": lambda x: np.logaddexp(x, 0),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Erf": erf,
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x),
    "Gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "Mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Swish": lambda x: x * logistic(x),
}


@pytest.mark.parametrize("op_type", FORMULAS)
def test_activation_follows_its_formula_at_the_extremes(op_type: str) -> None:
    finite = EXTREMES[1:-1]
    with np.errstate(all="ignore"):
        expected = FORMULAS[op_type](finite.astype(np.float64))
    np.testing.assert_allclose(run_op(op_type, finite), expected, rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize(
    "op_type", ["Sigmoid", "Softplus", "Elu", "Erf", "HardSigmoid", "LeakyRelu", "Tanh", "Relu"]
)
def test_activation_of_infinity_is_its_limit_and_nan_stays(op_type: str) -> None:
    low, high, nan = run_op(op_type, np.array([-np.inf, np.inf, np.nan], np.float32))
    limits = {
        "Sigmoid": (0, 1),
        "Softplus": (0, np.inf),
        "Elu": (-1, np.inf),
        "Erf": (-1, 1),
        "HardSigmoid": (0, 1),
        "LeakyRelu": (-np.inf, np.inf),
        "Tanh": (-1, 1),
        "Relu": (0, np.inf),
    }
    assert (low, high) == limits[op_type]
    assert np.isnan(nan)


def test_erf_is_right_to_a_few_units_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(-6, 6, 60_001), np.logspace(-30, 0, 5_001)]).astype(np.float32)
    expected = erf(x.astype(np.float64))
    units = np.abs(run_op("Erf", x) - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert units.max() < 8
    assert units.mean() < 1


@pytest.mark.parametrize("op_type", ["Gelu", "Sigmoid", "Softplus"])
@pytest.mark.parametrize("in_place", [False, True])
def test_blocks_join_without_a_seam(op_type: str, in_place: bool) -> None:
    x = np.linspace(-4, 4, 2 * BLOCK + 7, dtype=np.float32)
    result = run_op(op_type, x, in_place=in_place)
    np.testing.assert_allclose(
        result, FORMULAS[op_type](x.astype(np.float64)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("op_type", ["Gelu", "Softplus", "Erf", "Mish"])
def test_narrow_floats_round_once(op_type: str, dtype: Any) -> None:
    x = np.linspace(-3, 3, 50).astype(dtype)
    expected = FORMULAS[op_type](x.astype(np.float64)).astype(np.float32).astype(dtype)
    result = run_op(op_type, x)
    assert result.dtype == dtype
    np.testing.assert_allclose(
        result.astype(float), expected.astype(float), rtol=float(ml_dtypes.finfo(dtype).eps)
    )


def test_transposed_input_is_right() -> None:
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6).T
    np.testing.assert_allclose(
        run_op("Gelu", x), FORMULAS["Gelu"](x.astype(np.float64)), rtol=1e-5, atol=1e-6
    )


def test_slope_per_channel_in_old_versions() -> None:
    x = np.full((1, 2, 3), -1, np.float32)
    result = run_op("PRelu", x, np.array([0.5, 2], np.float32), opset=6)
    assert result[0, :, 0].tolist() == [-0.5, -2]


def test_slope_that_would_grow_the_input_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"slope of shape \(2, 3\) does not broadcast to the input's shape \(3,\)"
    ):
        run_op("PRelu", np.ones(3, np.float32), np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("op_type", "with_bias"), [("FastGelu", True), ("BiasGelu", True), ("QuickGelu", False)]
)
def test_microsoft_activations_agree_with_onnxruntime(op_type: str, with_bias: bool) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(3, 8)).astype(np.float32)]
    if with_bias:
        inputs.append(rng.normal(size=8).astype(np.float32))
    expected = run_on_onnxruntime(op_type, *inputs)
    np.testing.assert_allclose(
        run_op(op_type, *inputs, domain="com.microsoft"), expected, rtol=1e-4, atol=1e-6
    )
