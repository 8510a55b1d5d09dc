"""com.microsoft: GroupQueryAttention, whose query heads share a cache of keys and values.

Source: ONNX Runtime, docs/ContribOperators.md, and its CPU kernel where that says nothing. The
cache has float type, and full length or (``sliding_window_cache``) the length that the caller gives
it: quantized caches, and norms of query and key, are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype
from ortpkg.runtime.kernels.grouped_attention import (
    CachedSequence,
    GroupedScores,
    attend_grouped,
    stretch_nbytes,
)
from ortpkg.runtime.kernels.grouped_inputs import (
    CachedKeys,
    HeadAttributes,
    Lengths,
    angles,
    fill_cache,
    past_length,
    slide_cache,
    split_heads,
)
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.rotary_embedding import rotate

_DOMAIN = "com.microsoft"
_NO_QK, _QK_SCORES, _QK_WEIGHTS = 0, 1, 2
_INPUTS = (
    "query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length",
    "cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale",
    "q_norm_weight", "k_norm_weight",
)  # fmt: skip
_REFUSED_INPUTS = ("k_scale", "v_scale", "q_norm_weight", "k_norm_weight")


#: Arrays of keys and of values.
_Caches = tuple[Tensor, Tensor]
_Past = tuple[Tensor | None, Tensor | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attributes:
    heads: HeadAttributes
    is_causal: bool
    window: int
    slides: bool
    softcap: float
    is_smooth: bool
    qk_output: int

    @classmethod
    def of(cls, info: OpKernelInfo) -> _Attributes:
        """Read a node's attributes. Raises ValueError if they contradict or are not supported."""
        attributes = cls(
            heads=HeadAttributes.of(info),
            is_causal=bool(info.attribute("causal", 1)),
            window=int(info.attribute("local_window_size", -1)),
            slides=bool(info.attribute("sliding_window_cache", 0)),
            softcap=float(info.attribute("softcap", 0.0)),
            is_smooth=int(info.attribute("smooth_softmax", 0)) == 1,
            qk_output=int(info.attribute("qk_output", 0)),
        )
        if attributes.window != -1 and (attributes.window < 1 or not attributes.is_causal):
            raise ValueError(
                f"local_window_size is -1 or, where causal is 1, 1 or more, not {attributes.window}"
            )
        if attributes.qk_output not in (_NO_QK, _QK_SCORES, _QK_WEIGHTS):
            raise ValueError(f"qk_output is 0, 1 or 2, not {attributes.qk_output}")
        for name in ("k_quant_type", "v_quant_type"):
            kind = str(info.attribute(name, "NONE"))
            if kind != "NONE":
                raise ValueError(f"a quantized cache ({name}={quoted(kind)}) is not supported")
        if attributes.slides and attributes.window < 1:
            raise ValueError(
                "a cache of the window's size (sliding_window_cache=1) needs a local_window_size"
            )
        if attributes.slides and attributes.qk_output:
            raise ValueError(
                f"qk_output is 0 where sliding_window_cache is 1, not {attributes.qk_output}"
            )
        inputs = info.node.inputs
        for slot, name in enumerate(_INPUTS):
            if name in _REFUSED_INPUTS and slot < len(inputs) and inputs[slot]:
                raise ValueError(f"the input {name} is not supported")
        return attributes


def _check_extras(
    bias: Tensor | None, sinks: Tensor | None, batch: int, heads: int, lengths: Lengths
) -> None:
    if bias is not None and (
        bias.ndim != 4
        or bias.shape[0] not in (1, batch)
        or bias.shape[1] not in (1, heads)
        or bias.shape[2:] != (lengths.new, lengths.total)
    ):
        raise ValueError(
            f"attention_bias has the shape ({batch} or 1, {heads} or 1, {lengths.new},"
            f" {lengths.total}), not {bias.shape}"
        )
    if sinks is not None and sinks.shape != (heads,):
        raise ValueError(f"head_sink has the shape ({heads},), not {sinks.shape}")


def _scores(
    attributes: _Attributes, size: int, sinks: Tensor | None, wide: np.dtype[Any]
) -> GroupedScores:
    """Return the scoring steps for heads of ``size``.

    A smooth softmax is one with a sink of 0 for each head.
    """
    if sinks is None and attributes.is_smooth:
        sinks = np.zeros(attributes.heads.count, wide)
    return GroupedScores(
        scale=attributes.heads.scale_of(size),
        softcap=attributes.softcap,
        is_causal=attributes.is_causal,
        window=attributes.window,
        sinks=sinks,
        captures_weights=attributes.qk_output == _QK_WEIGHTS,
    )


def _sequences(
    query: Tensor,
    cached: list[CachedKeys],
    lengths: Lengths,
    bias: Tensor | None,
    out: Tensor,
    capture: Tensor | None,
) -> list[CachedSequence]:
    """Return the sequences to attend to, as views.

    ``query`` and ``out`` are (batch, length, heads, size).
    """
    return [
        CachedSequence(
            query=query[index].swapaxes(0, 1),
            key=held.keys,
            value=held.values,
            first=lengths.starts[index] - held.position,
            bias=(
                None
                if bias is None
                else bias[index if bias.shape[0] > 1 else 0, ..., held.position :]
            ),
            out=out[index].swapaxes(0, 1),
            capture=None if capture is None else capture[index, ..., held.position :],
        )
        for index, held in enumerate(cached)
    ]


def _filled(caches: _Caches, past: _Past, new: _Caches, lengths: Lengths) -> list[CachedKeys]:
    """Fill caches of full length; return the keys and values that each sequence attends to."""
    for cache, before, added in zip(caches, past, new, strict=True):
        fill_cache(cache, before, added, lengths)
    keys, values = caches
    return [
        CachedKeys(keys=keys[index, :, :stop], values=values[index, :, :stop])
        for index, stop in enumerate(lengths.stops)
    ]


def _slid(
    caches: _Caches, past: _Past, new: _Caches, lengths: Lengths, window: int
) -> list[CachedKeys]:
    """Move sliding caches on; return the keys and values that each sequence attends to."""
    cached = []
    for index, (start, stop) in enumerate(zip(lengths.starts, lengths.stops, strict=True)):
        keys, values = (
            slide_cache(cache[index], before[index], added[index, : stop - start], stop, window)
            for cache, before, added in zip(caches, past, new, strict=True)
            if before is not None
        )
        cached.append(CachedKeys(keys=keys, values=values, position=stop - keys.shape[1]))
    return cached


def _lengths(
    attributes: _Attributes,
    query: Tensor,
    key: Tensor,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens: Tensor,
    total_length: Tensor,
) -> Lengths:
    """Return the lengths of sequences whose ``key`` comes behind the cached ones.

    Raises:
        ValueError: the cache is too short.
    """
    past = past_length(past_key, past_value, key)
    if attributes.slides and past < attributes.window:
        raise ValueError(
            f"a cache of {past} places is too short for local_window_size={attributes.window},"
            " of which sliding_window_cache=1 keeps all"
        )
    batch, length = query.shape[:2]
    return Lengths.of(batch, length, past, seqlens, total_length, is_windowed=attributes.slides)


def _check_allocation(
    context: OpKernelContext,
    attributes: _Attributes,
    query: Tensor,
    lengths: Lengths,
    *,
    hands_out_caches: bool,
) -> None:
    """Check the memory of a run besides its outputs before any of it is allocated."""
    batch, new, heads, size = query.shape
    shared, itemsize = attributes.heads.shared, query.dtype.itemsize
    wide_nbytes = compute_dtype(query.dtype).itemsize
    key_count = min(lengths.total, lengths.present + new)
    cache_nbytes = 2 * batch * shared * lengths.present * size * itemsize
    nbytes = 0 if hands_out_caches else cache_nbytes
    if attributes.slides and new > 1:
        nbytes += 2 * batch * shared * key_count * size * itemsize
    nbytes += stretch_nbytes(shared, heads // shared, new, key_count, size, wide_nbytes)
    context.check_allocation(4 * query.size * wide_nbytes + nbytes)


def _turned(
    x: Tensor, angle: tuple[Tensor, Tensor], dtype: np.dtype[Any], interleaved: bool
) -> Tensor:
    """Return query or key in ``dtype``, turned by its positions."""
    turned = np.empty(x.shape, dtype)
    rotate(x, *angle, interleaved=interleaved, out=turned)
    return turned


@kernel(
    "GroupQueryAttention",
    since=(1,),
    domain=_DOMAIN,
    types={"T": FLOATS},
    in_place=((3, 1), (4, 2)),
)
def group_query_attention(info: OpKernelInfo) -> Compute:
    """Attention, and present caches that end in zeros.

    A prompt's padding is cached as it came, and its queries see the whole prompt.
    """
    attributes = _Attributes.of(info)
    heads, shared = attributes.heads.count, attributes.heads.shared
    wants = [bool(name) for name in info.node.outputs] + [False] * 4
    if wants[3] and not attributes.qk_output:
        raise ValueError("output_qk needs qk_output=1 (scores) or 2 (weights)")

    def compute(
        context: OpKernelContext,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        past_key: Tensor | None,
        past_value: Tensor | None,
        seqlens: Tensor,
        total_length: Tensor,
        cosines: Tensor | None = None,
        sines: Tensor | None = None,
        position_ids: Tensor | None = None,
        bias: Tensor | None = None,
        sinks: Tensor | None = None,
        *_refused: Tensor | None,
    ) -> Any:
        q, k, v = split_heads(query, key, value, heads, shared)
        batch, new, _, size = q.shape
        dtype, wide = query.dtype, compute_dtype(query.dtype)
        lengths = _lengths(attributes, q, k, past_key, past_value, seqlens, total_length)
        _check_extras(bias, sinks, batch, heads, lengths)
        _check_allocation(context, attributes, q, lengths, hands_out_caches=wants[1] and wants[2])
        out = context.output(0, (batch, new, heads * size), dtype)
        angle = None
        if attributes.heads.do_rotary:
            angle = angles(context, cosines, sines, position_ids, lengths, k)
        cache_shape = (batch, shared, lengths.present, size)
        keys = context.output(1, cache_shape, dtype) if wants[1] else np.empty(cache_shape, dtype)
        values = context.output(2, cache_shape, dtype) if wants[2] else np.empty(cache_shape, dtype)
        if angle:
            q, k = (_turned(x, angle, wide, attributes.heads.interleaved) for x in (q, k))
        pairs = (keys, values), (past_key, past_value), (k, v), lengths
        cached = _slid(*pairs, attributes.window) if attributes.slides else _filled(*pairs)
        capture = None
        if wants[3]:
            capture = context.output(3, (batch, heads, new, lengths.total), dtype)
            capture[...] = 0
        sequences = _sequences(q, cached, lengths, bias, out.reshape(q.shape), capture)
        attend_grouped(
            sequences, _scores(attributes, size, sinks, wide), wide, context.check_cancelled
        )
        present = (keys if wants[1] else None, values if wants[2] else None, capture)
        return (out, *present)[: len(info.node.outputs)] if len(info.node.outputs) > 1 else out

    return compute
