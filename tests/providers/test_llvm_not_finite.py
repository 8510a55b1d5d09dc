"""NaN and infinity change what they change on the numpy engine, and nothing beside it.

Kernels multiply by zeros that no model has: in packed weights, in tails of vectors, in padding.
Zero times infinity is NaN, so that such a zero would carry one row, group or image into another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import CPU_EP, LLVM_EP
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

Array = npt.NDArray[Any]
_HEADER = '<ir_version: 11, opset_import: ["" : 23, "com.microsoft" : 1]>\n'
_NOT_FINITE = (np.nan, np.inf, -np.inf)


def _positive(*shape: int) -> Array:
    """Numbers above 0, so that no sum of infinities is NaN by itself."""
    return np.random.default_rng(len(shape)).random(shape).astype(np.float32) + 0.1


def _signed(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def _is_changed(made: Array, clean: Array) -> Array:
    is_same: Array = (made == clean) | (np.isnan(made) & np.isnan(clean))
    return ~is_same


def _check(
    text: str,
    weights: Mapping[str, Array],
    feeds: Mapping[str, Array],
    poisoned: Mapping[str, Sequence[tuple[int, ...]]],
) -> None:
    """Holds what changes in each output against the numpy engine, bit for bit."""
    proto = onnx.parser.parse_model(_HEADER + text)
    for name, array in weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.llvm_winograd", "0")
    model = proto.SerializeToString()
    with (
        InferenceSession(model, options, [LLVM_EP, CPU_EP]) as compiled,
        InferenceSession(model, None, [CPU_EP]) as engine,
        np.errstate(all="ignore"),
    ):
        clean, wanted = compiled.run(None, dict(feeds)), engine.run(None, dict(feeds))
        for name, places in poisoned.items():
            for place in places:
                for number in _NOT_FINITE:
                    fed = {key: array.copy() for key, array in feeds.items()}
                    fed[name][place] = number
                    pairs = zip(
                        compiled.run(None, fed), engine.run(None, fed), clean, wanted, strict=True
                    )
                    for made, expected, made_before, expected_before in pairs:
                        spread = _is_changed(made, made_before)
                        spread &= ~_is_changed(expected, expected_before)
                        assert not spread.any(), f"{name}{place} = {number} reaches others"


@pytest.mark.parametrize(("rows", "depth", "columns"), [(5, 7, 9), (1, 7, 33), (17, 33, 65)])
def test_rows_and_columns_of_products(rows: int, depth: int, columns: int) -> None:
    text = "g (float[b, m, k] x, float[b, k, n] w) => (float[b, m, n] y) { y = MatMul(x, w) }"
    feeds = {"x": _positive(3, rows, depth), "w": _positive(3, depth, columns)}
    last = (rows - 1, depth - 1), (depth - 1, columns - 1)
    _check(text, {}, feeds, {"x": [(1, 0, 0), (0, *last[0])], "w": [(2, 0, 0), (1, *last[1])]})
    text = f"g (float[m, {depth}] x) => (float[m, n] y) {{ y = MatMul(x, w) }}"
    feeds = {"x": _positive(rows, depth)}
    _check(text, {"w": _signed(depth, columns)}, feeds, {"x": [(0, 0), last[0]]})


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("group", [1, 2, 3])
def test_taps_of_transposed_convolutions_whose_weights_are_fed(
    strides: tuple[int, int], group: int
) -> None:
    """Between the elements of the source there is nothing, not a zero."""
    text = f"""g (float[n, 6, 4, 5] x, float[6, 7, 3, 2] w) => (float[n, c, p, q] y)
        {{ y = ConvTranspose<group = {group}, strides = [{strides[0]}, {strides[1]}]>(x, w) }}"""
    feeds = {"x": _positive(2, 6, 4, 5), "w": _positive(6, 7, 3, 2)}
    places = {"x": [(1, 0, 0, 0), (0, 5, 3, 4)], "w": [(5, 6, 2, 1), (0, 0, 0, 0)]}
    _check(text, {}, feeds, places)


@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize("between", ["Log", "Reciprocal", "Relu"])
def test_lanes_that_no_channel_has(channels: int, between: str) -> None:
    """An epilogue may make infinity of the zeros that fill a block."""
    text = f"""g (float[n, 5, 7, 6] x) => (float[n, 4, p, q] y)
        {{ a = Conv(x, w) b = {between}(a) y = Conv(b, v) }}"""
    weights = {"w": _positive(channels, 5, 3, 3), "v": _positive(4, channels, 1, 1)}
    _check(text, weights, {"x": _positive(2, 5, 7, 6)}, {"x": [(1, 0, 0, 0), (0, 4, 6, 5)]})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("node", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_steps_behind_a_sequence(node: str, direction: str) -> None:
    gates, count = {"LSTM": 4, "GRU": 3, "RNN": 1}[node], 1 + (direction == "bidirectional")
    text = f"""g (float[s, b, 6] x, int32[b] l) => (float[s, d, b, 5] y, float[d, b, 5] h)
        {{ y, h = {node}<hidden_size = 5, direction = "{direction}">(x, w, r, , l) }}"""
    weights = {"w": _signed(count, gates * 5, 6), "r": _signed(count, gates * 5, 5)}
    feeds = {"x": _positive(4, 5, 6), "l": np.array([1, 2, 4, 0, 3], np.int32)}
    _check(text, weights, feeds, {"x": [(3, 0, 0), (2, 4, 5), (0, 3, 5), (1, 1, 5)]})


@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (1, 17), (20, 70)])
@pytest.mark.parametrize("attributes", ["", "<is_causal = 1>"])
def test_tiles_of_attention(queries: int, keys: int, attributes: str) -> None:
    text = f"""g (float[b, h, q, 8] q, float[b, h, k, 8] k, float[b, h, k, 9] v)
        => (float[b, h, q, 9] y) {{ y = Attention{attributes}(q, k, v) }}"""
    feeds = {
        "q": _positive(2, 3, queries, 8),
        "k": _positive(2, 3, keys, 8),
        "v": _positive(2, 3, keys, 9),
    }
    places = {"q": [(0, 0, 0, 0)], "k": [(1, 2, keys - 1, 7)], "v": [(1, 0, 0, 0)]}
    _check(text, {}, feeds, places)


@pytest.mark.parametrize("node", ["Softmax", "LogSoftmax", "LpNormalization", "Hardmax"])
@pytest.mark.parametrize("size", [1, 5, 33])
def test_rows_beside_one_another(node: str, size: int) -> None:
    text = f"g (float[m, n] x) => (float[m, n] y) {{ y = {node}(x) }}"
    _check(text, {}, {"x": _positive(5, size)}, {"x": [(1, 0), (4, size - 1)]})


@pytest.mark.parametrize("node", ["MaxPool", "AveragePool"])
def test_windows_of_pools(node: str) -> None:
    text = f"""g (float[n, 5, 6, 7] x) => (float[n, 5, h, w] y)
        {{ y = {node}<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x) }}"""
    _check(text, {}, {"x": _positive(2, 5, 6, 7)}, {"x": [(0, 0, 3, 3), (1, 4, 5, 6)]})
