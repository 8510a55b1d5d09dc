"""Scaler, Normalizer and linear models of ai.onnx.ml, against onnxruntime and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime
from tests.kernels.trained_models import LINEAR_CLASSIFIERS, ROWS

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


# --- LinearClassifier -----------------------------------------------------------------------------


def classify(x: np.ndarray[Any, Any], **attributes: Any) -> tuple[Any, Any]:
    result: tuple[Any, Any] = run_op(
        "LinearClassifier", x, domain="ai.onnx.ml", outputs=2, **attributes
    )
    return result


@pytest.mark.parametrize("has_texts", [False, True])
@pytest.mark.parametrize(
    ("kind", "transform"),
    [("logistic", "LOGISTIC"), ("softmax", "SOFTMAX"), ("margins", "NONE")],
)
def test_classifier_predicts_as_scikit_learn_trained_it(
    kind: str, transform: str, has_texts: bool
) -> None:
    trained = LINEAR_CLASSIFIERS[kind]
    numbers = list(range(max(trained["classes"]) + 1))
    labels: dict[str, Any] = {"classlabels_ints": numbers}
    if has_texts:
        labels = {"classlabels_strings": [f"class {number}" for number in numbers]}
    classes, scores = classify(
        np.array(ROWS, np.float32),
        coefficients=trained["coefficients"],
        intercepts=trained["intercepts"],
        post_transform=transform,
        **labels,
    )
    expected = [f"class {number}" if has_texts else number for number in trained["classes"]]
    assert classes.tolist() == expected
    np.testing.assert_allclose(scores.ravel(), trained["scores"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(("rows_of_coefficients", "labels"), [(1, 2), (1, 0), (2, 2), (3, 3)])
@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("shape", [(3,), (4, 3)])
def test_classifier_agrees_with_onnxruntime(
    shape: tuple[int, ...], dtype: str, rows_of_coefficients: int, labels: int, transform: str
) -> None:
    numbers = np.random.default_rng(2).standard_normal(4 * rows_of_coefficients).tolist()
    attributes: dict[str, Any] = {
        "coefficients": numbers[rows_of_coefficients:],
        "intercepts": numbers[:rows_of_coefficients],
        "post_transform": transform,
        "multi_class": rows_of_coefficients % 2,
    }
    if labels:
        attributes["classlabels_ints"] = [7, 3, 9][:labels]
    x = rows(dtype, *shape)
    classes, scores = classify(x, **attributes)
    expected = run_on_onnxruntime(
        "LinearClassifier", x, domain="ai.onnx.ml", outputs=2, **attributes
    )
    assert classes.dtype == np.int64
    assert classes.tolist() == expected[0].tolist()
    assert (scores.dtype, scores.shape) == (np.float32, expected[1].shape)
    np.testing.assert_allclose(scores, expected[1], rtol=1e-4, atol=1e-5)


def test_classifier_of_one_score_takes_zero_for_the_first_class() -> None:
    x = np.array([[-1], [-0.0], [0], [0.1]], np.float32)
    classes, _ = classify(
        x, coefficients=[1.0], intercepts=[0.0], classlabels_strings=["no", "yes"]
    )
    assert classes.tolist() == ["no", "no", "no", "yes"]


def test_classifier_makes_two_probits_of_one_score() -> None:
    """onnxruntime writes one of them, and leaves the other as the memory was."""
    x = np.array([[0.25], [0.5]], np.float32)
    _, scores = classify(
        x, coefficients=[1.0], intercepts=[0.0], classlabels_ints=[0, 1], post_transform="PROBIT"
    )
    np.testing.assert_allclose(scores, [[0.67449, -0.67449], [0.0, 0.0]], atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"coefficients": [1.0] * 4}, "4 coefficients and 0 intercepts do not fit rows of shape"),
        ({"coefficients": [1.0] * 6, "intercepts": [1.0]}, "6 coefficients and 1 intercepts"),
        ({"coefficients": [1.0] * 3, "classlabels_ints": [1]}, "1 labels do not fit 1 rows"),
        ({"coefficients": [1.0] * 6, "classlabels_ints": [1, 2, 3]}, "3 labels do not fit 2 rows"),
    ],
)
def test_classifier_refuses_what_does_not_fit(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classify(rows("float32", 4, 3), **attributes)
