"""Sizes that do not fit one another: refused when compiled, or before a run, never read beyond."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import OrtpkgError, RunError
from ortpkg.runtime.session.inference_session import InferenceSession

pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")


def _session(path: Path, signature: str, body: str) -> InferenceSession:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    net {signature} {{ {body} }}"""
    onnx.save(onnx.parser.parse_model(text), path / "net.onnx")
    return InferenceSession(path / "net.onnx", providers=["llvm", "cpu"])


def _ones(**shapes: tuple[int, ...]) -> Mapping[str, np.ndarray]:
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


_LAYER = "float[3, b, 4] x, float[1, 32, 4] w, float[1, 32, 8] r"


@pytest.mark.parametrize(
    ("inputs", "body", "shape"),
    [
        ("int32[l] n", 'y = LSTM<hidden_size=8>(x, w, r, "", n)', (2,)),
        ("float[1, p] q", 'y = LSTM<hidden_size=8>(x, w, r, "", "", "", "", q)', (1, 3)),
    ],
)
def test_lengths_and_peepholes_that_do_not_fit_a_layer_are_told_by_the_numpy_engine(
    tmp_path: Path, inputs: str, body: str, shape: tuple[int, ...]
) -> None:
    signature = f"({_LAYER}, {inputs}) => (float[s, d, b, h] y)"
    feeds = dict(_ones(x=(3, 5, 4), w=(1, 32, 4), r=(1, 32, 8)))
    name = inputs.split()[-1]
    feeds[name] = np.ones(shape, np.int32 if name == "n" else np.float32)
    with _session(tmp_path, signature, body) as session:
        assert session.get_placement().entries[0].ep_name == LLVM_EP
        with pytest.raises(RunError, match=r"node 'LSTM_0' \(LSTM\) failed: "):
            session.run(None, feeds)


@pytest.mark.parametrize(
    ("signature", "body", "shapes"),
    [
        ("(float[a, 4] x, float[b, 4] y) => (float[c, 8] z)", "z = Concat<axis=1>(x, y)",
         {"x": (2, 4), "y": (50_000, 4)}),
        ("(float[a, 4] x, float[b, 4] y) => (float[c, 8] z)", "z = Concat<axis=1>(x, y)",
         {"x": (50_000, 4), "y": (2, 4)}),
        ("(float[m, k] x, float[l, n] y) => (float[m, n] z)", "z = MatMul(x, y)",
         {"x": (3, 40_000), "y": (3, 5)}),
        ("(float[m, k] x, float[k, n] y, float[p, q] b) => (float[m, n] z)", "z = Gemm(x, y, b)",
         {"x": (3, 4), "y": (4, 50_000), "b": (3, 7)}),
        ("(float[a] x, float[b] y) => (float[c] z)", "z = Add(x, y)", {"x": (3,), "y": (90_000,)}),
        ("(float[a, 3] x, float[b, c] y) => (float[d, e] z)",
         "s = Shape(x) z = Reshape(y, s)", {"x": (100_000, 3), "y": (2, 3)}),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_told_and_nothing_is_read_beyond(
    tmp_path: Path, signature: str, body: str, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    with _session(tmp_path, signature, body) as session, pytest.raises(OrtpkgError):
        session.run(None, _ones(**shapes))


def test_sizes_that_may_broadcast_are_left_and_give_what_they_should(tmp_path: Path) -> None:
    signature = "(float[a, 4] x, float[b, 4] y) => (float[c, 4] z)"
    with _session(tmp_path, signature, "t = Relu(x) z = Add(t, y)") as session:
        for one, other in ((1, 5), (5, 1), (5, 5)):
            made = session.run(None, _ones(x=(one, 4), y=(other, 4)))[0]
            np.testing.assert_array_equal(made, np.full((max(one, other), 4), 2, np.float32))


def test_gathers_of_nothing_are_told(tmp_path: Path) -> None:
    signature = "(float[a, 4] x, int64[b] i) => (float[b, 4] z)"
    with _session(tmp_path, signature, "z = Gather<axis=0>(x, i)") as session:
        assert session.get_placement().entries[0].ep_name == LLVM_EP
        with pytest.raises(OrtpkgError):
            session.run(None, {"x": np.ones((0, 4), np.float32), "i": np.zeros(3, np.int64)})


@pytest.mark.parametrize("height", ["h", "1"])
def test_transposed_convolutions_that_would_give_nothing_are_told(
    tmp_path: Path, height: str
) -> None:
    weights = ", ".join(["1"] * 8)
    signature = (
        f"(float[1, 2, {height}, 3] x) => (float[n, c, y, z] out)"
        f" <float[2, 1, 2, 2] w = {{{weights}}}>"
    )
    body = "out = ConvTranspose<strides = [2, 2], pads = [1, 0, 1, 0]>(x, w)"
    with _session(tmp_path, signature, body) as session, pytest.raises(OrtpkgError):
        session.run(None, _ones(x=(1, 2, 1, 3)))


def test_an_output_without_elements_needs_no_step(tmp_path: Path) -> None:
    signature = "(float[2, 0, 4, 4] x, float[3] u) => (float[a, b, c, d] y, float[3] v)"
    body = "y = MaxPool<kernel_shape = [2, 2]>(x) v = Relu(u)"
    with _session(tmp_path, signature, body) as session:
        assert session.get_placement().entries[0].ep_name == LLVM_EP
        made = session.run(None, _ones(x=(2, 0, 4, 4), u=(3,)))
    assert [each.shape for each in made] == [(2, 0, 3, 3), (3,)]
