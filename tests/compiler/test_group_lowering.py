"""Normalizations of groups, and elementwise operators of their own kinds, against the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.compiler.compared_with_engine import assert_as_engine

Array = npt.NDArray[Any]
_FAR = np.array([-np.inf, -90, -1.5, -0.4, -0.0, 0, 0.3, 2, 95, np.inf], np.float32)


@pytest.mark.parametrize("spatial", [(4, 3), (1, 1), (5,)])
def test_channels_of_open_batches_are_standardized(spatial: tuple[int, ...]) -> None:
    dimensions = ", ".join(f"d{axis}" for axis in range(len(spatial)))
    text = f"""g (float[b, 6, {dimensions}] x, float[6] s, float[6] o)
        => (float[b, 6, {dimensions}] y, float[b, 6, {dimensions}] z)
        {{ y = InstanceNormalization(x, s, o)  z = GroupNormalization<num_groups = 3>(x, s, o) }}"""
    random = np.random.default_rng(0)
    x, s, o = (random.standard_normal(each).astype(np.float32) for each in ((2, 6, *spatial), 6, 6))
    assert_as_engine(text, {"x": x, "s": s, "o": o}, rtol=2e-4)


@pytest.mark.parametrize(
    "operator", ["Selu", "Celu<alpha = 0.7>", "Mish", "Shrink<bias = 0.2, lambd = 1.0>", "Sign"]
)
def test_activations_of_far_numbers_are_those_of_the_engine(operator: str) -> None:
    assert_as_engine(
        f"g (float[n] x) => (float[n] y) {{ y = {operator}(x) }}", {"x": _FAR}, rtol=1e-5
    )


@pytest.mark.parametrize("attributes", ["", "<detect_negative = 0>", "<detect_positive = 0>",
                                        "<detect_positive = 0, detect_negative = 0>"])  # fmt: skip
def test_infinities_of_the_signs_that_are_asked_for_are_found(attributes: str) -> None:
    assert_as_engine(f"g (float[n] x) => (bool[n] y) {{ y = IsInf{attributes}(x) }}", {"x": _FAR})


@pytest.mark.parametrize("kind", ["int8", "int64", "uint16"])
def test_signs_of_integers_are_integers(kind: str) -> None:
    x = np.array([0, 1, 100, -1 if kind.startswith("i") else 7], kind)
    assert_as_engine(f"g ({kind}[n] x) => ({kind}[n] y) {{ y = Sign(x) }}", {"x": x})


def test_the_logarithm_of_a_sum_of_exponentials_passes_no_bound() -> None:
    text = """g (float[n, 3] x) => (float[n] y, float[1, 3] z)
        <int64[1] last = {-1}, int64[1] first = {0}> {
            y = ReduceLogSumExp<keepdims = 0>(x, last)  z = ReduceLogSumExp(x, first) }"""
    x = np.array([[200, 199, -5], [-300, -301, -302], [0, 1, np.inf], [1, 1, 1]], np.float32)
    assert_as_engine(text, {"x": x}, rtol=1e-6)
