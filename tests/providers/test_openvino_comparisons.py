"""Comparisons with NaN on OpenVINO, which are false, alone, in branches and where models share weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg import InferenceSession
from ortpkg.foundations.ep_names import OPENVINO_EP

pytest.importorskip("openvino")

_NUMBERS = (0.0, -0.0, 1e-3, 1.0, -1.0, 3e4, -3e4, np.inf, -np.inf, np.nan)
_ONE, _OTHER = (
    np.ascontiguousarray(side.ravel()) for side in np.meshgrid(_NUMBERS, _NUMBERS, indexing="ij")
)
_OPERATORS = {
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Equal": np.equal,
}


def model_of(text: str) -> bytes:
    header = '<ir_version: 10, opset_import: ["" : 21]>\n'
    return bytes(onnx.parser.parse_model(header + text).SerializeToString())


def compute(text: str, **feeds: Any) -> list[Any]:
    """Return the outputs of a session all of whose nodes OpenVINO has."""
    with InferenceSession(model_of(text), providers=[OPENVINO_EP]) as session:
        results = session.run(None, feeds)
        assert {partition.provider for partition in session._state.partitions} == {OPENVINO_EP}
    return results


@pytest.mark.parametrize("element", ["float", "float16"])
@pytest.mark.parametrize("operator", _OPERATORS)
def test_comparisons_are_those_of_numpy_for_all_pairs(operator: str, element: str) -> None:
    kind = {"float": np.float32, "float16": np.float16}[element]
    one, other = _ONE.astype(kind), _OTHER.astype(kind)
    expected = _OPERATORS[operator](one, other)
    text = f"""g ({element}[N] x, {element}[N] y) => (bool[N] z, bool[N] no, {element}[N] chosen)
    {{ z = {operator}(x, y) no = Not(z) chosen = Where(z, x, y) }}"""

    answer, opposite, chosen = compute(text, x=one, y=other)

    np.testing.assert_array_equal(answer, expected)
    np.testing.assert_array_equal(opposite, ~expected)
    np.testing.assert_array_equal(chosen, np.where(expected, one, other))


@pytest.mark.parametrize("operator", ["Greater", "GreaterOrEqual"])
def test_comparisons_with_a_constant_and_of_a_column_with_a_row(operator: str) -> None:
    column = np.array([[np.nan], [0.5], [2]], np.float32)
    row = np.array([[0.5, np.nan, -1, 4]], np.float32)
    text = f"""g (float[N,1] x, float[1,M] y) => (bool[N,M] a, bool[N,1] b, bool[N,1] c)
    <float half = {{0.5}}>
    {{ a = {operator}(x, y) b = {operator}(x, half) c = {operator}(half, x) }}"""

    answers = compute(text, x=column, y=row)

    half, compared = np.float32(0.5), _OPERATORS[operator]
    pairs: list[tuple[Any, Any]] = [(column, row), (column, half), (half, column)]
    for answer, (left, right) in zip(answers, pairs, strict=True):
        np.testing.assert_array_equal(answer, compared(left, right))


@pytest.mark.parametrize("operator", ["Greater", "GreaterOrEqual"])
def test_comparisons_in_branches_and_bodies(operator: str) -> None:
    text = f"""g (bool c, int64 n, float[N] x, float[N] y) => (bool[N] a, bool[N] b) <bool yes = {{1}}> {{
        a = If (c) <then_branch = t () => (bool[N] p) {{ p = {operator}(x, y) }},
                    else_branch = e () => (bool[N] q) {{ q = Equal(x, y) }}>
        start = Equal(x, y)
        b = Loop(n, yes, start) <body = l (int64 i, bool d, bool[N] last) => (bool f, bool[N] now) {{
            f = Identity(d) r = {operator}(x, y) now = And(r, r)
        }}>
    }}"""
    one, other = _ONE.astype(np.float32), _OTHER.astype(np.float32)
    expected = _OPERATORS[operator](one, other)

    for answer in compute(text, c=np.array(True), n=np.array(2), x=one, y=other):
        np.testing.assert_array_equal(answer, expected)


def test_comparisons_of_models_that_share_weights() -> None:
    from ortpkg.runtime.providers.native_library import NativeModel
    from ortpkg.runtime.providers.openvino_core import new_core
    from ortpkg.runtime.providers.openvino_group import _read

    data = model_of("g (float[N] x, float[N] y) => (bool[N] z) { z = Greater(x, y) }")

    read = _read(new_core(), NativeModel(data=data, inputs=("x", "y"), outputs=("z",)))

    assert "Greater" not in {node.get_type_name() for node in read.get_ops()}
    assert [set(port.names) for port in read.outputs] == [{"z"}]
