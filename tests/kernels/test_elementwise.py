"""Arithmetic, comparison, Clip, Where: ONNX's answers where numpy alone differs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.node_runner import run_op


def ints(*values: int, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_integer_division_truncates_toward_zero(dtype: Any) -> None:
    result = run_op("Div", ints(7, -7, 7, -7, 0, dtype=dtype), ints(2, 2, -2, -2, 5, dtype=dtype))
    assert result.dtype == dtype
    assert result.tolist() == [3, -3, -3, 3, 0]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.float32])
def test_division_of_scalars_is_a_scalar(dtype: Any, in_place: bool) -> None:
    quotient = run_op("Div", np.array(7, dtype), np.array(2, dtype), in_place=in_place)
    assert (quotient.shape, quotient.dtype) == ((), dtype)
    assert quotient == (3.5 if dtype is np.float32 else 3)


@pytest.mark.parametrize("exponent", [0.5, [0.5]])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("in_place", [False, True])
def test_power_of_a_half_is_no_square_root(exponent: Any, dtype: Any, in_place: bool) -> None:
    x = np.array([-np.inf, -0.0, 4, -1, np.inf], dtype)
    result = run_op("Pow", x, np.array(exponent, dtype), in_place=in_place)
    np.testing.assert_array_equal(result, np.array([np.inf, 0, 2, np.nan, np.inf], dtype))
    assert not np.signbit(result[1])
    scalar = run_op("Pow", x[0], np.array(0.5, dtype))
    assert (scalar.shape, scalar) == ((), np.inf)


def test_slope_of_a_scalar_scales_it() -> None:
    for x, expected in ((-2, -6), (2, 2)):
        assert run_op("PRelu", np.array(x, np.float32), np.array(3, np.float32)) == expected


def test_dropout_of_a_scalar_has_a_mask() -> None:
    given = np.array(3, np.float32), np.array(0.5, np.float32), np.array(True)
    out, mask = run_op("Dropout", *given, seed=1, outputs=2)
    assert (out.shape, mask.shape, mask.dtype) == ((), (), np.bool_)


def test_integer_division_of_the_lowest_value_does_not_overflow_on_the_way() -> None:
    lowest = np.iinfo(np.int32).min
    assert run_op("Div", ints(lowest, lowest), ints(3, -2)).tolist() == [-715827882, 1073741824]


def test_division_by_zero_gives_what_ieee_says_and_zero_of_integers() -> None:
    quotient = run_op("Div", floats(1, -1, 0), floats(0, 0, 0))
    np.testing.assert_array_equal(quotient, floats(np.inf, -np.inf, np.nan))
    assert run_op("Div", ints(5), ints(0)).tolist() == [0]


def test_mod_takes_the_sign_of_the_divisor_and_fmod_that_of_the_dividend() -> None:
    a, b = ints(7, -7, 7, -7), ints(3, 3, -3, -3)
    assert run_op("Mod", a, b).tolist() == [1, 2, -2, -1]
    assert run_op("Mod", a, b, fmod=1).tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        (ints(2, -3), ints(3, 3), ints(8, -27)),
        (ints(2, 1), ints(-1, -5), ints(0, 1)),
        (ints(4, 9), floats(0.5, 0.5), ints(2, 3)),
        (floats(4, 9), np.array(2, np.int64), floats(16, 81)),
        (floats(4, 9), np.array([0.5], np.float64), floats(2, 3)),
    ],
)
def test_power_has_the_type_of_its_base(base: Any, exponent: Any, expected: Any) -> None:
    result = run_op("Pow", base, exponent)
    assert result.dtype == expected.dtype
    assert result.tolist() == expected.tolist()


def test_shifting_all_bits_out_leaves_nothing() -> None:
    assert run_op(
        "BitShift", ints(1, 255, dtype=np.uint8), ints(8, 9, dtype=np.uint8), direction="LEFT"
    ).tolist() == [
        0,
        0,
    ]


def test_scalars_give_arrays() -> None:
    result = run_op("Add", np.array(1, np.float32), np.array(2, np.float32))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()


@pytest.mark.parametrize("op_type", ["Add", "Div", "Max", "Equal", "Pow", "PRelu"])
def test_empty_tensors_broadcast(op_type: str) -> None:
    assert run_op(op_type, np.empty((0, 3), np.float32), np.ones(3, np.float32)).shape == (0, 3)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Less", "Pow", "Max"])
def test_shapes_that_do_not_broadcast_are_named(op_type: str) -> None:
    with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(4,\) do not broadcast together"):
        run_op(op_type, np.ones((2, 3), np.float32), np.ones(4, np.float32))


def test_old_versions_align_the_second_input_at_an_axis() -> None:
    a, b = np.zeros((2, 3, 4), np.float32), floats(1, 2, 3)
    result = run_op("Add", a, b, opset=6, broadcast=1, axis=1)
    np.testing.assert_array_equal(result[0, :, 0], b)


def test_min_and_max_pass_nan_on() -> None:
    for op_type in ("Min", "Max"):
        assert np.isnan(run_op(op_type, floats(np.nan, 1), floats(1, np.nan))).all()


def test_many_inputs_fold_without_changing_the_first() -> None:
    inputs = [floats(1, 2), floats(3), floats(10, 20)]
    assert run_op("Sum", *inputs).tolist() == [14, 25]
    assert run_op("Mean", *inputs[:1]).tolist() == [1, 2]


def test_clip_with_crossed_bounds_gives_the_upper_one() -> None:
    result = run_op("Clip", ints(1, 5, 9), np.array(6, np.int32), np.array(4, np.int32))
    assert result.tolist() == [4, 4, 4]


def test_clip_passes_nan_on() -> None:
    assert np.isnan(
        run_op("Clip", floats(np.nan), np.array(0, np.float32), np.array(1, np.float32))
    ).all()


def test_strings_compare() -> None:
    a, b = np.array(["x", "y"], object), np.array(["x", "z"], object)
    assert run_op("Equal", a, b).tolist() == [True, False]
    assert run_op("Where", np.array([True, False]), a, b).tolist() == ["x", "z"]


def test_bfloat16_keeps_its_type() -> None:
    x = np.array([1.5, 2.5], ml_dtypes.bfloat16)
    assert run_op("Mul", x, x).dtype == x.dtype
    assert run_op("Exp", x).dtype == x.dtype


def test_infinity_is_told_by_sign() -> None:
    x = floats(np.inf, -np.inf, np.nan, 1)
    assert run_op("IsInf", x, detect_negative=0).tolist() == [True, False, False, False]
    assert run_op("IsInf", x, detect_positive=0).tolist() == [False, True, False, False]
    assert run_op("IsInf", x, detect_positive=0, detect_negative=0).tolist() == [False] * 4


def test_round_goes_half_to_even() -> None:
    assert run_op("Round", floats(0.5, 1.5, 2.5, -0.5)).tolist() == [0, 2, 2, 0]
