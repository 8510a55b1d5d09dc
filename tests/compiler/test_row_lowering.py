"""Normalizations of rows: what lowering makes of them gives what the engine's kernels give."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.compared_with_engine import assert_as_engine

_SMALL = (np.arange(12, dtype=np.float32).reshape(3, 4) ** 2 - 20) * 1e-4
_SCALE = np.array([1, 2, -1, 0.5], np.float32)


@pytest.mark.parametrize(
    ("operator", "epsilon"),
    [
        ("com.microsoft.SkipLayerNormalization", ""),
        ("com.microsoft.SkipSimplifiedLayerNormalization", ""),
        ("com.microsoft.SkipLayerNormalization", "<epsilon = 0.001>"),
    ],
)
def test_a_small_row_shows_which_epsilon_is_added(operator: str, epsilon: str) -> None:
    text = f"""g (float[3, 4] x, float[3, 4] skip, float[4] scale) => (float[3, 4] y)
        {{ y = {operator} {epsilon} (x, skip, scale) }}"""
    feeds = {"x": _SMALL, "skip": _SMALL[::-1].copy(), "scale": _SCALE}
    assert_as_engine(text, feeds, rtol=1e-5)


def test_a_layer_normalization_adds_that_of_onnx() -> None:
    text = """g (float[3, 4] x, float[4] scale) => (float[3, 4] y)
        { y = LayerNormalization (x, scale) }"""
    assert_as_engine(text, {"x": _SMALL, "scale": _SCALE}, rtol=1e-5)
