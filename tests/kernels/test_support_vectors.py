"""SVMClassifier and SVMRegressor of ai.onnx.ml, held against onnxruntime and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.runtime.kernels.support_vectors import coupled_probabilities
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime
from tests.kernels.trained_models import ROWS, SUPPORT_VECTORS

_FEATURES = 3


def machine(classes: int, *, has_probabilities: bool, seed: int, **others: Any) -> dict[str, Any]:
    """Attributes of a machine with support vectors as LIBSVM trains it, of random numbers."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, 4, classes).tolist()
    pairs = classes * (classes - 1) // 2
    made = {
        "classlabels_ints": [10 * place + 3 for place in range(classes)],
        "vectors_per_class": counts,
        "support_vectors": random.standard_normal(sum(counts) * _FEATURES).tolist(),
        "coefficients": random.standard_normal((classes - 1) * sum(counts)).tolist(),
        "rho": random.standard_normal(pairs).tolist(),
        "kernel_type": "RBF",
        "kernel_params": [0.3, 0.5, 3.0],
    }
    if has_probabilities:
        made["prob_a"] = (-2 * np.abs(random.standard_normal(pairs))).tolist()
        made["prob_b"] = random.standard_normal(pairs).tolist()
    return {**made, **others}


def assert_as_onnxruntime(attributes: dict[str, Any], dtype: str = "float32") -> None:
    x = (np.random.default_rng(1).standard_normal((5, _FEATURES)) * 2).astype(dtype)
    given: dict[str, Any] = {"domain": "ai.onnx.ml", "outputs": 2, **attributes}
    labels, scores = run_op("SVMClassifier", x, **given)
    expected_labels, expected_scores = run_on_onnxruntime("SVMClassifier", x, **given)
    assert labels.tolist() == expected_labels.tolist()
    assert (scores.dtype, scores.shape) == (np.float32, expected_scores.shape)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("has_probabilities", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 4, 6])
def test_classes_agree_with_onnxruntime(classes: int, has_probabilities: bool, seed: int) -> None:
    assert_as_onnxruntime(machine(classes, has_probabilities=has_probabilities, seed=seed))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [2, 3])
def test_transforms_agree_with_onnxruntime(classes: int, transform: str) -> None:
    for has_probabilities in (False, True):
        assert_as_onnxruntime(
            machine(classes, has_probabilities=has_probabilities, seed=7, post_transform=transform)
        )


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_kernel_functions_agree_with_onnxruntime(kernel: str, dtype: str) -> None:
    assert_as_onnxruntime(machine(3, has_probabilities=True, seed=8, kernel_type=kernel), dtype)


@pytest.mark.parametrize("is_positive", [False, True])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_linear_machines_agree_with_onnxruntime(classes: int, is_positive: bool) -> None:
    for seed in range(5):
        random = np.random.default_rng(seed)
        coefficients = random.standard_normal(classes * _FEATURES)
        assert_as_onnxruntime(
            {
                "classlabels_strings": [f"class {place}" for place in range(classes)],
                "coefficients": (np.abs(coefficients) if is_positive else coefficients).tolist(),
                "kernel_type": "LINEAR",
                "kernel_params": [0.0, 0.0, 0.0],
                "rho": [float(random.standard_normal())],
            }
        )


def test_probabilities_of_classes_are_those_of_their_pairs() -> None:
    shares = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    pairs = shares[:, :, None] / (shares[:, :, None] + shares[:, None, :])
    pairs[:, range(3), range(3)] = 0
    np.testing.assert_allclose(coupled_probabilities(pairs), shares, atol=0.005)
    np.testing.assert_allclose(coupled_probabilities(pairs).sum(axis=1), 1)


def test_row_of_another_width_is_refused() -> None:
    attributes = machine(2, has_probabilities=False, seed=0)
    with pytest.raises(ValueError, match=r"rows of 3 features are needed, .* \(1, 2\)"):
        run_op(
            "SVMClassifier",
            np.ones((1, 2), np.float32),
            domain="ai.onnx.ml",
            outputs=2,
            **attributes,
        )


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        (
            {"rho": [1.0]},
            ValueError,
            "3 classes need as many counts of vectors and 3 numbers of rho",
        ),
        ({"prob_a": [1.0]}, ValueError, "3 pairs of classes need as many numbers of prob_a"),
        ({"kernel_type": "CUBE"}, InvalidGraphError, "kernel_type is one of LINEAR, POLY, RBF"),
    ],
)
def test_attributes_that_do_not_fit_are_named(
    changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    attributes = machine(3, has_probabilities=True, seed=0, **changed)
    x = np.ones((1, _FEATURES), np.float32)
    with pytest.raises(error, match=message):
        run_op("SVMClassifier", x, domain="ai.onnx.ml", outputs=2, **attributes)


# --- SVMRegressor ---------------------------------------------------------------------------------


def regress(x: np.ndarray[Any, Any], **attributes: Any) -> Any:
    return run_op("SVMRegressor", x, domain="ai.onnx.ml", **attributes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", SUPPORT_VECTORS)
def test_regressor_predicts_as_scikit_learn_trained_it(kind: str, dtype: str) -> None:
    attributes = dict(SUPPORT_VECTORS[kind])
    expected = attributes.pop("expected")
    result = regress(np.array(ROWS, dtype), **attributes)
    assert (result.dtype, result.shape) == (np.float32, (len(ROWS), 1))
    np.testing.assert_allclose(result.ravel(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kind", ["RBF", "LINEAR", "POLY", "SIGMOID", ""])
def test_regressor_agrees_with_onnxruntime(kind: str, one_class: int, transform: str) -> None:
    random = np.random.default_rng(8)
    count = 4 if kind else 0  # without a kernel, a linear one without vectors
    attributes: dict[str, Any] = {
        "kernel_type": kind or "LINEAR",
        "kernel_params": [0.3, 0.5, 2.0],
        "n_supports": count,
        "coefficients": random.standard_normal(count or _FEATURES).tolist(),
        "rho": [-0.2],
        "one_class": one_class,
        "post_transform": transform,
    }
    if count:
        attributes["support_vectors"] = random.standard_normal(count * _FEATURES).tolist()
    for shape in (5, _FEATURES), (_FEATURES,):
        x = random.standard_normal(shape).astype(np.float32)
        expected = run_on_onnxruntime("SVMRegressor", x, domain="ai.onnx.ml", **attributes)
        result = regress(x, **attributes)
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_regressor_takes_whole_numbers(dtype: str) -> None:
    attributes = {"coefficients": [1.0, -2.0], "rho": [0.5], "kernel_type": "LINEAR"}
    np.testing.assert_allclose(
        regress(np.array([[3, 1], [0, 2]], dtype), **attributes), [[1.5], [-3.5]]
    )


@pytest.mark.parametrize(
    "attributes",
    [
        {"coefficients": [1.0, 2.0]},
        {"coefficients": [1.0], "rho": [0.0], "n_supports": 2, "support_vectors": [1.0] * 4},
        {"coefficients": [1.0] * 2, "rho": [0.0], "n_supports": 2, "support_vectors": [1.0] * 3},
    ],
)
def test_regressor_refuses_what_does_not_fit(attributes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"do not fit .* support vectors"):
        regress(np.ones((1, 2), np.float32), **attributes)
