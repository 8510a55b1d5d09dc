"""DynamicQuantizeLSTM of com.microsoft, held against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ortpkg
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def lstm_inputs(
    directions: int,
    dtype: Any = np.int8,
    *,
    per_channel: bool = False,
    with_zero_points: bool = True,
) -> list[Any]:
    """Inputs with biases, lengths and initial states; no peepholes."""
    random = np.random.default_rng(7)

    def normal(*shape: int) -> Tensor:
        return (random.normal(size=shape) * 0.5).astype(np.float32)

    least = -60 if dtype is np.int8 else 60
    columns = (directions, 4 * HIDDEN) if per_channel else (directions,)
    zero = np.zeros(columns, dtype)
    if with_zero_points:
        zero += dtype(least + 50)
    weights = [
        random.integers(least, least + 120, (directions, rows, 4 * HIDDEN)).astype(dtype)
        for rows in (INPUT, HIDDEN)
    ]
    scales = [random.uniform(0.004, 0.01, columns).astype(np.float32) for _ in range(2)]
    return [
        normal(STEPS, BATCH, INPUT),
        *weights,
        normal(directions, 8 * HIDDEN),
        np.array([5, 2, 3], np.int32),
        normal(directions, BATCH, HIDDEN),
        normal(directions, BATCH, HIDDEN),
        None,
        scales[0],
        zero,
        scales[1],
        zero,
    ]


def check(inputs: list[Any], **attributes: Any) -> None:
    """Compare with onnxruntime, weights constant or not."""
    attributes |= {"hidden_size": HIDDEN, "domain": "com.microsoft", "outputs": 3}
    expected = run_on_onnxruntime("DynamicQuantizeLSTM", *inputs, **attributes)
    given = tuple(slot for slot in (1, 2, 3, 7, 8, 9, 10, 11) if inputs[slot] is not None)
    for constant_slots in ((), given):
        result = run_op(
            "DynamicQuantizeLSTM", *inputs, opset=1, constant_slots=constant_slots, **attributes
        )
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_weights_of_both_types_run_in_every_direction(
    direction: str, dtype: Any, per_channel: bool
) -> None:
    refused = per_channel and dtype is np.int8  # zero points other than 0, by onnxruntime
    inputs = lstm_inputs(
        DIRECTIONS[direction], dtype, per_channel=per_channel, with_zero_points=not refused
    )
    inputs[4] = None
    check(inputs, direction=direction)


def test_each_column_takes_its_own_zero_point() -> None:
    """onnxruntime wants 0 for all columns; shifted weights are the same integers."""
    signed = lstm_inputs(1, per_channel=True)
    centre = np.arange(-12, 12, dtype=np.int8)
    signed[9] = signed[11] = centre[None]
    shifted = list(signed)
    shifted[1], shifted[2] = signed[1] - centre, signed[2] - centre
    shifted[9] = shifted[11] = np.zeros((1, 24), np.int8)
    own, expected = (
        run_op("DynamicQuantizeLSTM", *inputs, opset=1, domain="com.microsoft", outputs=3)
        for inputs in (signed, shifted)
    )
    for ours, theirs in zip(own, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_sequences_of_different_lengths_take_scales_from_those_that_still_run(
    direction: str,
) -> None:
    inputs = lstm_inputs(DIRECTIONS[direction])
    inputs[0][3:, 1:] *= 40  # after the ends of sequences 1 and 2
    check(inputs, direction=direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_scale_counts_steps_after_the_longest_sequence(direction: str) -> None:
    inputs = lstm_inputs(DIRECTIONS[direction])
    inputs[4] = np.array([3, 2, 3], np.int32)
    inputs[0][3:] *= 40
    check(inputs, direction=direction)


def test_peepholes_and_bounds_and_activations_are_those_of_lstm() -> None:
    inputs = lstm_inputs(2)
    inputs[7] = np.random.default_rng(3).normal(size=(2, 3 * HIDDEN)).astype(np.float32)
    check(inputs, direction="bidirectional", clip=0.8)
    names = ["HardSigmoid", "Relu", "Tanh"] * 2
    check(inputs, direction="bidirectional", activations=names)


def test_needs_no_biases_nor_states() -> None:
    inputs = lstm_inputs(1, with_zero_points=False)
    for slot in (3, 4, 5, 6):
        inputs[slot] = None
    check(inputs)


def test_couples_the_gates_of_input_and_forgetting() -> None:
    check(lstm_inputs(1), input_forget=1)


@pytest.mark.parametrize(("slot", "name"), [(8, "W_scale"), (11, "R_zero_point")])
def test_rejects_scales_that_fit_no_column(slot: int, name: str) -> None:
    inputs = lstm_inputs(1)
    inputs[slot] = np.ones((1, 5), inputs[slot].dtype)
    with pytest.raises(
        ValueError,
        match=rf"{name} of shape \(1, 5\) fits neither \(1,\), one for each direction,"
        r" nor \(1, 24\), one for each column of the weights",
    ):
        run_op("DynamicQuantizeLSTM", *inputs, opset=1, domain="com.microsoft", outputs=3)


def test_rejects_weights_that_are_not_transposed() -> None:
    inputs = lstm_inputs(1)
    inputs[1] = inputs[1].swapaxes(1, 2)
    with pytest.raises(ValueError, match="do not fit 4 gates in 1 directions"):
        run_op("DynamicQuantizeLSTM", *inputs, opset=1, domain="com.microsoft", outputs=3)


def test_what_dynamic_quantization_makes_of_an_lstm_runs_alone(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    quantization = pytest.importorskip("onnxruntime.quantization")
    random = np.random.default_rng(5)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        f"g (float[s, b, {INPUT}] x) => (float[s, 1, b, {HIDDEN}] y)\n"
        "{ y = LSTM <hidden_size = 6> (x, w, r, b) }"
    )
    shapes = {"w": (1, 24, INPUT), "r": (1, 24, HIDDEN), "b": (1, 48)}
    for name, shape in shapes.items():
        values = random.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(model, tmp_path / "float.onnx")
    quantized = tmp_path / "quantized.onnx"
    quantization.quantize_dynamic(tmp_path / "float.onnx", quantized)
    operators = [node.op_type for node in onnx.load(quantized).graph.node]
    assert "DynamicQuantizeLSTM" in operators
    feeds = {"x": random.normal(size=(STEPS, BATCH, INPUT)).astype(np.float32)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more of them quantize each its part of the batch
    peer = onnxruntime.InferenceSession(quantized, options, providers=["CPUExecutionProvider"])
    session = ortpkg.InferenceSession(quantized, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        session.run(None, feeds)[0], peer.run(None, feeds)[0], rtol=1e-4, atol=2e-5
    )
