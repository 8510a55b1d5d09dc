"""Normalizations are compiled over the last axis alone, whatever sizes the others have."""

from __future__ import annotations

import onnx.parser
import pytest

from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.engine.transformers.transformation import HEADER


@pytest.mark.parametrize("shape", ["3, 2", "3, 1"])
def test_a_normalization_over_two_axes_is_left(shape: str) -> None:
    text = f"""g (float[5, {shape}] x, float[{shape}] s) => (float[5, {shape}] y) {{
        y = LayerNormalization<axis=-2>(x, s) }}"""
    model = load_model(onnx.parser.parse_model(HEADER + text).SerializeToString())

    with pytest.raises(NotLoweredError, match="it normalizes over several axes"):
        lower_graph(model.graph, infer_sizes(model), "program")
