"""Imputer, ArrayFeatureExtractor, FeatureVectorizer and OneHotEncoder, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidGraphError, LimitExceededError
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

_DOMAIN = "ai.onnx.ml"
_TYPES = ["float32", "float64", "int64", "int32"]
_SHAPES = [(5,), (4, 5), (2, 3, 5)]
Array = np.ndarray[Any, Any]


def numbers(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(3).integers(-3, 5, shape).astype(dtype)


def texts(*shape: int) -> Array:
    return np.array(list("abcd"))[np.random.default_rng(4).integers(0, 4, shape)].astype(object)


def assert_as_onnxruntime(op_type: str, *inputs: Array, **attributes: Any) -> None:
    result = run_op(op_type, *inputs, domain=_DOMAIN, **attributes)
    expected = run_on_onnxruntime(op_type, *inputs, domain=_DOMAIN, **attributes)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("values", [[9.0], [1.5, 2.5, 3.5]])
@pytest.mark.parametrize("replaced", [float("nan"), 0.0, 2.0])
@pytest.mark.parametrize("shape", [(3,), (4, 3)])
def test_imputer_fills_in_floats(
    shape: tuple[int, ...], replaced: float, values: list[float]
) -> None:
    x = numbers("float32", *shape)
    x.reshape(-1)[[0, 2]] = np.nan
    attributes: dict[str, Any] = {"imputed_value_floats": values, "replaced_value_float": replaced}
    assert_as_onnxruntime("Imputer", x, **attributes)
    wide = run_op(
        "Imputer", x.astype(np.float64), domain=_DOMAIN, **attributes
    )  # onnxruntime has none
    np.testing.assert_array_equal(wide, run_op("Imputer", x, domain=_DOMAIN, **attributes))


@pytest.mark.parametrize("values", [[9], [7, 8, 9]])
@pytest.mark.parametrize("shape", [(3,), (4, 3)])
def test_imputer_fills_in_integers(shape: tuple[int, ...], values: list[int]) -> None:
    attributes = {"imputed_value_int64s": values, "replaced_value_int64": 1}
    assert_as_onnxruntime("Imputer", numbers("int64", *shape), **attributes)
    assert_as_onnxruntime("Imputer", numbers("int64", *shape), imputed_value_int64s=values)


def test_imputer_needs_a_number_for_each_column() -> None:
    with pytest.raises(ValueError, match="2 numbers in imputed_value_floats do not fit rows"):
        run_op("Imputer", numbers("float32", 4, 3), domain=_DOMAIN, imputed_value_floats=[1.0, 2.0])


@pytest.mark.parametrize("positions", [[0], [2, 1, 2], [[4, 0]]])
@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("dtype", [*_TYPES, "object"])
def test_extractor_takes_elements_of_the_last_axis(
    dtype: str, shape: tuple[int, ...], positions: Any
) -> None:
    x = texts(*shape) if dtype == "object" else numbers(dtype, *shape)
    assert_as_onnxruntime("ArrayFeatureExtractor", x, np.array(positions))


@pytest.mark.parametrize("position", [-1, 5])
def test_extractor_takes_no_position_outside(position: int) -> None:
    with pytest.raises(ValueError, match=r"positions lie in \[0, 5\)"):
        run_op(
            "ArrayFeatureExtractor", numbers("float32", 4, 5), np.array([position]), domain=_DOMAIN
        )


@pytest.mark.parametrize("widths", [[2, 3], [1, 5], [4, 0]])
@pytest.mark.parametrize("dtype", _TYPES)
def test_vectorizer_cuts_and_fills_what_it_joins(dtype: str, widths: list[int]) -> None:
    for shapes in ((4, 2), (4, 3)), ((2,), (3,)), ((2,), (1, 3)):
        inputs = [numbers(dtype, *shape) for shape in shapes]
        result = run_op("FeatureVectorizer", *inputs, domain=_DOMAIN, inputdimensions=widths)
        parts = [
            np.pad(
                x.reshape(-1, x.shape[-1])[:, :width], ((0, 0), (0, max(width - x.shape[-1], 0)))
            )
            for x, width in zip(inputs, widths, strict=True)
        ]
        np.testing.assert_array_equal(result, np.concatenate(parts, axis=1))
        assert result.dtype == np.float32
        if widths == [2, 3]:
            assert_as_onnxruntime("FeatureVectorizer", *inputs, inputdimensions=widths)


def test_vectorizer_refuses_what_does_not_fit() -> None:
    with pytest.raises(InvalidGraphError, match="states 1 widths for 2 inputs"):
        run_op(
            "FeatureVectorizer",
            np.ones((2, 2)),
            np.ones((2, 2)),
            domain=_DOMAIN,
            inputdimensions=[2],
        )
    with pytest.raises(ValueError, match="as many rows are needed in each input"):
        run_op(
            "FeatureVectorizer",
            np.ones((2, 2)),
            np.ones((3, 2)),
            domain=_DOMAIN,
            inputdimensions=[2, 2],
        )


@pytest.mark.parametrize("shape", [(4,), (4, 2), (2, 2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "object"])
def test_encoder_has_a_column_for_each_category(dtype: str, shape: tuple[int, ...]) -> None:
    if dtype == "object":
        assert_as_onnxruntime("OneHotEncoder", texts(*shape), cats_strings=["c", "a", "b"])
    else:
        x = numbers(dtype, *shape)
        assert_as_onnxruntime("OneHotEncoder", x, cats_int64s=[2, -1, 0, 3], zeros=1)


def test_encoder_leaves_out_the_fraction_of_numbers() -> None:
    x = np.array([[1.5, -0.5, 2.0]], np.float32)
    assert_as_onnxruntime("OneHotEncoder", x, cats_int64s=[2, 0, 1])
    none = run_op(
        "OneHotEncoder", np.array([np.nan, np.inf], np.float32), domain=_DOMAIN, cats_int64s=[0]
    )
    np.testing.assert_array_equal(none, [[0], [0]])


def test_encoder_refuses_an_unknown_category_where_zeros_is_0() -> None:
    x = np.array([[1, 2]])
    assert_as_onnxruntime("OneHotEncoder", x, cats_int64s=[2, 1], zeros=0)
    with pytest.raises(ValueError, match="an element is of no category"):
        run_op("OneHotEncoder", x, domain=_DOMAIN, cats_int64s=[2, 3], zeros=0)


_COLUMN = np.zeros((1000, 1), np.float32)
_MANY = [1.0] * 1000


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "attributes"),
    [
        ("ArrayFeatureExtractor", (_COLUMN, np.zeros(1000, np.int64)), 1, {}),
        ("FeatureVectorizer", (_COLUMN,), 1, {"inputdimensions": [1000]}),
        ("OneHotEncoder", (_COLUMN,), 1, {"cats_int64s": list(range(1000))}),
        (
            "LinearClassifier",
            (_COLUMN,),
            2,
            {"coefficients": _MANY, "intercepts": _MANY, "classlabels_ints": list(range(1000))},
        ),
        ("LinearRegressor", (_COLUMN,), 1, {"coefficients": _MANY, "targets": 1000}),
        ("Scaler", (np.zeros((1000, 1000), np.float32),), 1, {"scale": [2.0]}),
        (
            "SVMRegressor",
            (_COLUMN,),
            1,
            {
                "kernel_type": "RBF",
                "kernel_params": [1.0, 0.0, 3.0],
                "coefficients": _MANY,
                "support_vectors": _MANY,
                "n_supports": 1000,
                "rho": [0.0],
            },
        ),
    ],
)
def test_what_passes_the_memory_limit_is_refused_before_it_is_made(
    op_type: str, inputs: tuple[Array, ...], outputs: int, attributes: dict[str, Any]
) -> None:
    all_attributes: dict[str, Any] = {"domain": _DOMAIN, "outputs": outputs, **attributes}
    run_op(op_type, *inputs, **all_attributes)
    with pytest.raises(LimitExceededError):
        run_op(op_type, *inputs, limit_nbytes=1_000_000, **all_attributes)
