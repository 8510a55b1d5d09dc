"""Quantized graphs as machine code give the integers of the numpy kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from tests.engine.transformers.transformation import HEADER, run_engine

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

Array = npt.NDArray[Any]
_CHECKED = ("ortpkg.llvm_check", "1")


def _bytes(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    random = np.random.default_rng(11)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _codes(dtype: str, *shape: int) -> str:
    return ", ".join(map(str, _bytes(dtype, *shape).reshape(-1)))


def _assert_same(text: str, feeds: Mapping[str, Array]) -> None:
    """Machine code with bounds checks computes all of the graph, and what the engine computes."""
    proto = onnx.parser.parse_model(HEADER + text)
    wanted = run_engine(proto, dict(feeds))
    options = SessionOptions()
    options.add_session_config_entry(*_CHECKED)
    with InferenceSession(proto.SerializeToString(), options, [LLVM_EP]) as session:
        made = session.run(None, dict(feeds))
    for one, other in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)


@pytest.mark.parametrize(("kind", "zero"), [("uint8", 128), ("int8", -3)])
def test_numbers_become_codes(kind: str, zero: int) -> None:
    halves = np.arange(-90, 90, dtype=np.float32) / 4
    far = np.array([1e9, -1e9, np.inf, -np.inf, np.nan, 3e38], np.float32)
    text = f"""g (float[186] x) => ({kind}[186] y, float[186] w)
        <float s = {{0.5}}, {kind} z = {{{zero}}}>
        {{ y = QuantizeLinear(x, s, z) w = DequantizeLinear(y, s, z) }}"""
    _assert_same(text, {"x": np.concatenate([halves, far])})


@pytest.mark.parametrize("groups", [1, 8])
def test_images_of_codes_are_convolved(groups: int) -> None:
    channels = 8 // groups
    text = f"""g (uint8[2, 8, 9, 7] x) => (uint8[2, 8, 5, 4] y)
        <float s = {{0.02}}, uint8 p = {{131}}, float[8] t = {{1, 2, 3, 4, 5, 6, 7, 8}},
        int8[8] q = {{0, 0, 0, 0, 0, 0, 0, 0}}, float u = {{80}}, uint8 r = {{100}},
        int32[8] b = {{4000, -900, 0, 1, 2, 3, 4, 5}}, int8[8, {channels}, 3, 3] w =
        {{{_codes("int8", 8, channels, 3, 3)}}}, int8[8, 8, 1, 1] v =
        {{{_codes("int8", 8, 8, 1, 1)}}}>
        {{ a = QLinearConv<pads = [1, 1, 1, 1], strides = [2, 2], group = {groups}>
        (x, s, p, w, t, q, u, r, b) y = QLinearConv(a, s, p, v, t, q, u, r) }}"""
    _assert_same(text, {"x": _bytes("uint8", 2, 8, 9, 7)})


def test_images_of_any_size_are_convolved() -> None:
    text = f"""g (uint8[batch, 3, height, width] x) => (int32[batch, 4, rows, columns] y)
        <uint8 p = {{3}}, int8[4, 3, 3, 3] w = {{{_codes("int8", 4, 3, 3, 3)}}}>
        {{ y = ConvInteger<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, p) }}"""
    for shape in ((2, 3, 7, 6), (1, 3, 1, 4)):
        _assert_same(text, {"x": _bytes("uint8", *shape)})


def test_matrices_of_codes_are_multiplied() -> None:
    text = f"""g (int8[rows, 37] a) => (uint8[rows, 19] y)
        <float s = {{0.02}}, int8 p = {{9}}, float t = {{0.01}}, uint8 q = {{77}},
        float u = {{0.03}}, uint8 r = {{131}}, uint8[37, 19] b = {{{_codes("uint8", 37, 19)}}}>
        {{ y = QLinearMatMul(a, s, p, b, t, q, u, r) }}"""
    for rows in (1, 5, 40):
        _assert_same(text, {"a": _bytes("int8", rows, 37)})
