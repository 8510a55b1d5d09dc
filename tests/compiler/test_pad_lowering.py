"""Pad by what is at the edges, for open sizes: what it gives is what the engine's kernel gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.compared_with_engine import assert_as_engine


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_elements_around_repeat_those_inside(mode: str, size: int) -> None:
    text = f"""g (float[n, 3] x) => (float[m, k] y) <int64[4] pads = {{3, 2, 2, 1}}> {{
        y = Pad<mode = "{mode}">(x, pads) }}"""
    x = np.random.default_rng(0).standard_normal((size, 3)).astype(np.float32)
    assert_as_engine(text, {"x": x})


@pytest.mark.parametrize("shape", ["", "1"])
def test_a_number_around_may_be_a_tensor_of_one_element(shape: str) -> None:
    kind = f"float[{shape}]" if shape else "float"
    text = f"""g (float[n, 3] x, {kind} v) => (float[m, k] y) <int64[4] pads = {{0, 2, 1, 0}}> {{
        y = Pad(x, pads, v) }}"""
    value = np.full([1] if shape else [], 2.5, np.float32)
    assert_as_engine(text, {"x": np.ones((2, 3), np.float32), "v": value})
