"""GroupQueryAttention against onnxruntime: prompts, then token after token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.kernels.grouped_inputs import resident_count
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

HEADS, SHARED, SIZE = 4, 2, 16
RNG = np.random.default_rng(11)
FLOAT32 = np.float32
COSINES, SINES = (
    function(RNG.uniform(0, 6, (64, SIZE // 2))).astype(FLOAT32) for function in (np.cos, np.sin)
)
#: Names of the optional inputs, from slot 7 on.
EXTRAS = ("cosines", "sines", "position_ids", "bias", "sinks")


def normal(*shape: int, dtype: Any = FLOAT32) -> Tensor:
    return RNG.standard_normal(shape).astype(dtype)


def inputs_of(
    batch: int,
    new: int,
    ends: list[int],
    *,
    heads: int = HEADS,
    shared: int = SHARED,
    past: int | None = None,
    packed: bool = False,
    dtype: Any = FLOAT32,
    total: int | None = None,
    size: int = SIZE,
    **extras: Any,
) -> list[Tensor | None]:
    """The operator's inputs; ``ends``: per sequence how many keys it has, the new ones included."""
    factors: list[Tensor | None]
    if packed:
        factors = [normal(batch, new, (heads + 2 * shared) * size, dtype=dtype), None, None]
    else:
        factors = [
            normal(batch, new, count * size, dtype=dtype) for count in (heads, shared, shared)
        ]
    caches = [
        None if past is None else normal(batch, shared, past, size, dtype=dtype) for _ in range(2)
    ]
    lengths = [
        np.array(ends, np.int32) - np.int32(1),
        np.array([max(ends) if total is None else total], np.int32),
    ]
    optional = [extras.get(name) for name in EXTRAS]
    while optional and optional[-1] is None:
        optional.pop()
    return [*factors, *caches, *lengths, *optional]


def ours(inputs: list[Any], *, outputs: int = 3, **attributes: Any) -> Any:
    attributes = {"num_heads": HEADS, "kv_num_heads": SHARED} | attributes
    return run_op(
        "GroupQueryAttention", *inputs, domain="com.microsoft", outputs=outputs, **attributes
    )


def assert_agrees(
    inputs: list[Any],
    *,
    outputs: int = 3,
    in_place: bool = False,
    filled: Sequence[int] | None = None,
    **attributes: Any,
) -> Any:
    """Our result once it agrees with onnxruntime's; caches up to ``filled`` places."""
    attributes = {"num_heads": HEADS, "kv_num_heads": SHARED} | attributes
    found = ours(inputs, outputs=outputs, in_place=in_place, **attributes)
    expected = run_on_onnxruntime("GroupQueryAttention", *inputs, outputs=outputs, **attributes)
    # onnxruntime rounds float16 between its steps, to half a thousandth of numbers around 1
    relative, absolute = (1e-4, 1e-5) if inputs[0].dtype == FLOAT32 else (5e-3, 2e-3)
    for slot, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if filled is not None and slot:
            one, other = (
                np.concatenate([x[row, :, :end] for row, end in enumerate(filled)], axis=1)
                for x in (one, other)
            )
        np.testing.assert_allclose(
            one.astype(np.float64), other.astype(np.float64), rtol=relative, atol=absolute
        )
    return found


ROTARY: dict[str, Any] = {"cosines": COSINES, "sines": SINES}
ATTRIBUTES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "scale": ({}, {"scale": 0.7}),
    "softcap": ({}, {"softcap": 1.5}),
    "smooth softmax": ({}, {"smooth_softmax": 1}),
    "head sink": ({"sinks": normal(HEADS)}, {"softcap": 2.0}),
    "window of 1": ({}, {"local_window_size": 1}),
    "window of 3": ({}, {"local_window_size": 3, "smooth_softmax": 1}),
    "window beyond": ({}, {"local_window_size": 50}),
    "rotary": (ROTARY, {"do_rotary": 1}),
    "interleaved rotary": (ROTARY, {"do_rotary": 1, "rotary_interleaved": 1}),
    "caches without rotary": (ROTARY, {}),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_prompt_agrees_with_onnxruntime(name: str, dtype: Any, packed: bool) -> None:
    extras, attributes = ATTRIBUTES[name]
    extras = {key: value.astype(dtype) for key, value in extras.items()}
    assert_agrees(inputs_of(2, 7, [7, 7], dtype=dtype, packed=packed, **extras), **attributes)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_prompt_of_sequences_of_different_lengths_agrees_with_onnxruntime(name: str) -> None:
    extras, attributes = ATTRIBUTES[name]
    inputs = inputs_of(3, 7, [7, 2, 5], **extras)
    found = ours(inputs, **attributes)
    expected = run_on_onnxruntime(
        "GroupQueryAttention",
        *inputs,
        outputs=3,
        num_heads=HEADS,
        kv_num_heads=SHARED,
        **attributes,
    )
    for row, end in enumerate((7, 2, 5)):  # what padding gives is nobody's business
        np.testing.assert_allclose(
            found[0][row, :end], expected[0][row, :end], rtol=1e-4, atol=1e-5
        )
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[2], expected[2])


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("places", [None, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_prompt_and_tokens_after_it_agree_with_onnxruntime(
    name: str, dtype: Any, places: int | None, in_place: bool
) -> None:
    """Sequences of 5, 2 and 4 tokens; caches grow by token, or have 16 places."""
    extras, attributes = ATTRIBUTES[name]
    extras = {key: value.astype(dtype) for key, value in extras.items()}
    ends = [5, 2, 4]
    inputs = inputs_of(3, 5, ends, past=places, dtype=dtype, **extras)
    _, key, value = ours(inputs, **attributes)
    for _ in range(4):
        ends = [end + 1 for end in ends]
        inputs = inputs_of(3, 1, ends, dtype=dtype, **extras)
        inputs[3:5] = key, value
        _, key, value = assert_agrees(
            inputs, in_place=in_place, filled=ends if in_place else None, **attributes
        )
        assert key.shape == (3, SHARED, max(ends) if places is None else places, SIZE)
        for row, end in enumerate(ends):
            assert in_place or not key[row, :, end:].any()


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("places", [4, 6, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("extras", "attributes"),
    [
        ({}, {}),
        (ROTARY, {"do_rotary": 1}),
        ({"sinks": normal(HEADS)}, {"softcap": 2.0}),
        ({}, {"smooth_softmax": 1}),
    ],
)
def test_a_cache_of_the_window_keeps_the_newest_positions(
    extras: dict[str, Any], attributes: dict[str, Any], dtype: Any, places: int, in_place: bool
) -> None:
    """Sequences of 7, 2 and 5 tokens, then single ones; caches of 4 places or more."""
    extras = {key: value.astype(dtype) for key, value in extras.items()}
    attributes = attributes | {"local_window_size": 4, "sliding_window_cache": 1}
    ends = [7, 2, 5]
    inputs = inputs_of(3, 7, ends, past=places, dtype=dtype, **extras)
    _, key, value = ours(inputs, **attributes)
    for _ in range(9):
        ends = [end + 1 for end in ends]
        inputs = inputs_of(3, 1, ends, dtype=dtype, **extras)
        inputs[3:5] = key, value
        filled = [resident_count(end, places, 4) for end in ends]
        _, key, value = assert_agrees(inputs, in_place=in_place, filled=filled, **attributes)
        assert key.shape == (3, SHARED, places, SIZE)


@pytest.mark.parametrize("places", [4, 6, 9])
@pytest.mark.parametrize("new", [1, 3, 5, 12])
def test_a_window_moves_on_by_several_positions_at_once(places: int, new: int) -> None:
    attributes: dict[str, Any] = {"local_window_size": 4, "sliding_window_cache": 1, "do_rotary": 1}
    _, key, value = assert_agrees(
        inputs_of(1, 2, [2], past=places, **ROTARY), filled=[2], **attributes
    )
    end = 2
    for _ in range(4):
        end += new
        inputs = inputs_of(1, new, [end], packed=True, bias=normal(1, HEADS, new, end), **ROTARY)
        inputs[3:5] = key, value
        _, key, value = assert_agrees(inputs, filled=[resident_count(end, places, 4)], **attributes)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_more_of_a_prompt_follows_on_a_past(name: str) -> None:
    extras, attributes = ATTRIBUTES[name]
    assert_agrees(inputs_of(1, 4, [11], past=7, packed=True, **extras), **attributes)


@pytest.mark.parametrize(("heads", "shared"), [(1, 1), (6, 6), (8, 1), (6, 2)])
def test_any_number_of_heads_shares_keys(heads: int, shared: int) -> None:
    assert_agrees(
        inputs_of(2, 1, [9, 6], heads=heads, shared=shared, past=8),
        num_heads=heads,
        kv_num_heads=shared,
    )


@pytest.mark.parametrize("qk_output", [1, 2])
@pytest.mark.parametrize("extras", [{}, {"local_window_size": 3}])
def test_scores_and_weights_are_an_output_on_request(
    extras: dict[str, Any], qk_output: int
) -> None:
    assert_agrees(inputs_of(2, 6, [6, 6]), outputs=4, qk_output=qk_output, **extras)


@pytest.mark.parametrize("shape", [(2, HEADS), (1, HEADS), (2, 1), (1, 1)])
def test_a_bias_goes_to_the_scores(shape: tuple[int, int]) -> None:
    assert_agrees(inputs_of(2, 5, [5, 5], bias=normal(*shape, 5, 5)), softcap=3.0)
    assert_agrees(inputs_of(2, 1, [6, 4], past=5, bias=normal(*shape, 1, 6)))


def test_without_causal_every_query_sees_every_key() -> None:
    assert_agrees(inputs_of(2, 5, [5, 5]), causal=0)
    assert_agrees(inputs_of(1, 3, [8], past=5), causal=0)


@pytest.mark.parametrize(
    ("new", "ends", "past", "ids"),
    [
        (4, [4, 4], None, [[3, 4, 5, 6]] * 2),
        (4, [4, 4], None, [[3, 9, 1, 6], [5, 5, 5, 5]]),
        (1, [6, 3], 5, [[2], [40]]),
    ],
)
def test_position_ids_say_where_tokens_stand(
    new: int, ends: list[int], past: int | None, ids: Any
) -> None:
    assert_agrees(
        inputs_of(2, new, ends, past=past, position_ids=np.array(ids), **ROTARY), do_rotary=1
    )


def test_only_the_first_features_turn_where_the_caches_are_narrow() -> None:
    narrow: dict[str, Any] = {"cosines": COSINES.copy(), "sines": SINES.copy()}
    assert_agrees(inputs_of(1, 4, [4], size=32, **narrow), do_rotary=1)


def test_long_prompts_go_in_stretches() -> None:
    assert_agrees(inputs_of(1, 700, [700]), scale=0.2)
    assert_agrees(inputs_of(1, 700, [700]), local_window_size=40)


@pytest.mark.parametrize("dtype", [np.float64, ml_dtypes.bfloat16])
def test_other_floats_compute_as_float32_does(dtype: Any) -> None:
    inputs = inputs_of(2, 5, [5, 5], **ROTARY)
    expected = ours(inputs, do_rotary=1)
    found = ours(
        [x.astype(dtype) if x is not None and x.dtype == FLOAT32 else x for x in inputs],
        do_rotary=1,
    )
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        tolerance = 1e-5 if dtype == np.float64 else 5e-2
        np.testing.assert_allclose(
            one.astype(np.float64), other.astype(np.float64), rtol=tolerance, atol=tolerance
        )


def test_present_caches_may_be_left_out() -> None:
    inputs = inputs_of(2, 1, [6, 3], past=5)
    np.testing.assert_array_equal(ours(inputs, outputs=1), ours(inputs)[0])


def test_present_caches_share_no_memory_with_the_inputs() -> None:
    inputs = inputs_of(2, 1, [6, 3], past=8)
    _, key, value = ours(inputs)
    assert not any(
        np.shares_memory(one, other)
        for one in (key, value)
        for other in inputs
        if other is not None
    )


def test_no_sequences_and_no_queries_give_empty_outputs() -> None:
    assert ours(inputs_of(0, 3, [], total=3))[0].shape == (0, 3, HEADS * SIZE)
    assert ours(inputs_of(1, 0, [5], past=5))[0].shape == (1, 0, HEADS * SIZE)


GOOD = inputs_of(2, 4, [4, 4], **ROTARY)


def replaced(**values: Any) -> list[Any]:
    names = ("query", "key", "value", "past_key", "past_value", "seqlens", "total", *EXTRAS)
    found = [*GOOD, *[None] * (len(names) - len(GOOD))]
    for name, value in values.items():
        found[names.index(name)] = value
    return found


I32 = np.int32


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (GOOD, {"num_heads": 3}, "num_heads=3 is no multiple of kv_num_heads=2"),
        (GOOD, {"kv_num_heads": 0}, "no multiple of kv_num_heads=0"),
        (GOOD, {"local_window_size": 0}, "local_window_size is -1 or"),
        (
            GOOD,
            {"local_window_size": 4, "causal": 0},
            "local_window_size is -1 or, where causal is 1",
        ),
        (GOOD, {"qk_output": 3}, "qk_output is 0, 1 or 2, not 3"),
        (GOOD, {"outputs": 4}, "output_qk needs qk_output=1"),
        (GOOD, {"k_quant_type": "PER_TENSOR"}, "a quantized cache .*PER_TENSOR"),
        (
            GOOD,
            {"sliding_window_cache": 1, "local_window_size": 3, "qk_output": 1},
            "qk_output is 0 where",
        ),
        (GOOD, {"sliding_window_cache": 1}, "sliding_window_cache=1. needs a local_window_size"),
        (
            GOOD,
            {"sliding_window_cache": 1, "local_window_size": 3},
            "cache of 0 places is too short for local_window_size=3",
        ),
        (
            [*replaced(), None, None, normal(SIZE), normal(SIZE)],
            {},
            "the input q_norm_weight is not supported",
        ),
        (replaced(query=normal(2, 64)), {}, "query has the shape"),
        (replaced(query=normal(2, 4, 66)), {}, "does not divide into 4 heads"),
        (replaced(key=None), {}, "key and value are both given or"),
        (replaced(key=normal(2, 3, 32)), {}, r"key has the shape \(2, 4, 32\)"),
        (replaced(value=normal(2, 4, 64)), {}, r"value has the shape \(2, 4, 32\)"),
        (
            replaced(value=normal(2, 4, 32, dtype=np.float16)),
            {},
            "value has .* the type float32 of query",
        ),
        (replaced(past_key=normal(2, 2, 3, 16)), {}, "past_key and past_value are both given"),
        (
            replaced(past_key=normal(2, 2, 3, 8), past_value=normal(2, 2, 3, 8)),
            {},
            "past_key has the shape",
        ),
        (
            replaced(past_key=normal(2, 2, 3, 16), past_value=normal(2, 2, 4, 16)),
            {},
            "past_value has the shape",
        ),
        (
            replaced(
                past_key=np.zeros((2, 2, 3, 16), np.int8),
                past_value=np.zeros((2, 2, 3, 16), np.int8),
            ),
            {},
            "past_key has .* the type float32, not .* int8",
        ),
        (replaced(seqlens=np.array([3], I32)), {}, r"seqlens_k has the shape \(2,\)"),
        (
            replaced(seqlens=np.array([3, 4], I32)),
            {},
            r"seqlens_k\[1\]=4 does not fit 4 new queries",
        ),
        (replaced(seqlens=np.array([-1, 3], I32)), {}, r"seqlens_k\[0\]=-1 does not fit"),
        (replaced(total=np.array([4, 4], I32)), {}, "total_sequence_length is one number"),
        (
            replaced(total=np.array([3], I32)),
            {},
            "total_sequence_length 3 is less than the 4 new ones",
        ),
        (
            replaced(total=np.array([9], I32)),
            {},
            "4 new queries over a past take a batch of 1, not of 2",
        ),
        (
            inputs_of(1, 1, [7], past=4),
            {},
            r"seqlens_k\[0\]=6 does not fit 1 new queries, a past of 4",
        ),
        (replaced(cosines=None), {"do_rotary": 1}, "do_rotary=1 needs cos_cache and sin_cache"),
        (replaced(cosines=COSINES[:, :4]), {"do_rotary": 1}, "do not turn heads of size 16"),
        (
            replaced(cosines=COSINES[:3], sines=SINES[:3]),
            {"do_rotary": 1},
            "3 positions are too short for 4",
        ),
        (
            replaced(position_ids=np.zeros((1, 4), np.int64)),
            {"do_rotary": 1},
            r"position_ids has the shape \(2, 4\)",
        ),
        (
            replaced(position_ids=np.full((2, 4), 62)),
            {"do_rotary": 1},
            "no rows for the 4 positions from 62 on",
        ),
        (
            replaced(position_ids=np.full((2, 4), -1)),
            {"do_rotary": 1},
            "no rows for the 4 positions from -1 on",
        ),
        (
            inputs_of(1, 1, [4], past=3, position_ids=np.array([[64]]), **ROTARY),
            {"do_rotary": 1},
            "index 64 is out of range",
        ),
        (
            inputs_of(1, 1, [4], past=3, position_ids=np.array([[-1]]), **ROTARY),
            {"do_rotary": 1},
            "position -1 is negative",
        ),
        (replaced(bias=normal(2, 4, 4, 5)), {}, "attention_bias has the shape"),
        (replaced(sinks=normal(2)), {}, r"head_sink has the shape \(4,\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ours(inputs, **attributes)


def test_a_total_length_beyond_the_memory_limit_is_refused_before_anything_is_allocated() -> None:
    inputs = inputs_of(1, 1, [3], past=4)
    inputs[6] = np.array([2**31 - 1], np.int32)
    with pytest.raises(LimitExceededError):
        ours(inputs)
