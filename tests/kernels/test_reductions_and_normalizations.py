"""Reductions, softmax and normalizations at their edges."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)


def normal(*shape: int) -> Tensor:
    return RANDOM.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"])
@pytest.mark.parametrize("axes", [(-1,), (0, -1), (2, 0)])
def test_axes_may_count_from_the_back(op_type: str, axes: tuple[int, ...]) -> None:
    formulas: dict[str, Any] = {
        "ReduceSum": np.sum,
        "ReduceMean": np.mean,
        "ReduceMax": np.max,
        "ReduceL2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    }
    expected = formulas[op_type](X, axis=axes, keepdims=False)
    np.testing.assert_allclose(run_op(op_type, X, np.array(axes), keepdims=0), expected, rtol=1e-5)


def test_no_axes_mean_all_or_none() -> None:
    empty = np.empty(0, np.int64)
    assert run_op("ReduceSum", X, empty).shape == (1, 1, 1)
    np.testing.assert_array_equal(run_op("ReduceSum", X, empty, noop_with_empty_axes=1), X)


def test_axes_were_an_attribute() -> None:
    np.testing.assert_allclose(
        run_op("ReduceSum", X, axes=[1], opset=11), X.sum(axis=1, keepdims=True), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("ReduceSum", 0),
        ("ReduceProd", 1),
        ("ReduceMax", -np.inf),
        ("ReduceMin", np.inf),
        ("ReduceLogSumExp", -np.inf),
    ],
)
def test_reduction_of_nothing_is_the_neutral_element(op_type: str, expected: float) -> None:
    assert (
        run_op(op_type, np.empty((2, 0), np.float32), np.array([1]), keepdims=0).tolist()
        == [expected] * 2
    )


def test_mean_of_integers_truncates() -> None:
    assert run_op("ReduceMean", np.array([-1, -2], np.int32), keepdims=0).tolist() == -1


def test_bytes_do_not_overflow_on_the_way_to_their_mean() -> None:
    assert run_op("ReduceMean", np.full(100, 200, np.int32), keepdims=0).tolist() == 200


def test_long_float16_sum_is_exact() -> None:
    assert float(run_op("ReduceSum", np.ones(4096, np.float16), keepdims=0)) == 4096
    assert float(run_op("ReduceSum", np.ones(4096, ml_dtypes.bfloat16), keepdims=0)) == 4096


def test_log_sum_exp_does_not_overflow() -> None:
    x = np.array([1000, 1000, -np.inf], np.float32)
    np.testing.assert_allclose(
        run_op("ReduceLogSumExp", x, keepdims=0), 1000 + np.log(2), rtol=1e-6
    )


@pytest.mark.parametrize(("op_type", "values"), [("ArgMax", [1, 3, 3]), ("ArgMin", [3, 1, 1])])
def test_first_or_last_of_equals(op_type: str, values: list[int]) -> None:
    x = np.array(values, np.float32)
    assert run_op(op_type, x, keepdims=0).tolist() == 1
    assert run_op(op_type, x, keepdims=0, select_last_index=1).tolist() == 2


def test_arg_max_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="has no largest or smallest element"):
        run_op("ArgMax", np.empty((2, 0), np.float32), axis=1)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, [1, 3, 6]),
        ({"exclusive": 1}, [0, 1, 3]),
        ({"reverse": 1}, [6, 5, 3]),
        ({"exclusive": 1, "reverse": 1}, [5, 3, 0]),
    ],
)
def test_cumulative_sum(attributes: dict[str, Any], expected: list[int]) -> None:
    assert (
        run_op("CumSum", np.array([1, 2, 3], np.int32), np.array(0), **attributes).tolist()
        == expected
    )


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_sums_to_one_along_its_axis(op_type: str, axis: int) -> None:
    result = run_op(op_type, X * 100, axis=axis)
    shares = np.exp(result) if op_type == "LogSoftmax" else result
    np.testing.assert_allclose(shares.sum(axis=axis), 1, rtol=1e-5)


def test_old_softmax_counts_the_axes_from_axis_on_as_one() -> None:
    result = run_op("Softmax", X, opset=11)
    np.testing.assert_allclose(result.reshape(2, -1).sum(axis=1), 1, rtol=1e-5)


def test_softmax_over_long_bfloat16_rows_sums_in_float32() -> None:
    result = run_op("Softmax", np.zeros((1, 1024), ml_dtypes.bfloat16))
    np.testing.assert_allclose(result.astype(float), 1 / 1024)


def test_empty_softmax() -> None:
    assert run_op("Softmax", np.empty((2, 0), np.float32)).shape == (2, 0)


def test_layer_normalization_gives_its_statistics() -> None:
    x, scale, bias = normal(2, 3, 5), normal(5), normal(5)
    out, mean, inverse = run_op("LayerNormalization", x, scale, bias, outputs=3)
    deviation = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(mean, x.mean(axis=-1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inverse, deviation, rtol=1e-5)
    expected = (x - x.mean(axis=-1, keepdims=True)) * deviation * scale + bias
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    ("op_type", "outputs"),
    [("SimplifiedLayerNormalization", 2), ("LayerNormalization", 2), ("LayerNormalization", 3)],
)
def test_statistics_agree_with_onnxruntime(op_type: str, outputs: int, dtype: Any) -> None:
    inputs = normal(2, 3, 8).astype(dtype), normal(8).astype(dtype)
    expected = run_on_onnxruntime(op_type, *inputs, domain="", outputs=outputs)
    result = run_op(op_type, *inputs, outputs=outputs, opset=21)
    for ours, theirs in zip(result, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(
            ours, theirs, rtol=1e-3 if dtype == np.float16 else 1e-5, atol=1e-6
        )


def test_normalization_of_many_rows_joins_its_panels() -> None:
    x = normal(700, 64) + 5
    result = run_op("LayerNormalization", x, np.ones(64, np.float32))
    np.testing.assert_allclose(result.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(result.std(axis=1), 1, rtol=1e-3)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        (
            "LayerNormalization",
            (X, normal(3)),
            {},
            r"shapes \(3,\) and \(2, 3, 4\) do not broadcast together",
        ),
        ("BatchNormalization", (X, *(normal(4),) * 4), {}, "do not fit the channels"),
        ("InstanceNormalization", (X, normal(4), normal(4)), {}, "do not fit the channels"),
        (
            "GroupNormalization",
            (X, normal(3), normal(3)),
            {"num_groups": 2},
            "2 groups do not divide the channels",
        ),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    op_type: str, inputs: Any, attributes: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run_op(op_type, *inputs, **attributes)


def test_group_normalization_18_has_parameters_per_group() -> None:
    x, scale, bias = normal(2, 4, 3), normal(2), normal(2)
    per_channel = run_op("GroupNormalization", x, scale.repeat(2), bias.repeat(2), num_groups=2)
    np.testing.assert_allclose(
        run_op("GroupNormalization", x, scale, bias, num_groups=2, opset=18), per_channel, rtol=1e-5
    )


def test_constant_parameters_of_batch_normalization_are_prepared_rightly() -> None:
    x = normal(2, 3, 4)
    inputs = (x, normal(3), normal(3), normal(3), np.abs(normal(3)))
    plain = run_op("BatchNormalization", *inputs)
    np.testing.assert_allclose(
        run_op("BatchNormalization", *inputs, constant_slots=(1, 2, 3, 4)), plain, rtol=1e-6
    )


def test_batch_normalization_of_features_in_old_versions() -> None:
    x = normal(2, 3, 4)
    parameters = [normal(3, 4), normal(3, 4), normal(3, 4), np.abs(normal(3, 4))]
    scale, bias, mean, variance = parameters
    expected = (x - mean) / np.sqrt(variance + 1e-5) * scale + bias
    np.testing.assert_allclose(
        run_op("BatchNormalization", x, *parameters, opset=7, spatial=0), expected, rtol=1e-4
    )


def test_rows_of_nothing_take_a_scale_of_nothing() -> None:
    x = np.empty((3, 0), np.float32)
    assert run_op("LayerNormalization", x, np.empty((1, 0), np.float32)).shape == (3, 0)


def test_norm_of_zero_gives_zero() -> None:
    assert run_op("LpNormalization", np.zeros((2, 3), np.float32)).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs"),
    [
        (
            "SkipLayerNormalization",
            (normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)),
            4,
        ),
        ("SkipLayerNormalization", (normal(2, 3, 8), normal(1, 3, 8), normal(8)), 1),
        (
            "SkipSimplifiedLayerNormalization",
            (normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8)),
            4,
        ),
    ],
)
def test_skip_normalization_agrees_with_onnxruntime(
    op_type: str, inputs: Any, outputs: int
) -> None:
    expected = run_on_onnxruntime(op_type, *inputs, outputs=outputs, epsilon=1e-5)
    result = run_op(op_type, *inputs, outputs=outputs, domain="com.microsoft", epsilon=1e-5)
    pairs = zip(result, expected, strict=True) if outputs > 1 else [(result, expected)]
    for ours, theirs in pairs:
        if ours is not None and theirs.size:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_embedding_agrees_with_onnxruntime() -> None:
    ids = RANDOM.integers(0, 10, (2, 4)).astype(np.int32)
    segments, mask = (ids % 2).astype(np.int32), np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    inputs = (ids, segments, normal(10, 8), normal(6, 8), normal(2, 8), normal(8), normal(8), mask)
    expected = run_on_onnxruntime("EmbedLayerNormalization", *inputs, outputs=3)
    result = run_op("EmbedLayerNormalization", *inputs, outputs=3, domain="com.microsoft")
    for ours, theirs in zip(result, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
