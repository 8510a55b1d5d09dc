"""Constants that transformers would make, with sizes that only a hostile model declares."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.engine.transformers.conv_constants import ConvConstants
from ortpkg.engine.transformers.norm_patterns import ones
from ortpkg.engine.transformers.packed_attention_fusion import _no_bias
from ortpkg.engine.transformers.qdq_conv_fusion import integer_bias
from ortpkg.engine.transformers.quantized_values import Quantized
from ortpkg.engine.transformers.rewriting import add_constant
from ortpkg.engine.transformers.transform_context import TransformContext
from ortpkg.graph.graph import Graph
from ortpkg.graph.types import ElementType

TRILLION = 10**12


def quantized(graph: Graph, scale: np.ndarray) -> Quantized:
    return Quantized(
        value="v",
        scale=add_constant(graph, "scale", scale.astype(np.float32)),
        zero_point="",
        element_type=ElementType.INT8,
        axis=None,
    )


def test_a_row_of_ones_is_not_made_for_rows_of_a_trillion() -> None:
    graph = Graph("g")

    assert ones(graph, 4, ElementType.FLOAT) is not None
    assert ones(graph, TRILLION, ElementType.FLOAT) is None


def test_a_bias_of_zeros_is_not_made_for_a_trillion_columns() -> None:
    graph = Graph("g")
    weight = add_constant(graph, "w", np.zeros((0, TRILLION), np.float32))

    assert _no_bias(graph, weight, 8, TransformContext())
    assert not _no_bias(graph, weight, TRILLION, TransformContext())


def test_a_convolution_of_no_channel_to_a_trillion_is_left_as_it_is() -> None:
    graph = Graph("g")
    graph.set_inputs(["x"])
    weight = add_constant(graph, "w", np.zeros((TRILLION, 0, 1), np.float32))
    node = graph.add_node("Conv", ["x", weight], ["y"], name="n")

    assert ConvConstants.of(graph, node, TransformContext()) is None


@pytest.mark.parametrize(
    ("scale", "bias", "is_taken"),
    [
        ((3,), (3,), True),
        ((1,), (3,), True),
        ((30_000,), (30_000, 1), False),  # each by each
        ((3,), (2,), False),
    ],
)
def test_a_bias_is_quantized_by_one_scale_for_each_element(
    scale: tuple[int, ...], bias: tuple[int, ...], is_taken: bool
) -> None:
    graph = Graph("g")
    name = add_constant(graph, "b", np.ones(bias, np.float32))
    x, weight = quantized(graph, np.ones(1)), quantized(graph, np.ones(scale))

    assert (integer_bias(graph, name, x, weight) is not None) == is_taken


@pytest.mark.parametrize(
    ("weight", "bias", "is_taken"), [((3,), (3,), True), ((), (3,), True), ((3,), (2,), False)]
)
def test_a_quantized_bias_has_the_scales_of_input_and_weight(
    weight: tuple[int, ...], bias: tuple[int, ...], is_taken: bool
) -> None:
    graph = Graph("g")
    value = add_constant(graph, "b", np.ones(3, np.int32))
    scale = add_constant(graph, "s", np.ones(bias, np.float32))
    graph.add_node("DequantizeLinear", [value, scale], ["bias"], name="n", since_version=13)
    x, of_weight = quantized(graph, np.ones(())), quantized(graph, np.ones(weight))

    assert (integer_bias(graph, "bias", x, of_weight) == value) == is_taken
