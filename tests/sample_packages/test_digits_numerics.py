"""The graphs that scripts/train_digits.py writes compute what any network's arrays say."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import pytest

from scripts.digits.network import Array, BatchNormalization, ConvolutionLayer, Network
from scripts.digits.numerics import FoldedSinglePrecision, Numerics, SinglePrecision, write_model

RANDOM = np.random.default_rng(7)


def a_layer(name: str, inputs: int, outputs: int, *, is_pooled: bool) -> ConvolutionLayer:
    normalization = BatchNormalization(
        scale=RANDOM.uniform(0.5, 2, outputs),
        bias=RANDOM.normal(size=outputs),
        mean=RANDOM.normal(size=outputs),
        variance=RANDOM.uniform(0.5, 2, outputs),
        epsilon=1e-5,
    )
    weight = RANDOM.normal(size=(outputs, inputs, 3, 3))
    return ConvolutionLayer(
        name=name, weight=weight, normalization=normalization, is_pooled=is_pooled
    )


def a_network() -> Network:
    return Network(
        convolutions=(a_layer("a", 1, 2, is_pooled=True), a_layer("b", 2, 3, is_pooled=True)),
        linear_weight=RANDOM.normal(size=(10, 12)),
        linear_bias=RANDOM.normal(size=10),
    )


def logits(network: Network, numerics: Numerics, images: Array) -> Array:
    model = write_model(network, numerics, batch="n", doc_string="", metadata={})
    result: Array = onnx.reference.ReferenceEvaluator(model).run(
        None, {"image": images.astype(np.float32)}
    )[0]
    return result


def test_folding_the_normalization_changes_nothing() -> None:
    network, images = a_network(), RANDOM.uniform(0, 16, (3, 1, 8, 8))
    kept, folded = (
        logits(network, numerics, images)
        for numerics in (SinglePrecision(), FoldedSinglePrecision())
    )
    assert folded == pytest.approx(kept, rel=1e-4, abs=1e-3)


def test_the_same_network_gives_the_same_bytes() -> None:
    network = a_network()
    first, second = (
        write_model(network, SinglePrecision(), batch="n", doc_string="", metadata={"a": "b"})
        for _ in range(2)
    )
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )


def test_builder_refuses_a_graph_that_breaks_onnx_rules() -> None:
    network = a_network()
    wrong = Network(
        convolutions=network.convolutions,
        linear_weight=np.zeros((10, 5)),
        linear_bias=network.linear_bias,
    )
    with pytest.raises(onnx.shape_inference.InferenceError, match="Gemm:logits"):
        write_model(wrong, SinglePrecision(), batch="n", doc_string="", metadata={})
