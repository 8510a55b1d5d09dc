"""Random numbers: their distribution, their seeds, their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.graph.types import ElementType
from tests.kernels.node_runner import run_op

DRAWS: list[tuple[str, dict[str, Any]]] = [
    ("RandomNormal", {"shape": [2000]}),
    ("RandomUniform", {"shape": [2000]}),
    ("RandomNormalLike", {}),
    ("RandomUniformLike", {}),
    ("Bernoulli", {}),
    ("Multinomial", {"sample_size": 2000}),
]


def drawn(op_type: str, **attributes: Any) -> Any:
    if op_type == "Multinomial":
        return run_op(op_type, np.log(np.array([[0.2, 0.8]], np.float32)), **attributes)
    inputs = () if "shape" in attributes else (np.full(2000, 0.5, np.float32),)
    return run_op(op_type, *inputs, **attributes)


@pytest.mark.parametrize(("op_type", "attributes"), DRAWS)
def test_seed_gives_the_same_numbers_on_every_run(op_type: str, attributes: dict[str, Any]) -> None:
    first, second, other = (drawn(op_type, seed=seed, **attributes) for seed in (1.5, 1.5, 2.5))
    assert (first == second).all()
    assert (first != other).any()


@pytest.mark.parametrize(("op_type", "attributes"), DRAWS)
def test_without_a_seed_numbers_are_fresh(op_type: str, attributes: dict[str, Any]) -> None:
    assert (drawn(op_type, **attributes) != drawn(op_type, **attributes)).any()


def test_normal_has_its_mean_and_scale() -> None:
    x = drawn("RandomNormal", shape=[20_000], mean=3.0, scale=2.0, seed=1.0)
    assert x.mean() == pytest.approx(3, abs=0.1)
    assert x.std() == pytest.approx(2, abs=0.1)


def test_uniform_stays_between_its_bounds() -> None:
    x = drawn("RandomUniform", shape=[20_000], low=-2.0, high=6.0, seed=1.0)
    assert x.min() >= -2
    assert x.max() <= 6
    assert x.mean() == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_bernoulli_has_its_probability(probability: float) -> None:
    x = run_op("Bernoulli", np.full(20_000, probability), seed=1.0)
    assert set(x.tolist()) <= {0.0, 1.0}
    assert x.mean() == pytest.approx(probability, abs=0.02)


def test_multinomial_draws_classes_by_their_odds() -> None:
    logs = np.array([[0, np.log(3)], [0, -np.inf]], np.float32)
    x = run_op("Multinomial", logs, sample_size=20_000, seed=1.0)
    assert x.dtype == np.int32
    assert x[0].mean() == pytest.approx(0.75, abs=0.02)
    assert not x[1].any()


def test_multinomial_without_classes_is_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"5 samples need log-probabilities \(batch, classes\), not shape \(2, 0\)"
    ):
        run_op("Multinomial", np.zeros((2, 0), np.float32), sample_size=5)


@pytest.mark.parametrize("op_type", ["RandomNormal", "RandomUniform"])
def test_untrusted_shape_is_refused(op_type: str) -> None:
    with pytest.raises(LimitExceededError):
        run_op(op_type, shape=[10**6, 10**6])
    with pytest.raises(ValueError, match="negative dimension"):
        run_op(op_type, shape=[-1])


@pytest.mark.parametrize("element_type", [ElementType.FLOAT16, ElementType.DOUBLE])
def test_declared_element_type(element_type: ElementType) -> None:
    x = np.zeros(3, np.float32)
    assert run_op("RandomNormalLike", x, dtype=int(element_type)).dtype.itemsize in (2, 8)
    assert run_op("Bernoulli", x, dtype=int(ElementType.INT64)).dtype == np.int64
