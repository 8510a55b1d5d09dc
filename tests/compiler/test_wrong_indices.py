"""Indices beyond an axis: a run of machine code fails as one of the numpy kernels does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import RunError
from ortpkg.runtime.providers.llvm.llvm_execution_provider import CHECK_ENTRY
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from tests.engine.transformers.transformation import HEADER

pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
_DATA = np.arange(20, dtype=np.float32).reshape(5, 4)


def _session(provider: str, text: str) -> InferenceSession:
    options = SessionOptions()
    options.add_session_config_entry(CHECK_ENTRY, "1")
    model = onnx.parser.parse_model(HEADER + text).SerializeToString()
    providers = ["cpu"] if provider == "cpu" else [provider, "cpu"]
    return InferenceSession(model, options, providers=providers)


def _array(indices: Any, kind: str = "int64") -> npt.NDArray[Any]:
    return np.array(indices, kind)


@pytest.mark.parametrize(
    ("inputs", "body", "wrong", "message", "right"),
    [
        ("int64[n, k] i", "y = Gather(x, i)", [[0, 5, 4]], "1 index is out of range for an axis of size 5", [[0, 4, -5]]),
        ("int64[n, k] i", "y = Gather(x, i)", [[-6, 5, 1 << 60]], "3 indices are out of range for an axis of size 5", [[]]),
        ("int64[n] i", "y = Gather<axis = 1>(x, i)", [3, -5], "1 index is out of range for an axis of size 4", [3, -4]),
        ("int64[n, k] i", "y = GatherElements(x, i)", [[1, 2, 5, 0]], "1 index is out of range for an axis of size 5", [[1, 2, -5, 4]]),
        ("int64[n, 2] i", "y = GatherND(x, i)", [[0, 4]], "1 index is out of range for an axis of size 4", [[0, 3], [-5, -4]]),
        ("int64[n, 2] i", "y = GatherND(x, i)", [[5, 3]], "1 index is out of range for an axis of size 5", [[4, 3]]),
    ],
)  # fmt: skip
def test_an_index_beyond_its_axis_is_told(
    inputs: str, body: str, wrong: Any, message: str, right: Any
) -> None:
    """The node is named, in a run alone: what follows computes with what is right again."""
    text = f"g (float[v, w] d, {inputs}) => (z) {{ x = Relu(d) {body} z = Neg(y) }}"
    text = text.replace("(z) {", f"(float[{'n, k' if 'GatherND' not in body else 'n'}] z) {{")
    if "y = Gather(x" in body:
        text = text.replace("float[n, k] z", "float[n, k, w] z")
    if "axis = 1" in body:
        text = text.replace("float[n, k] z", "float[v, n] z")
    with _session("llvm", text) as session, _session("cpu", text) as numpy_session:
        assert session.get_placement().entries[0].ep_name == LLVM_EP
        with pytest.raises(RunError, match=message) as told:
            session.run(None, {"d": _DATA, "i": _array(wrong)})
        with pytest.raises(RunError, match="out of range for an axis") as wanted:
            numpy_session.run(None, {"d": _DATA, "i": _array(wrong)})
        assert told.value.node_name == wanted.value.node_name
        feeds = {"d": _DATA, "i": _array(right)}
        np.testing.assert_array_equal(
            session.run(None, feeds)[0], numpy_session.run(None, feeds)[0]
        )


@pytest.mark.parametrize("positions", ["int64[1, n] p", "int64[1] p"])
def test_a_position_beyond_the_cache_of_a_rotary_embedding_is_told(positions: str) -> None:
    text = f"""g (float[1, n, 8] x, {positions}, float[m, 4] c) => (float[1, n, 8] y)
        {{ y = com.microsoft.RotaryEmbedding(x, p, c, c) }}"""
    at = _array([6]) if "[1]" in positions else _array([[0, 9, 1]])
    feeds = {"x": np.ones((1, 3, 8), np.float32), "p": at, "c": np.ones((8, 4), np.float32)}
    with (
        _session("llvm", text) as session,
        pytest.raises(RunError, match="1 index is out of range for an axis of size 8"),
    ):
        session.run(None, feeds)


def test_constant_indices_are_held_against_open_sizes_before_a_run() -> None:
    text = """g (float[v, 4] d) => (float[2, 4] y) <int64[2] i = {5, -7}>
        { x = Relu(d) y = Gather(x, i) }"""
    with _session("llvm", text) as session:
        with pytest.raises(RunError, match="index -7 is out of range for an axis of size 5"):
            session.run(None, {"d": _DATA})
        data = np.ones((7, 4), np.float32)
        np.testing.assert_array_equal(session.run(None, {"d": data})[0], data[:2])


def test_nothing_is_reported_of_a_one_hot_index_beyond_its_depth() -> None:
    """ONNX has a row without a one for it."""
    text = """g (int64[n] i) => (float[n, 3] y) <int64 depth = {3}, float[2] values = {0, 1}>
        { y = OneHot(i, depth, values) }"""
    with _session("llvm", text) as session:
        made = session.run(None, {"i": _array([3, -4, -1])})[0]
    np.testing.assert_array_equal(made, [[0, 0, 0], [0, 0, 0], [0, 0, 1]])
