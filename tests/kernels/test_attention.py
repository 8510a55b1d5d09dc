"""Attention: shared heads, masks, chunks of heads; com.microsoft's forms against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.runtime.kernels import attention
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

RANDOM = np.random.default_rng(17)
HEADS = 2


def normal(*shape: int) -> Tensor:
    return RANDOM.normal(size=shape).astype(np.float32)


def plain_attention(q: Tensor, k: Tensor, v: Tensor, bias: Any = 0.0) -> Tensor:
    """The formula in float64, heads repeated where they are shared."""
    per_key = q.shape[1] // k.shape[1]
    k, v = (
        k.repeat(per_key, axis=1).astype(np.float64),
        v.repeat(per_key, axis=1).astype(np.float64),
    )
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Tensor = weights / weights.sum(axis=-1, keepdims=True) @ v
    return result


@pytest.mark.parametrize("scores_nbytes", [1, 1 << 20])
@pytest.mark.parametrize("shared", [1, 2, 6])
def test_heads_may_share_keys_and_run_in_chunks(
    shared: int, scores_nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_SCORES_NBYTES", scores_nbytes)
    q, k, v = normal(2, 6, 3, 4), normal(2, shared, 5, 4), normal(2, shared, 5, 7)
    mask = normal(2, 1, 3, 5)
    np.testing.assert_allclose(
        run_op("Attention", q, k, v, mask), plain_attention(q, k, v, mask), rtol=1e-4, atol=1e-5
    )


def test_row_that_may_attend_to_nothing_is_zero() -> None:
    q, k, v = normal(1, 1, 2, 4), normal(1, 1, 3, 4), normal(1, 1, 3, 4)
    mask = np.array([[True, True, False], [False, False, False]])
    result = run_op("Attention", q, k, v, mask)
    assert not result[0, 0, 1].any()
    assert np.isfinite(result).all()


def test_no_keys_give_zeros() -> None:
    assert not run_op("Attention", normal(1, 1, 2, 4), normal(1, 1, 0, 4), normal(1, 1, 0, 4)).any()


def test_product_is_given_before_the_softcap() -> None:
    q, k, v = normal(1, 1, 2, 4), normal(1, 1, 3, 4), normal(1, 1, 3, 4)
    raw = run_op("Attention", q, k, v, outputs=4, qk_matmul_output_mode=0, softcap=0.1)[3]
    np.testing.assert_allclose(raw, q @ k.swapaxes(-1, -2) / 2, rtol=1e-4, atol=1e-6)
    capped = run_op("Attention", q, k, v, outputs=4, qk_matmul_output_mode=1, softcap=0.1)[3]
    np.testing.assert_allclose(capped, 0.1 * np.tanh(raw / 0.1), rtol=1e-4, atol=1e-6)


def test_present_does_not_share_memory_with_the_inputs() -> None:
    q, k, v = normal(1, 1, 2, 4), normal(1, 1, 3, 4), normal(1, 1, 3, 4)
    _, present_key, present_value = run_op("Attention", q, k, v, outputs=3)
    assert not np.shares_memory(present_key, k)
    assert not np.shares_memory(present_value, v)


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        (((1, 2, 3, 4), (1, 2, 5, 3), (1, 2, 5, 4)), {}, "do not fit each other"),
        (((1, 3, 2, 4), (1, 2, 5, 4), (1, 2, 5, 4)), {}, "do not fit each other"),
        (
            ((1, 3, 8), (1, 3, 8), (1, 3, 8)),
            {"q_num_heads": 3, "kv_num_heads": 3},
            "3 heads do not divide",
        ),
        (((1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 3, 4), (5, 3)), {}, "do not broadcast together"),
    ],
)
def test_factors_that_do_not_fit_are_refused(
    shapes: Any, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run_op("Attention", *(normal(*shape) for shape in shapes), **attributes)


def check_against_onnxruntime(
    op_type: str, *inputs: Any, outputs: int = 1, **attributes: Any
) -> None:
    expected = run_on_onnxruntime(op_type, *inputs, outputs=outputs, **attributes)
    result = run_op(op_type, *inputs, outputs=outputs, domain="com.microsoft", **attributes)
    for ours, theirs in zip(result, expected, strict=True) if outputs > 1 else [(result, expected)]:
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


QUERY, KEY, VALUE = normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 8)
MULTI_HEAD: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "plain": ([QUERY, KEY, VALUE], {}),
    "bias": ([QUERY, KEY, VALUE, normal(24)], {}),
    "key mask": ([QUERY, KEY, VALUE, None, np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)], {}),
    "key lengths": ([QUERY, KEY, VALUE, None, np.array([3, 5], np.int32)], {}),
    "key lengths and offsets": (
        [QUERY, KEY, VALUE, None, np.array([3, 5, 0, 3, 6, 0, 3, 8], np.int32)],
        {},
    ),
    "attention bias": ([QUERY, KEY, VALUE, None, None, normal(1, 2, 3, 5)], {"scale": 0.3}),
    "past": (
        [
            QUERY,
            normal(2, 3, 8),
            normal(2, 3, 8),
            None,
            None,
            None,
            normal(2, 2, 4, 4),
            normal(2, 2, 4, 4),
        ],
        {"outputs": 3, "unidirectional": 1},
    ),
    "keys from elsewhere": ([QUERY, normal(2, 2, 5, 4), normal(2, 2, 5, 4)], {}),
}
FUSED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "plain": ([QUERY, normal(8, 24), normal(24)], {}),
    "mask": ([QUERY, normal(8, 24), normal(24), np.array([[1, 1, 0], [1, 1, 1]], np.int32)], {}),
    "ends": ([QUERY, normal(8, 24), normal(24), np.array([2, 3], np.int32)], {}),
    "ends and starts": ([QUERY, normal(8, 24), normal(24), np.array([2, 3, 0, 1], np.int32)], {}),
    "past": (
        [QUERY, normal(8, 24), normal(24), None, normal(2, 2, 2, 4, 4)],
        {"outputs": 2, "unidirectional": 1},
    ),
    "narrow values": ([QUERY, normal(8, 20), normal(20)], {"qkv_hidden_sizes": [8, 8, 4]}),
}


@pytest.mark.parametrize("name", MULTI_HEAD)
def test_multi_head_attention_agrees_with_onnxruntime(name: str) -> None:
    inputs, attributes = MULTI_HEAD[name]
    check_against_onnxruntime("MultiHeadAttention", *inputs, num_heads=HEADS, **attributes)


@pytest.mark.parametrize("name", FUSED)
def test_fused_attention_agrees_with_onnxruntime(name: str) -> None:
    inputs, attributes = FUSED[name]
    check_against_onnxruntime("Attention", *inputs, num_heads=HEADS, **attributes)


def test_packed_factors_are_those_apart() -> None:
    q, k, v = (normal(2, 5, HEADS, 4) for _ in range(3))
    apart = run_op(
        "MultiHeadAttention",
        *(x.reshape(2, 5, 8) for x in (q, k, v)),
        domain="com.microsoft",
        num_heads=HEADS,
    )
    packed = np.stack([q, k, v], axis=3)
    all_packed = run_op("MultiHeadAttention", packed, domain="com.microsoft", num_heads=HEADS)
    np.testing.assert_allclose(all_packed, apart, rtol=1e-5, atol=1e-6)
    keys_packed = run_op(
        "MultiHeadAttention",
        q.reshape(2, 5, 8),
        packed[:, :, :, 1:],
        domain="com.microsoft",
        num_heads=HEADS,
    )
    np.testing.assert_allclose(keys_packed, apart, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "positions", "cache", "attributes"),
    [
        ((2, 3, 8), [[0, 1, 2], [3, 4, 5]], (10, 4), {}),
        ((2, 2, 3, 8), [[0, 1, 2], [3, 4, 5]], (10, 4), {"interleaved": 1}),
        ((2, 3, 8), [2], (10, 2), {}),
        ((2, 3, 16), [2], (10, 2), {"num_heads": 2, "rotary_embedding_dim": 4}),
    ],
)
def test_rotary_embedding_agrees_with_onnxruntime(
    shape: Any, positions: Any, cache: Any, attributes: Any
) -> None:
    check_against_onnxruntime(
        "RotaryEmbedding",
        normal(*shape),
        np.array(positions),
        normal(*cache),
        normal(*cache),
        **attributes,
    )


def test_position_beyond_the_cache_is_refused() -> None:
    with pytest.raises(ValueError, match="index 9 is out of range for an axis of size 5"):
        run_op("RotaryEmbedding", normal(1, 1, 1, 4), normal(5, 2), normal(5, 2), np.array([[9]]))


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4)], ids=["no sequence", "no length"])
def test_nothing_is_attended_to_and_turned_as_in_onnxruntime(shape: tuple[int, int, int]) -> None:
    x, cache = normal(*shape), normal(5, 2)
    cases: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "Attention": ((x, normal(4, 12), normal(12)), {"num_heads": HEADS}),
        "RotaryEmbedding": ((x, np.zeros(shape[:2], np.int64), cache, cache), {}),
    }
    for op_type, (inputs, attributes) in cases.items():
        expected = run_on_onnxruntime(op_type, *inputs, **attributes)
        found = run_op(op_type, *inputs, domain="com.microsoft", **attributes)
        assert found.shape == expected.shape == shape


def test_heads_of_no_size_are_refused() -> None:
    query = np.empty((1, HEADS, 3, 0), np.float32)
    with pytest.raises(ValueError, match=r"query \(1, 2, 3, 0\), key .* do not fit each other"):
        run_op("Attention", query, query, normal(1, HEADS, 3, 4))
