"""Conversions at the edges of the types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest

from ortpkg import InferenceSession
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_model, run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime


def cast(x: Tensor, to: ElementType, **attributes: Any) -> Tensor:
    result: Tensor = run_op("Cast", x, to=int(to), **attributes)
    return result


@pytest.mark.parametrize(
    ("to", "largest", "unsaturated"),
    [
        (ElementType.FLOAT8E4M3FN, 448.0, [np.nan, np.nan, np.nan]),
        (ElementType.FLOAT8E5M2, 57344.0, [np.inf, -np.inf, np.nan]),
        (ElementType.FLOAT8E4M3FNUZ, 240.0, [np.nan, np.nan, np.nan]),
    ],
)
def test_float8_saturates_unless_told_otherwise(
    to: ElementType, largest: float, unsaturated: list[float]
) -> None:
    x = np.array([1e9, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(cast(x, to).astype(np.float64), [largest, -largest, np.nan])
    np.testing.assert_array_equal(cast(x, to, saturate=0).astype(np.float64), unsaturated)


def test_four_bit_integers_keep_the_low_bits() -> None:
    x = np.array([17, -9, 8, 3], np.int32)
    assert cast(x, ElementType.INT4).astype(int).tolist() == [1, 7, -8, 3]
    assert cast(x, ElementType.UINT4).astype(int).tolist() == [1, 7, 8, 3]


def test_floats_truncate_to_integers() -> None:
    assert cast(np.array([1.9, -1.9, 0.5], np.float32), ElementType.INT64).tolist() == [1, -1, 0]
    assert cast(np.array([2.7], ml_dtypes.bfloat16), ElementType.INT32).tolist() == [2]


_BEYOND = [0.5, -1.7, 127.9, 200, 256, -129, -300, 70000, -70000, 2.0**31, 3e9, -3e9, 2.0**32, 5e9]
_BEYOND += [2.0**63, 1.9e19, 1e20, -1e20, np.nan, np.inf, -np.inf, *[0] * 11]
_NAMES = {"float16": "float16", "float32": "float", "float64": "double"}
_INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("is_x86", [True, False])
@pytest.mark.parametrize("target", _INTEGERS)
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_out_of_range_become_what_onnxruntime_makes_of_them(
    source: str, target: str, is_x86: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_x86:
        monkeypatch.setattr("ortpkg.runtime.kernels.cast._CPU_IS_X86", False)
    with np.errstate(over="ignore"):
        x = np.array(_BEYOND * 2, source)
    to = ElementType[target.upper()]
    expected = run_on_onnxruntime("Cast", x, domain="", to=int(to))
    if (source, target) != ("float16", "uint32"):  # where onnxruntime cuts 64 bits instead
        assert cast(x, to).tolist() == expected.tolist()
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        g ({_NAMES[source]}[n] x) => ({target}[n] y) {{ y = Cast <to = {int(to)}> (x) }}"""
    )
    compiled = InferenceSession(model.SerializeToString(), providers=["llvm", "cpu"])
    assert compiled.run(None, {"x": x})[0].tolist() == cast(x, to).tolist()


def test_everything_but_zero_is_true() -> None:
    x = np.array([0.0, -0.0, 0.1, np.nan], np.float32)
    assert cast(x, ElementType.BOOL).tolist() == [False, False, True, True]


def test_text_becomes_numbers() -> None:
    x = np.array(["3.5", "-INF", "nan", "1e2"], object)
    np.testing.assert_array_equal(
        cast(x, ElementType.FLOAT), np.array([3.5, -np.inf, np.nan, 100], np.float32)
    )
    assert cast(np.array(["9223372036854775807"], object), ElementType.INT64).tolist() == [
        2**63 - 1
    ]


def test_text_that_is_no_number_is_quoted() -> None:
    with pytest.raises(
        ValueError, match=r"'three\\x1b' is not a number, so it cannot become float32"
    ):
        cast(np.array(["three\x1b"], object), ElementType.FLOAT)


def test_number_in_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit int8"):
        cast(np.array(["300"], object), ElementType.INT8)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_become_text_as_onnxruntime_writes_it(dtype: Any) -> None:
    special = [16777216, 1e8, 0.1, 0.3, 2.0, -0.0, 1e-5, np.nan, np.inf, -np.inf]
    random = np.random.default_rng(0)
    scattered = random.standard_normal(200) * 10.0 ** random.integers(-12, 12, 200)
    with np.errstate(over="ignore"):
        x = np.array([*special, *scattered], dtype)
    text = cast(x, ElementType.STRING).tolist()
    assert text == run_on_onnxruntime("Cast", x, domain="", to=8).tolist()
    if dtype is not np.float16:
        assert text[0] == "16777216"
    assert text[7:10] == ["NaN", "INF", "-INF"]


def test_integers_and_truths_become_text_as_onnxruntime_writes_it() -> None:
    for values in ([True, False], np.array([[-7]], np.int8), np.array([2**64 - 1], np.uint64)):
        x = np.array(values)
        expected = run_on_onnxruntime("Cast", x, domain="", to=8).tolist()
        assert cast(x, ElementType.STRING).tolist() == expected
    assert cast(np.array([True, False]), ElementType.STRING).tolist() == ["1", "0"]
    assert cast(np.array([-3], ml_dtypes.int4), ElementType.STRING).tolist() == ["-3"]
    brief = np.array([0.1, np.nan], ml_dtypes.bfloat16)
    assert cast(brief, ElementType.STRING).tolist() == ["0.10009766", "NaN"]


def test_number_as_text_has_its_label() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 2]>
        g (float[N] x) => (int64[N] y) {
            t = Cast <to = 8> (x)
            y = ai.onnx.ml.LabelEncoder <default_int64 = -1, keys_strings = ["16777216", "NaN"],
                values_int64s = [1, 2]> (t)
        }"""
    )
    (labels,) = run_model(model, [np.array([16777216, np.nan, 3], np.float32)])
    assert labels.tolist() == [1, 2, -1]


def test_bits_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in size"):
        run_op("BitCast", np.ones(2, np.float32), to=int(ElementType.INT64))


def test_version_one_names_the_type_as_text() -> None:
    assert run_op("Cast", np.array([1.5], np.float32), to="INT32", opset=5).tolist() == [1]
