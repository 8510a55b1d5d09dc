"""Convolutions, transposed ones and poolings as machine code give what the numpy kernels give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from tests.engine.transformers.transformation import HEADER, run_engine

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

Array = npt.NDArray[Any]


def _random(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def _assert_close(
    text: str, weights: Mapping[str, Array], *feeds: Mapping[str, Array], rtol: float = 1e-5
) -> None:
    """Machine code with bounds checks computes all of the graph, for each of the feeds."""
    proto = onnx.parser.parse_model(HEADER + text)
    for name, array in weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.llvm_check", "1")
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with InferenceSession(proto.SerializeToString(), options, [LLVM_EP]) as session:
        for each in feeds:
            (wanted,) = run_engine(proto, dict(each))
            (made,) = session.run(None, dict(each))
            assert made.dtype == wanted.dtype
            most = float(np.abs(wanted).max())
            np.testing.assert_allclose(made, wanted, rtol=rtol, atol=rtol * most)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("channels", "outputs", "size", "kernel", "attributes"),
    [
        (32, 16, (5, 4), (2, 2), "strides = [2, 2]"),
        (3, 5, (4, 5), (3, 2), "strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 2]"),
        (16, 16, (4, 3), (4, 4), "strides = [2, 2], pads = [1, 1, 1, 1]"),
        (16, 24, (6, 5), (2, 3), "dilations = [2, 3], strides = [2, 3], pads = [1, 2, 3, 0]"),
        (12, 18, (4, 4), (3, 3), 'strides = [2, 2], group = 3, auto_pad = "SAME_LOWER"'),
        (8, 8, (3, 3), (3, 3), 'group = 8, auto_pad = "SAME_UPPER"'),
        (4, 4, (3, 4), (2, 2), "strides = [3, 4], output_shape = [10, 15]"),
        (17, 3, (9,), (4,), "strides = [4]"),
        (4, 6, (3, 4), (2, 3), "strides = @, dilations = @, pads = @, output_padding = @"),
        (4, 6, (3, 4), (2, 3), 'strides = @, dilations = @, auto_pad = "SAME_LOWER"'),
        (4, 6, (3, 4), (2, 3), "strides = @, dilations = [2, 1], kernel_shape = @"),
        (5, 20, (2, 3, 2), (3, 2, 1), "strides = [2, 2, 2], pads = [1, 0, 0, 1, 0, 0]"),
    ],
)
@pytest.mark.parametrize("are_weights_known", [True, False])
def test_transposed_convolutions(
    channels: int,
    outputs: int,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    attributes: str,
    are_weights_known: bool,
) -> None:
    """Followed by what goes into their epilogue, one number for each channel, and an activation."""
    groups = int(attributes.split("group = ")[1].split(",")[0]) if "group" in attributes else 1
    weights = _random(channels, outputs // groups, *kernel)
    shapes = [", ".join(map(str, shape)) for shape in ((2, channels, *size), weights.shape)]
    given = "" if are_weights_known else f", float[{shapes[1]}] w"
    rest = ", ".join(f"r{axis}" for axis in range(len(size)))
    attributes = attributes.replace("= @", ": ints = []")  # whose kind the text cannot show
    text = f"""g (float[{shapes[0]}] x{given}) => (float[2, {outputs}, {rest}] y)
        {{ a = ConvTranspose<{attributes}>(x, w, b) y = Relu(a) }}"""
    feeds = {"x": _random(2, channels, *size)}
    constants = {"b": _random(outputs)}
    (constants if are_weights_known else feeds)["w"] = weights
    _assert_close(text, constants, feeds)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "node",
    [
        "AveragePool<kernel_shape = [2], pads = [0, 1073741824]>(x)",
        "Conv<pads = [1073741824, 0]>(x, w)",
        "ConvTranspose<strides = [1073741824]>(x, w)",
    ],
)
def test_windows_without_end_are_left_to_the_cpu_provider_at_once(node: str) -> None:
    proto = onnx.parser.parse_model(
        f"{HEADER} g (float[1, 1, 8] x, float[1, 1, 2] w) => (float[1, 1, n] y) {{ y = {node} }}"
    )
    with InferenceSession(proto.SerializeToString(), providers=["llvm", "cpu"]) as session:
        assert session.get_providers() == ["LLVMExecutionProvider", "CPUExecutionProvider"]


def test_transposed_convolutions_of_open_sizes() -> None:
    text = """g (float[batch, 16, height, width] x) => (float[batch, 16, rows, columns] y)
        { a = ConvTranspose<strides = [2, 2]>(x, w)
        b = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(a, v) y = Add(b, b) }"""
    constants = {"w": _random(16, 32, 2, 2), "v": _random(32, 16, 3, 3)}
    feeds = [{"x": _random(*shape)} for shape in ((1, 16, 3, 5), (2, 16, 1, 1))]
    _assert_close(text, constants, *feeds)


def test_convolutions_and_poolings_of_float16() -> None:
    text = """g (float16[2, 3, 9, 8] x) => (float16[2, 16, 4, 4] y)
        { a = Conv<pads = [1, 1, 1, 1]>(x, w, b) r = Relu(a) d = Conv<group = 16>(r, v)
        m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(d)
        y = AveragePool<kernel_shape = [2, 2], pads = [0, 0, 1, 1], strides = [1, 1]>(m) }"""
    shapes = {"w": (16, 3, 3, 3), "b": (16,), "v": (16, 1, 2, 1)}
    constants = {name: _random(*shape, dtype="float16") for name, shape in shapes.items()}
    _assert_close(text, constants, {"x": _random(2, 3, 9, 8, dtype="float16")}, rtol=2e-3)


_WINOGRAD = """g ({kind}[batch, 40, 21, 18] x, {kind}[batch, 48, 20, 20] r)
    => ({kind}[batch, 48, 20, 20] y)
    {{ t = Conv(x, u) a = Conv<pads = [0, 2, 1, 2]>(t, w, b) s = Add(a, r) y = Relu(s) }}"""


def _winograd_model(dtype: str) -> tuple[str, Mapping[str, Array], Mapping[str, Array]]:
    """Windows of 3 x 3 that are cheaper by transforms, with a bias, an addend and an activation."""
    text = _WINOGRAD.format(kind=dtype.replace("32", ""))
    shapes = {"u": (40, 40, 1, 1), "w": (48, 40, 3, 3), "b": (48,)}
    weights = {name: _random(*shape, dtype=dtype) for name, shape in shapes.items()}
    weights = {name: array / array.dtype.type(8) for name, array in weights.items()}
    feeds = {"x": _random(2, 40, 21, 18, dtype=dtype), "r": _random(2, 48, 20, 20, dtype=dtype)}
    return text, weights, feeds


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-5), ("float16", 2e-3)])
def test_windows_that_are_transformed(dtype: str, rtol: float) -> None:
    text, weights, feeds = _winograd_model(dtype)
    _assert_close(text, weights, feeds, rtol=rtol)


def test_the_entry_has_windows_summed_directly() -> None:
    """Both are near each other, and not the same bits: transforms round elsewhere."""
    text, weights, feeds = _winograd_model("float32")
    proto = onnx.parser.parse_model(HEADER + text)
    for name, array in weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    made = []
    for entry in ("0", "1", ""):
        options = SessionOptions()
        if entry:
            options.add_session_config_entry("ortpkg.llvm_winograd", entry)
        with InferenceSession(proto.SerializeToString(), options, [LLVM_EP]) as session:
            made.append(session.run(None, dict(feeds))[0])
    direct, transformed, usual = made
    np.testing.assert_array_equal(transformed, usual)
    assert (direct != transformed).any()
    np.testing.assert_allclose(direct, transformed, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("kernel", "stride", "count"), [(17, 1, 0), (17, 2, 1), (40, 40, 1)])
def test_windows_that_overlap_much_are_left_to_kernels_that_share_their_sums(
    kernel: int, stride: int, count: int
) -> None:
    text = f"""net (float[1, 3, 80, 80] x) => (float[1, 3, h, w] y) {{
        y = AveragePool <kernel_shape = [{kernel}, {kernel}], strides = [{stride}, {stride}]> (x) }}"""
    proto = onnx.parser.parse_model(HEADER + text)
    with InferenceSession(proto.SerializeToString(), providers=[LLVM_EP, "cpu"]) as session:
        assert session.get_placement().entries[0].node_count == count
        feeds = {"x": _random(1, 3, 80, 80)}
        np.testing.assert_allclose(
            session.run(None, feeds)[0], run_engine(proto, feeds)[0], rtol=1e-5, atol=1e-6
        )
