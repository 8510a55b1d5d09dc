"""Products are those of numpy, whatever the shape and the layout."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.runtime.kernels.attention import ScoreSteps, attend
from ortpkg.runtime.kernels.matrix_product import product_in_blocks, stacked_product
from ortpkg.runtime.kernels.op_kernel import Tensor


def random(*shape: int, dtype: type = np.float32, seed: int = 0) -> Tensor:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("rows", [0, 1, 2, 8, 33, 65, 700])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_plain_product(rows: int, is_transposed: bool, dtype: type) -> None:
    a = random(rows, 300, dtype=dtype)
    b = (
        random(531, 300, dtype=dtype, seed=1).T
        if is_transposed
        else random(300, 531, dtype=dtype, seed=1)
    )
    out: Tensor = np.full((rows, 531), np.nan, dtype)
    product_in_blocks(a, b, out)
    np.testing.assert_allclose(
        out, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((6, 128, 200), (6, 200, 128)),
        ((2, 6, 128, 200), (6, 200, 128)),
        ((1, 6, 128, 200), (5, 1, 200, 128)),
        ((6, 128, 200), (200, 128)),
        ((200,), (6, 200, 128)),
        ((6, 128, 200), (200,)),
        ((0, 128, 200), (200, 128)),
        ((6, 128, 200), (200, 0)),
    ],
)
def test_stacks_follow_numpys_rules(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = random(*left), random(*right, seed=1)
    out = np.empty(np.matmul(a, b).shape, np.float32)
    stacked_product(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)


def softmax_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scale: float
) -> Tensor:
    wide = [x.astype(np.float64) for x in (query, key, value)]
    scores = wide[0] @ wide[1].swapaxes(-1, -2) * scale + bias
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = powers.sum(axis=-1, keepdims=True)
    product: Tensor = powers / np.where(total == 0, 1, total) @ wide[2]
    return product


@pytest.mark.parametrize("magnitude", [1.0, 100.0])
@pytest.mark.parametrize(
    "masked", ["nothing", "a tail", "a row by -10000", "a row by -inf", "by 1000"]
)
def test_attention_equals_softmax_of_the_scores(magnitude: float, masked: str) -> None:
    query, key, value = (random(2, 12, 70, 32, seed=seed) for seed in range(3))
    query *= np.float32(magnitude)
    bias = np.zeros((1, 1, 70, 70), np.float32)
    if masked == "a tail":
        bias[..., 50:] = np.finfo(np.float32).min
    elif masked == "a row by -10000":
        bias[:, :, 3] = -10000
    elif masked == "a row by -inf":
        bias[:, :, 3] = -np.inf
    elif masked == "by 1000":
        bias[..., :5] = 1000
    out = np.empty_like(query)
    with np.errstate(all="ignore"):
        attend(query, key, value, bias, ScoreSteps(scale=0.2), out)
    expected = softmax_attention(query, key, value, bias, 0.2)
    # 10⁴ in float32: 10⁻³ of rounding
    has_large_scores = magnitude > 1 or masked in {
        "a row by -10000",
        "by 1000",
    }
    tolerance = 5e-3 if has_large_scores else 2e-5
    np.testing.assert_allclose(out, expected, atol=tolerance)
