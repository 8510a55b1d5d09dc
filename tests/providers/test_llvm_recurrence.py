"""Recurrent layers as machine code give what the numpy kernels give, and end within a limit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions, SessionOptions

pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FEATURES, _HIDDEN = 7, 19


def _model(
    path: Path,
    op_type: str,
    *,
    has_lengths: bool = False,
    hidden: int = _HIDDEN,
    **attributes: Any,
) -> Path:
    """A layer whose steps and batch are open, with biases and, but for lengths, nothing more."""
    random = np.random.default_rng(0)
    scale = 0.4 * (_HIDDEN / hidden) ** 0.5
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    width = _GATES[op_type] * hidden
    shapes = {"w": (width, _FEATURES), "r": (width, hidden), "b": (2 * width,)}
    weights = [
        numpy_helper.from_array(
            (random.standard_normal((directions, *shape)) * scale).astype(np.float32), name
        )
        for name, shape in shapes.items()
    ]
    outputs = ["y", "y_h", "y_c"][: 3 if op_type == "LSTM" else 2]
    names = ["x", "w", "r", "b", *(["lengths"] if has_lengths else [])]
    node = helper.make_node(op_type, names, outputs, hidden_size=hidden, **attributes)
    first = ["n", "t"] if attributes.get("layout") else ["t", "n"]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*first, _FEATURES])]
    if has_lengths:
        inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["n"]))
    made = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * (4 if name == "y" else 3))
        for name in outputs
    ]
    graph = helper.make_graph([node], "layer", inputs, made, weights)
    opset = helper.make_opsetid("", 22)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def _assert_alike(model: Path, *feeds: dict[str, Any]) -> None:
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.llvm_check", "1")
    with (
        InferenceSession(model, options, providers=["llvm", "cpu"]) as session,
        InferenceSession(model, providers=["cpu"]) as reference,
    ):
        first = session.get_placement().entries[0]
        assert (first.ep_name, first.node_count) == (LLVM_EP, 1), "the layer was left to the CPU"
        for each in feeds:
            for ours, theirs in zip(
                session.run(None, each), reference.run(None, each), strict=True
            ):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def _x(*sizes: int) -> dict[str, Any]:
    random = np.random.default_rng(sizes)
    return {"x": random.standard_normal((*sizes, _FEATURES)).astype(np.float32)}


_CASES: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"direction": "bidirectional", "layout": 1}),
    ("LSTM", {"clip": 0.3, "activations": ["HardSigmoid", "Softsign", "ScaledTanh"],
              "activation_alpha": [0.3, 0.9], "activation_beta": [0.4, 1.1]}),
    ("GRU", {"direction": "reverse"}),
    ("GRU", {"direction": "bidirectional", "linear_before_reset": 1}),
    ("GRU", {"layout": 1, "activations": ["Sigmoid", "Elu"]}),
    ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
    ("RNN", {"direction": "reverse", "activations": ["Relu"], "clip": 0.5}),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("op_type", "attributes"), _CASES)
def test_layers_of_open_sizes(tmp_path: Path, op_type: str, attributes: dict[str, Any]) -> None:
    model = _model(tmp_path / "layer.onnx", op_type, **attributes)
    _assert_alike(model, _x(4, 1), _x(1, 9), _x(6, 3))


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_sequences_of_different_lengths(tmp_path: Path, op_type: str) -> None:
    model = _model(tmp_path / "layer.onnx", op_type, has_lengths=True, direction="bidirectional")
    _assert_alike(model, _x(5, 4) | {"lengths": np.array([5, 0, 2, 4], np.int32)})


@pytest.mark.parametrize(
    "attributes",
    [
        {"input_forget": 1},
        {
            "direction": "bidirectional",
            "activations": ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Relu", "Tanh"],
        },
    ],
)
def test_what_is_not_compiled_is_left(tmp_path: Path, attributes: dict[str, Any]) -> None:
    model = _model(tmp_path / "layer.onnx", "LSTM", **attributes)
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        assert all(not each.node_count for each in session.get_placement().entries
                   if each.ep_name == LLVM_EP)  # fmt: skip


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("LSTM", {}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"direction": "bidirectional"}),
    ],
)
def test_units_of_one_sequence_are_shared_and_any_number_of_threads_gives_the_same_bits(
    tmp_path: Path, op_type: str, attributes: dict[str, Any]
) -> None:
    model = _model(tmp_path / "layer.onnx", op_type, hidden=330, **attributes)
    feeds, made = _x(40, 1), list[Any]()
    with InferenceSession(model, providers=["cpu"]) as reference:
        expected = reference.run(None, feeds)
    for threads in (1, 2, 3, 5):
        options = SessionOptions()
        options.intra_op_num_threads = threads
        with InferenceSession(model, options, providers=["llvm", "cpu"]) as session:
            for _ in range(20):
                made.append(session.run(None, feeds))
    for first, each, theirs in zip(made[0], made[-1], expected, strict=True):
        np.testing.assert_allclose(first, theirs, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(first, each)
    assert len({b"".join(each.tobytes() for each in outputs) for outputs in made}) == 1


def test_a_long_sequence_ends_within_a_limit(tmp_path: Path) -> None:
    model = _model(tmp_path / "layer.onnx", "LSTM")
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        limits = RunOptions()
        limits.timeout_s = 0.3
        start = time.perf_counter()
        with pytest.raises(LimitExceededError):
            session.run(None, _x(2_000_000, 1), limits)
        assert time.perf_counter() - start < 5
