"""MoE and QMoE against onnxruntime's CPU provider, or numpy where that has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

TOKENS, EXPERTS, HIDDEN, INNER = 9, 5, 32, 48
RNG = np.random.default_rng(3)
SWIGLU = {
    "activation_type": "swiglu",
    "activation_alpha": 1.702,
    "activation_beta": 1.0,
    "swiglu_limit": 1.5,
}


def normal(*shape: int, dtype: Any = np.float32) -> Tensor:
    return (RNG.standard_normal(shape) / 2).astype(dtype)


def inputs_of(
    *, fusion: int = 1, bias: bool = True, third: bool = False, shape: tuple[int, ...] = (TOKENS,)
) -> list[Any]:
    """MoE's inputs; ``fusion`` is 2 where the first layer makes gates and what passes them."""
    biases = [normal(EXPERTS, size) if bias else None for size in (fusion * INNER, HIDDEN, INNER)]
    inputs = [
        normal(*shape, HIDDEN), 4 * normal(int(np.prod(shape)), EXPERTS),
        normal(EXPERTS, fusion * INNER, HIDDEN), biases[0],
        normal(EXPERTS, HIDDEN, INNER), biases[1],
    ]  # fmt: skip
    return [*inputs, normal(EXPERTS, INNER, HIDDEN), biases[2]] if third else inputs


def ours(inputs: list[Any], op_type: str = "MoE", **attributes: Any) -> Any:
    return run_op(op_type, *inputs, domain="com.microsoft", **attributes)


def plain_activation(
    name: str, gate: Tensor, passing: Tensor | None, attributes: dict[str, Any]
) -> Tensor:
    def sigmoid(x: Tensor) -> Tensor:
        found: Tensor = 1 / (1 + np.exp(-x))
        return found

    if name != "swiglu":
        made: Tensor = {
            "relu": np.maximum(gate, 0),
            "silu": gate * sigmoid(gate),
            "identity": gate,
        }[name]
        return made if passing is None else np.multiply(made, passing)
    assert passing is not None
    limit = attributes.get("swiglu_limit", np.inf)
    gate, passing = np.minimum(gate, limit), np.clip(passing, -limit, limit)
    found: Tensor = (
        gate
        * sigmoid(attributes["activation_alpha"] * gate)
        * (passing + attributes["activation_beta"])
    )
    return found


def plain_moe(inputs: list[Any], **attributes: Any) -> Tensor:
    """The operator by its definition, token after token and expert after expert, in float64."""
    given: list[Any] = [None if value is None else value.astype(np.float64) for value in inputs]
    x, scores, first, bias1, second, bias2, third, bias3 = given + [None] * (8 - len(given))
    out = np.zeros((scores.shape[0], x.shape[-1]))
    for token, row in enumerate(x.reshape(-1, x.shape[-1])):
        shares = np.exp(scores[token]) / np.exp(scores[token]).sum()
        chosen = np.argsort(-shares)[: attributes["k"]]
        total = shares[chosen].sum() if attributes.get("normalize_routing_weights") else 1
        for expert in chosen:
            gate, passing = first[expert] @ row + (0 if bias1 is None else bias1[expert]), None
            if third is not None:
                passing = third[expert] @ row + (0 if bias3 is None else bias3[expert])
            elif attributes.get("swiglu_fusion") == 2:
                gate, passing = gate[:INNER], gate[INNER:]
            between = plain_activation(attributes["activation_type"], gate, passing, attributes)
            made = second[expert] @ between + (0 if bias2 is None else bias2[expert])
            out[token] += shares[expert] / total * made
    return out.reshape(x.shape)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
@pytest.mark.parametrize(("k", "normalized"), [(1, 0), (2, 0), (3, 1), (EXPERTS, 0)])
def test_moe_agrees_with_onnxruntime(activation: str, k: int, normalized: int) -> None:
    attributes: dict[str, Any] = {
        "activation_type": activation,
        "k": k,
        "normalize_routing_weights": normalized,
    }
    inputs = inputs_of(bias=k != 2)
    expected = run_on_onnxruntime("MoE", *inputs, **attributes)
    np.testing.assert_allclose(ours(inputs, **attributes), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attributes", [SWIGLU, {"activation_type": "swiglu"}])
def test_interleaved_swiglu_agrees_with_onnxruntime(attributes: dict[str, Any]) -> None:
    inputs = inputs_of(fusion=2, shape=(2, 4))
    attributes = attributes | {"k": 2, "swiglu_fusion": 1, "normalize_routing_weights": 1}
    expected = run_on_onnxruntime("MoE", *inputs, **attributes)
    np.testing.assert_allclose(ours(inputs, **attributes), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "layers"),
    [
        (SWIGLU | {"swiglu_fusion": 2}, {"fusion": 2}),
        (SWIGLU | {"swiglu_fusion": 0}, {"third": True}),
        ({"activation_type": "silu"}, {"third": True}),
        ({"activation_type": "relu"}, {"third": True, "bias": False}),
    ],
)
def test_what_onnxruntimes_cpu_lacks_is_what_the_definition_says(
    attributes: dict[str, Any], layers: dict[str, Any]
) -> None:
    inputs = inputs_of(**layers)
    attributes = attributes | {"k": 2}
    np.testing.assert_allclose(
        ours(inputs, **attributes), plain_moe(inputs, **attributes), rtol=1e-4, atol=1e-5
    )


def test_narrow_floats_compute_as_float32_does() -> None:
    inputs = [None if x is None else x.astype(np.float16) for x in inputs_of()]
    found = ours(inputs, k=2, activation_type="silu")
    expected = plain_moe(inputs, k=2, activation_type="silu")
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-2, atol=1e-2)


def test_no_tokens_give_no_rows() -> None:
    assert ours(inputs_of(shape=(0,)), k=2).shape == (0, HIDDEN)


# --- quantized weights ----------------------------------------------------------------------------


def packed(codes: Tensor, bits: int) -> Tensor:
    """Codes along the last axis in bytes, low bits first, the last byte filled up."""
    per_byte = 8 // bits
    missing = -codes.shape[-1] % per_byte
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, missing)]).reshape(
        *codes.shape[:-1], -1, per_byte
    )
    found: Tensor = np.bitwise_or.reduce(
        codes.astype(np.uint8) << np.arange(0, 8, bits, dtype=np.uint8), axis=-1
    )
    return found


def quantized(
    outputs: int, inputs: int, bits: int, block_size: int, *, zeros: bool
) -> tuple[list[Any], Tensor]:
    """(weights, scales, zero points) of a layer, and the weights that they mean."""
    blocks = inputs // block_size if block_size else 1
    codes = RNG.integers(0, 1 << bits, (EXPERTS, outputs, inputs))
    scales = RNG.uniform(0.01, 0.05, (EXPERTS, outputs, blocks)).astype(np.float32)
    points = (
        RNG.integers(0, 1 << bits, scales.shape)
        if zeros
        else np.full(scales.shape, 1 << (bits - 1))
    )
    meant = (codes - np.repeat(points, inputs // blocks, axis=2)) * np.repeat(
        scales, inputs // blocks, axis=2
    )
    if not block_size:
        scales, points = scales[:, :, 0], points[:, :, 0]
    return [packed(codes, bits), scales, packed(points, bits) if zeros else None], meant.astype(
        np.float32
    )


def quantized_inputs(
    bits: int,
    block_size: int,
    *,
    zeros: bool,
    fusion: int = 1,
    third: bool = False,
    weights: bool = False,
) -> tuple[list[Any], list[Any]]:
    """QMoE's inputs, and those of the MoE that it is."""
    plain = inputs_of(fusion=fusion, third=third)
    sizes = [(fusion * INNER, HIDDEN), (HIDDEN, INNER), (INNER, HIDDEN)]
    layers = [quantized(*size, bits, block_size, zeros=zeros) for size in sizes]
    inputs: list[Any] = plain[:2]
    for number in range(3):
        if number < 2 or third:
            plain[2 + 2 * number] = layers[number][1]
            inputs += [*layers[number][0][:2], plain[3 + 2 * number]]
        else:
            inputs += [None] * 3
    inputs += [layer[0][2] if number < 2 or third else None for number, layer in enumerate(layers)]
    if weights:
        inputs.append(np.abs(normal(TOKENS, EXPERTS)))
    while inputs[-1] is None:
        inputs.pop()
    return inputs, plain


CONSTANTS = {"constant": tuple(range(2, 14)), "fed": ()}


@pytest.mark.parametrize("slots", CONSTANTS.values(), ids=CONSTANTS)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("bits", "block_size"), [(4, 0), (8, 0), (4, 16), (2, 0)])
def test_qmoe_agrees_with_onnxruntime(
    bits: int, block_size: int, zeros: bool, slots: tuple[int, ...]
) -> None:
    inputs, _ = quantized_inputs(bits, block_size, zeros=zeros, fusion=2)
    attributes: dict[str, Any] = SWIGLU | {"swiglu_fusion": 1, "k": 2, "expert_weight_bits": bits}
    attributes |= {"block_size": block_size} if block_size else {}
    found = ours(
        inputs, "QMoE", constant_slots=[slot for slot in slots if slot < len(inputs)], **attributes
    )
    np.testing.assert_allclose(
        found, run_on_onnxruntime("QMoE", *inputs, **attributes), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("normalized", [0, 1])
def test_router_weights_say_how_much_the_chosen_experts_count(normalized: int) -> None:
    inputs, _ = quantized_inputs(4, 0, zeros=False, weights=True)
    attributes: dict[str, Any] = {
        "k": 3,
        "activation_type": "silu",
        "normalize_routing_weights": normalized,
    }
    expected = run_on_onnxruntime("QMoE", *inputs, **attributes)
    np.testing.assert_allclose(ours(inputs, "QMoE", **attributes), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("bits", "block_size"), [(4, 16), (8, 16), (2, 16), (8, 0)])
@pytest.mark.parametrize("zeros", [False, True])
def test_qmoe_is_moe_with_the_weights_that_it_means(
    bits: int, block_size: int, zeros: bool
) -> None:
    """A third layer, which onnxruntime's CPU provider lacks.

    All experts, whose weights then sum to 1 in both.
    """
    inputs, plain = quantized_inputs(bits, block_size, zeros=zeros, third=True)
    attributes: dict[str, Any] = {"k": EXPERTS, "activation_type": "silu"}
    found = ours(inputs, "QMoE", expert_weight_bits=bits, block_size=block_size, **attributes)
    np.testing.assert_allclose(found, plain_moe(plain, **attributes), rtol=1e-3, atol=1e-4)


GOOD = inputs_of()


def replaced(slot: int, value: Any, inputs: list[Any] | None = None) -> list[Any]:
    found = [*(GOOD if inputs is None else inputs)]
    found += [None] * (slot + 1 - len(found))
    found[slot] = value
    return found


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (GOOD, {"k": 0}, "k is 1 or more, not 0"),
        (GOOD, {"k": 6}, "k=6 experts of 5"),
        (GOOD, {"activation_type": "tanh"}, "activation_type is one of relu, .* not 'tanh'"),
        (GOOD, {"swiglu_fusion": 3}, "swiglu_fusion is 0, 1 or 2, not 3"),
        (GOOD, {"use_sparse_mixer": 1}, "sparse mixer"),
        (GOOD, {"activation_type": "swiglu"}, "swiglu takes fc3_experts_weights"),
        (replaced(0, normal(HIDDEN)), {}, "input has the shape"),
        (replaced(1, normal(TOKENS, 4)), {}, r"router_probs has the shape \(9, 5\)"),
        (replaced(2, normal(EXPERTS, HIDDEN)), {}, "fc1_experts_weights have the shape"),
        (replaced(2, normal(EXPERTS, 7, HIDDEN)), {}, r"fc1_experts_weights are for \(5, 48, 32\)"),
        (replaced(3, normal(EXPERTS, 7)), {}, r"fc1_experts_bias has the shape \(5, 48\)"),
        (replaced(7, normal(EXPERTS, 7)), {}, "fc3_experts_bias needs fc3_experts_weights"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ours(inputs, **attributes)


QUANTIZED = quantized_inputs(4, 0, zeros=False)[0]


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (QUANTIZED, {"expert_weight_bits": 3}, "2, 4 or 8 bits, not 3"),
        (QUANTIZED, {"quant_type": "fp8"}, "quant_type='fp8'"),
        (QUANTIZED, {"weights_prepacked": 1}, "weights_prepacked=1"),
        (QUANTIZED, {"block_size": 24}, "block_size is a power of two of 16 or more, not 24"),
        (QUANTIZED, {"block_size": 64}, "32 inputs are no multiple of block_size=64"),
        (QUANTIZED, {"block_size": 16}, r"fc1_scales have the shape \(5, 48, 2\), not \(5, 48\)"),
        (replaced(3, None, QUANTIZED), {}, r"fc1_scales have the shape \(5, 48\), not None"),
        (
            replaced(11, np.zeros((5, 3), np.uint8), QUANTIZED),
            {},
            r"fc1_zero_points have the shape \(5, 24\)",
        ),
        (replaced(14, normal(TOKENS, 4), QUANTIZED), {}, r"router_weights has the shape \(9, 5\)"),
        (replaced(15, normal(EXPERTS), QUANTIZED), {}, "global scales"),
    ],
)
def test_quantized_inputs_that_do_not_fit_are_refused(
    inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ours(inputs, "QMoE", **attributes)


def test_more_memory_than_the_limit_is_refused_before_it_is_taken() -> None:
    with pytest.raises(LimitExceededError):
        ours(inputs_of(), limit_nbytes=1 << 12)
