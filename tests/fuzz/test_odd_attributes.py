"""Odd attributes end alike for every provider: in a result, or in one typed error of ours."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from ortpkg import InferenceSession
from ortpkg.foundations.errors import InvalidGraphError, OrtpkgError
from tests.fuzz.odd_attributes import model_of_odd_attributes, odd_operators
from tests.fuzz.operators import Feeds
from tests.graph.model_factories import parse

_PROVIDERS = (["cpu"], ["llvm", "cpu"], ["openvino", "llvm", "cpu"])
_SEEDS = (*range(24), 244, 335, 405, 438, 463, 515, 840)


def _outcome(model: bytes, feeds: Feeds, providers: list[str]) -> str:
    """Return the class of the typed error, or "a result"; other errors go through."""
    try:
        with InferenceSession(model, providers=providers) as session:
            session.run(None, feeds)
    except OrtpkgError as error:
        return type(error).__name__
    return "a result"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", _SEEDS)
def test_odd_attributes_end_alike_for_every_provider(seed: int) -> None:
    pytest.importorskip("llvmlite")
    pytest.importorskip("openvino")
    model, feeds = model_of_odd_attributes(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = {_outcome(model, feeds, providers) for providers in _PROVIDERS}
    assert len(outcomes) == 1, outcomes


def test_seeds_reach_every_operator_with_attributes() -> None:
    assert len(odd_operators()) > 100
    assert model_of_odd_attributes(7)[0] == model_of_odd_attributes(7)[0]


_IMAGE = "float[1,4,6,6] x"


@pytest.mark.parametrize("provider", ["CPU", "LLVM", "OpenVINO"])
@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("Transpose <perm = [1, 0]> (x)", "'perm' of (1, 0); each of 4 axes was expected once"),
        ("Resize <axes = [2, 2]> (x, , s)", "names an axis twice, in (2, 2)"),
        (
            "GatherND <batch_dims = 2147483648> (x, n)",
            "'batch_dims' of 2147483648; no tensor has over 64 axes",
        ),
        ("AveragePool <kernel_shape = [2, 2], strides = [1, 4294967296]> (x)", "numbers up to"),
        ("Slice (x, n, n, n)", "names an axis twice, in (1, 1)"),
        ("ArgMax <select_last_index = 5> (x)", "'select_last_index' of 5; one of 0, 1"),
        (
            "Attention <softmax_precision = 3> (x, x, x)",
            "'softmax_precision' of 3; one of 1, 10, 11, 16",
        ),
        (
            'SoftmaxCrossEntropyLoss <reduction = "nonex"> (x, n)',
            "'reduction' of 'nonex'; one of none, mean, sum",
        ),
        ('NegativeLogLikelihoodLoss <reduction = ""> (x, n)', "'reduction' of ''; one of none"),
    ],
)
def test_every_provider_refuses_what_only_some_noticed(
    node: str, message: str, provider: str
) -> None:
    pytest.importorskip({"LLVM": "llvmlite", "OpenVINO": "openvino"}.get(provider, "numpy"))
    kind = "int64" if node.startswith("ArgMax") else "float"
    model = parse(
        f"g ({_IMAGE}) => ({kind}[A,B,C,D] y) <float[2] s = {{2, 2}}, int64[2] n = {{1, 1}}>"
        f" {{ y = {node} }}"
    )
    with pytest.raises(InvalidGraphError) as caught:
        InferenceSession(model, providers=[f"{provider}ExecutionProvider"])
    assert message in str(caught.value)


_X = np.array([-2.0, -0.5, 0.0, 9.0], np.float32)


@pytest.mark.parametrize("provider", ["cpu", "llvm", "openvino"])
@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Elu <alpha = inf> (x)", [-np.inf, -np.inf, 0, 9]),
        ("Elu <alpha = -inf> (x)", [np.inf, np.inf, 0, 9]),
        ("Elu <alpha = 0.0> (x)", [0, 0, 0, 9]),
        ("Selu <alpha = inf, gamma = 2.0> (x)", [-np.inf, -np.inf, 0, 18]),
        ("Selu <alpha = 0.0, gamma = 2.0> (x)", [0, 0, 0, 18]),
        ("Selu <gamma = 0.0> (x)", [0, 0, 0, 0]),
        # a sum of two parts, one of which is infinity times 0 (or 0 times infinity)
        ("Celu <alpha = inf> (x)", [np.nan] * 4),
        ("Celu <alpha = 0.0> (x)", [0, 0, np.nan, np.nan]),
        ("Celu <alpha = -1.0> (x)", [1 - math.exp(2), 1 - math.exp(0.5), 0, 9]),
        ("HardSigmoid <alpha = 0.0> (x)", [0.5] * 4),
        ("HardSigmoid <alpha = 1.0, beta = 0.0> (x)", [0, 0, 0, 1]),
    ],
)
def test_activations_of_odd_numbers_are_alike(
    node: str, expected: list[float], provider: str
) -> None:
    pytest.importorskip({"llvm": "llvmlite", "openvino": "openvino"}.get(provider, "numpy"))
    model = parse(f"g (float[4] x) => (float[4] y) {{ y = {node} }}")
    providers = list(dict.fromkeys([provider, "cpu"]))
    with InferenceSession(model, providers=providers) as session:
        (computed,) = session.run(None, {"x": _X})
    np.testing.assert_allclose(computed, np.array(expected, np.float32), rtol=2e-6)


def test_dropout_takes_any_seed() -> None:
    model = parse(
        "g (float[4] x) => (float[4] y) <float r = {0.5}, bool t = {1}>"
        " { y = Dropout <seed = -1> (x, r, t) }"
    )
    with InferenceSession(model, providers=["cpu"]) as session:
        (computed,) = session.run(None, {"x": _X})
    assert all(number in (0, 2 * x) for number, x in zip(computed, _X, strict=True))
