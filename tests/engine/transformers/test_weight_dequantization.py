"""8-bit weights become floats once, where the numpy engine multiplies them and nothing forbids it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.runtime.engine.transformers import TransformContext, TransformLevel, apply_transformers
from ortpkg.runtime.engine.transformers.dequantize_gather_fusion import DEQUANTIZE_GATHER_FUSION
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver
from ortpkg.runtime.engine.transformers.weight_dequantization import WEIGHT_DEQUANTIZATION
from tests.engine.transformers.transformation import apply, assert_unchanged, evaluate, parse

TEXT = """g (float[2, 1024] x) => (float[2, 1024] y)
{ f = DequantizeLinear(w, s, z) y = MatMul(x, f) }"""
WEIGHT = np.arange(1 << 20, dtype=np.uint8).reshape(1024, 1024)
WEIGHTS: dict[str, Any] = {"w": WEIGHT, "s": np.float32(0.5), "z": np.uint8(9)}
CONTEXT = TransformContext(evaluate=evaluate)


def test_weights_become_floats_of_four_times_their_size() -> None:
    graph = apply(WEIGHT_DEQUANTIZATION, TEXT, WEIGHTS)
    assert [node.op_type for node in graph.nodes] == ["MatMul"]
    np.testing.assert_array_equal(
        graph.initializers["f"].numpy(), (WEIGHT.astype(np.float32) - 9) * np.float32(0.5)
    )


def _graph(weight: Any, zero_point: Any) -> Graph:
    model = load_model(parse(TEXT, {**WEIGHTS, "w": weight, "z": zero_point}))
    infer_types(model)
    return model.graph


@pytest.mark.parametrize(
    "context",
    [replace(CONTEXT, only_portable=True), replace(CONTEXT, largest_constant_nbytes=1 << 21)],
    ids=["the model is going to be written", "more than a constant may have"],
)
def test_weights_stay_as_they_are(context: TransformContext) -> None:
    assert not WEIGHT_DEQUANTIZATION.apply(_graph(WEIGHT, np.uint8(9)), context)


def test_weights_of_four_bits_stay_as_they_are() -> None:
    graph = _graph((WEIGHT % 16).astype(ml_dtypes.uint4), np.asarray(9).astype(ml_dtypes.uint4))
    assert not WEIGHT_DEQUANTIZATION.apply(graph, CONTEXT)


def test_weights_of_another_provider_stay_as_they_are() -> None:
    graph = _graph(WEIGHT, np.uint8(9))
    for node in graph.nodes:
        node.execution_provider = "theirs"
    mine = replace(CONTEXT, execution_providers=frozenset({"mine"}))
    assert not WEIGHT_DEQUANTIZATION.apply(graph, mine)


def test_a_table_with_a_scale_for_each_row_is_not_looked_up_as_codes() -> None:
    text = """g (float[2] x) => (float[2, 2] y) <float[2] s = {1, 2}, int8[2, 2] t = {1, 2, 3, 4},
    int64[2] ids = {1, 0}> { f = DequantizeLinear <axis = 0> (t, s) y = Gather(f, ids) }"""
    assert_unchanged(RuleDriver("test", [DEQUANTIZE_GATHER_FUSION]), text)


@pytest.mark.parametrize(
    "text",
    [
        """g (int8[2, 2] t, float s) => (float[2, 2] y) <int64[2] ids = {1, 0}>
           { f = DequantizeLinear(t, s) y = Gather(f, ids) }""",
        """g (int64[3] ids) => (float[3] y) <int8[2] t = {1, 2}, float[1] s = {0.5}>
           { f = DequantizeLinear <axis = 0, block_size = 2> (t, s) y = Gather(f, ids) }""",
        """g (float[2] x) => (float[2, 2] y)
           <int32[2, 2] t = {1, 2, 3, 4}, float s = {0.5}, int64[2] ids = {1, 0}>
           { f = DequantizeLinear(t, s) y = Gather(f, ids) }""",
    ],
    ids=["a table that callers give", "a table with a scale for each block", "32 bits"],
)
def test_what_is_no_table_of_bytes_with_one_scale_is_not_looked_up_as_codes(text: str) -> None:
    model = load_model(parse(text))
    infer_types(model)
    assert not RuleDriver("test", [DEQUANTIZE_GATHER_FUSION]).apply(model.graph, CONTEXT)


def test_a_table_that_another_provider_dequantizes_is_not_looked_up_as_codes() -> None:
    text = """g (int64[2] ids) => (float[2, 2] y) <int8[2, 2] t = {1, 2, 3, 4}, float s = {0.5}>
    { f = DequantizeLinear(t, s) y = Gather(f, ids) }"""
    model = load_model(parse(text))
    infer_types(model)
    rule = RuleDriver("test", [DEQUANTIZE_GATHER_FUSION])
    for node in model.graph.nodes:
        node.execution_provider = node.op_type
    assert not rule.apply(model.graph, CONTEXT)
    for node in model.graph.nodes:
        node.execution_provider = "one"
    assert rule.apply(model.graph, CONTEXT)


def test_a_quantized_table_never_becomes_floats_as_a_whole() -> None:
    text = """g (int64[2] ids) => (float[2, 1024] y)
    { f = DequantizeLinear(w, s, z) y = Gather(f, ids) }"""
    model = load_model(parse(text, WEIGHTS))
    infer_types(model)

    def fail(*_arguments: object) -> None:
        raise AssertionError("the whole table is dequantized")

    apply_transformers(model, TransformLevel.EXTENDED, TransformContext(evaluate=fail))
    assert sorted(node.op_type for node in model.graph.nodes) == ["DequantizeLinear", "Gather"]
    assert sum(constant.nbytes for constant in model.graph.initializers.values()) < 2 << 20
