"""RNN, GRU and LSTM: directions, lengths, layouts, and activations by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper

from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op

RANDOM = np.random.default_rng(13)
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OUTPUTS = {"RNN": 2, "GRU": 2, "LSTM": 3}


def normal(*shape: int) -> Tensor:
    return (RANDOM.normal(size=shape) * 0.5).astype(np.float32)


def inputs_of(
    op_type: str, directions: int, *, peepholes: bool = False, lengths: bool = True
) -> list[Any]:
    gates = GATES[op_type]
    inputs: list[Any] = [
        normal(STEPS, BATCH, INPUT),
        normal(directions, gates * HIDDEN, INPUT),
        normal(directions, gates * HIDDEN, HIDDEN),
        normal(directions, 2 * gates * HIDDEN),
        np.array([5, 2, 3], np.int32) if lengths else None,
        normal(directions, BATCH, HIDDEN),
    ]
    if op_type == "LSTM":
        inputs.append(normal(directions, BATCH, HIDDEN))
        if peepholes:
            inputs.append(normal(directions, 3 * HIDDEN))
    return inputs


def onnxruntime_outputs(
    op_type: str, inputs: list[Any], attributes: dict[str, Any]
) -> list[Tensor]:
    onnxruntime = pytest.importorskip("onnxruntime")
    feeds = {f"x{slot}": value for slot, value in enumerate(inputs) if value is not None}
    names = ["" if value is None else f"x{slot}" for slot, value in enumerate(inputs)]
    node = helper.make_node(
        op_type, names, [f"y{i}" for i in range(OUTPUTS[op_type])], **attributes
    )
    types = {
        name: TensorProto.INT32 if value.dtype == np.int32 else TensorProto.FLOAT
        for name, value in feeds.items()
    }
    graph = helper.make_graph(
        [node],
        "peer",
        [
            helper.make_tensor_value_info(name, types[name], value.shape)
            for name, value in feeds.items()
        ],
        [ValueInfoProto(name=name) for name in node.output],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    outputs: list[Tensor] = session.run(None, feeds)
    return outputs


def check_against_onnxruntime(op_type: str, inputs: list[Any], **attributes: Any) -> None:
    attributes["hidden_size"] = HIDDEN
    expected = onnxruntime_outputs(op_type, inputs, attributes)
    constants = [slot for slot in (1, 2, 3, 7) if slot < len(inputs)]
    for constant_slots in ((), constants):
        result = run_op(
            op_type,
            *inputs,
            outputs=OUTPUTS[op_type],
            opset=21,
            constant_slots=constant_slots,
            **attributes,
        )
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_of_different_lengths_run_in_every_direction(
    op_type: str, direction: str
) -> None:
    inputs = inputs_of(op_type, 2 if direction == "bidirectional" else 1)
    check_against_onnxruntime(op_type, inputs, direction=direction)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("batch", [1, BATCH])
def test_whole_sequences_run_in_every_direction(op_type: str, direction: str, batch: int) -> None:
    inputs = inputs_of(op_type, 2 if direction == "bidirectional" else 1, lengths=False)
    own = [x[:, :batch] if slot in (0, 5, 6) else x for slot, x in enumerate(inputs)]
    check_against_onnxruntime(op_type, own, direction=direction)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("constant_slots", [(), (1, 2, 3)])
@pytest.mark.parametrize(
    "lengths", [None, np.zeros(BATCH, np.int32)], ids=["whole", "lengths of 0"]
)
def test_no_steps_end_in_zeros(op_type: str, constant_slots: tuple[int, ...], lengths: Any) -> None:
    """onnxruntime 1.31 leaves an LSTM's last cells as they lie, and crashes on a GRU."""
    inputs = inputs_of(op_type, 2)
    inputs[0], inputs[4] = inputs[0][:0], lengths
    attributes: dict[str, Any] = {"direction": "bidirectional", "hidden_size": HIDDEN}
    outputs, *lasts = run_op(
        op_type, *inputs, outputs=OUTPUTS[op_type], constant_slots=constant_slots, **attributes
    )
    assert outputs.shape == (0, 2, BATCH, HIDDEN)
    for last in lasts:
        np.testing.assert_array_equal(last, np.zeros((2, BATCH, HIDDEN), np.float32))


@pytest.mark.parametrize("op_type", GATES)
def test_a_sequence_of_no_steps_among_others_ends_in_zeros(op_type: str) -> None:
    inputs = inputs_of(op_type, 2)
    inputs[4] = np.array([5, 0, 3], np.int32)
    check_against_onnxruntime(op_type, inputs, direction="bidirectional")


@pytest.mark.parametrize("reset_after", [0, 1])
def test_whole_sequences_of_gru_reset_before_or_after_the_product(reset_after: int) -> None:
    check_against_onnxruntime(
        "GRU", inputs_of("GRU", 1, lengths=False), linear_before_reset=reset_after
    )


@pytest.mark.parametrize("op_type", ["GRU", "LSTM"])
def test_saturated_gates_stay_within_their_bounds(op_type: str) -> None:
    inputs = inputs_of(op_type, 1, lengths=False)
    inputs[0] *= np.float32(1e4)
    check_against_onnxruntime(op_type, inputs)


@pytest.mark.parametrize("coupled", [0, 1])
def test_lstm_with_peepholes_and_clip(coupled: int) -> None:
    inputs = inputs_of("LSTM", 1, peepholes=True)
    check_against_onnxruntime("LSTM", inputs, input_forget=coupled, clip=0.4)


@pytest.mark.parametrize("coupled", [0, 1])
def test_an_lstm_of_one_unit_with_peepholes_computes_each_sequence_by_itself(coupled: int) -> None:
    inputs = [normal(STEPS, BATCH, INPUT), normal(1, 4, INPUT), normal(1, 4, 1)]
    peepholes = normal(1, 3)

    def run(x: Tensor) -> Tensor:
        given = (x, *inputs[1:], *(None,) * 4, peepholes)
        made = run_op("LSTM", *given, outputs=3, hidden_size=1, input_forget=coupled)
        return np.asarray(made[0])

    alone = [run(inputs[0][:, [sequence]]) for sequence in range(BATCH)]
    np.testing.assert_allclose(run(inputs[0]), np.concatenate(alone, axis=2), rtol=1e-6)


@pytest.mark.parametrize("reset_after", [0, 1])
def test_gru_resets_before_or_after_the_product(reset_after: int) -> None:
    check_against_onnxruntime("GRU", inputs_of("GRU", 1), linear_before_reset=reset_after)


@pytest.mark.parametrize("reset_after", [0, 1])
def test_gru_mixes_state_and_candidate_whose_difference_is_infinite(reset_after: int) -> None:
    x, w = np.ones((1, 1, 1), np.float32), np.array([[[0], [0], [3e38]]], np.float32)
    r, state = np.zeros((1, 3, 1), np.float32), np.full((1, 1, 1), -3e38, np.float32)
    attributes: dict[str, Any] = {
        "hidden_size": 1,
        "activations": ["Sigmoid", "Relu"],
        "linear_before_reset": reset_after,
    }
    y = run_op("GRU", x, w, r, None, None, state, **attributes)
    assert y.item() == 0  # half of one, and half of the other


def test_activations_consume_their_parameters_in_order() -> None:
    check_against_onnxruntime(
        "LSTM",
        inputs_of("LSTM", 1),
        activations=["HardSigmoid", "LeakyRelu", "ScaledTanh"],
        activation_alpha=[0.3, 0.1, 0.7],
        activation_beta=[0.4, 0.0, 0.9][::2],
    )


@pytest.mark.parametrize("op_type", GATES)
def test_batch_may_come_first(op_type: str) -> None:
    inputs = inputs_of(op_type, 2)
    swapped = [x.swapaxes(0, 1) if slot in (0, 5, 6) else x for slot, x in enumerate(inputs)]
    attributes: dict[str, Any] = {"direction": "bidirectional", "hidden_size": HIDDEN}
    plain = run_op(op_type, *inputs, outputs=OUTPUTS[op_type], **attributes)
    batch_first = run_op(op_type, *swapped, outputs=OUTPUTS[op_type], layout=1, **attributes)
    np.testing.assert_allclose(batch_first[0], plain[0].transpose(2, 0, 1, 3), rtol=1e-5)
    for first, second in zip(batch_first[1:], plain[1:], strict=True):
        np.testing.assert_allclose(first, second.transpose(1, 0, 2), rtol=1e-5)


def test_unknown_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no recurrent activation 'Cube'"):
        run_op("RNN", *inputs_of("RNN", 1), activations=["Cube"])


def test_weights_that_do_not_fit_are_named() -> None:
    x, w, r = normal(2, 1, 3), normal(1, 6, 4), normal(1, 6, 6)
    with pytest.raises(
        ValueError, match=r"X \(2, 1, 3\), W \(1, 6, 4\), R \(1, 6, 6\), B None do not fit 1 gates"
    ):
        run_op("RNN", x, w, r)


def test_lengths_beyond_the_input_are_refused() -> None:
    inputs = inputs_of("RNN", 1)
    inputs[4] = np.array([6, 1, 1], np.int32)
    with pytest.raises(ValueError, match="do not fit 3 sequences of 5 steps"):
        run_op("RNN", *inputs)
