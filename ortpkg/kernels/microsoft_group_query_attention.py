"""com.microsoft: GroupQueryAttention, the attention of language models whose heads share a cache of keys and values.

Source: ONNX Runtime, docs/ContribOperators.md, and what its CPU kernel does where that is silent. The cache has float
type and full length: quantized and windowed caches, and norms of query and key, are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.errors import quoted
from ortpkg.kernels.axes import wrapped_indices
from ortpkg.kernels.element_types import FLOATS, compute_dtype
from ortpkg.kernels.grouped_attention import CachedSequence, GroupedScores, attend_grouped, scratch_nbytes
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.rotary_embedding import rotate
from ortpkg.kernels.scratch import Slot, take_scratch

_DOMAIN = "com.microsoft"
_NO_QK, _QK_SCORES, _QK_WEIGHTS = 0, 1, 2
_INPUTS = (
    "query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache", "sin_cache",
    "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight", "k_norm_weight",
)  # fmt: skip
_REFUSED_INPUTS = ("k_scale", "v_scale", "q_norm_weight", "k_norm_weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attributes:
    heads: int
    shared_heads: int
    do_rotary: bool
    interleaved: bool
    is_causal: bool
    window: int
    scale: float
    softcap: float
    is_smooth: bool
    qk_output: int

    @classmethod
    def of(cls, info: OpKernelInfo) -> _Attributes:
        """ValueError where attributes do not go together, or ask for what this kernel has not."""
        found = cls(
            heads=int(info.attribute("num_heads", 0)),
            shared_heads=int(info.attribute("kv_num_heads", 0)),
            do_rotary=bool(info.attribute("do_rotary", 0)),
            interleaved=bool(info.attribute("rotary_interleaved", 0)),
            is_causal=bool(info.attribute("causal", 1)),
            window=int(info.attribute("local_window_size", -1)),
            scale=float(info.attribute("scale", 0.0)),
            softcap=float(info.attribute("softcap", 0.0)),
            is_smooth=int(info.attribute("smooth_softmax", 0)) == 1,
            qk_output=int(info.attribute("qk_output", 0)),
        )
        if found.heads < 1 or found.shared_heads < 1 or found.heads % found.shared_heads:
            raise ValueError(f"num_heads={found.heads} is no multiple of kv_num_heads={found.shared_heads}")
        if found.window != -1 and (found.window < 1 or not found.is_causal):
            raise ValueError(f"local_window_size is -1 or, where causal is 1, 1 or more, not {found.window}")
        if found.qk_output not in (_NO_QK, _QK_SCORES, _QK_WEIGHTS):
            raise ValueError(f"qk_output is 0, 1 or 2, not {found.qk_output}")
        for name in ("k_quant_type", "v_quant_type"):
            kind = str(info.attribute(name, "NONE"))
            if kind != "NONE":
                raise ValueError(f"a quantized cache ({name}={quoted(kind)}) is not supported")
        if info.attribute("sliding_window_cache", 0):
            raise ValueError("a cache of the window's size (sliding_window_cache=1) is not supported")
        given = info.node.inputs
        for slot, name in enumerate(_INPUTS):
            if name in _REFUSED_INPUTS and slot < len(given) and given[slot]:
                raise ValueError(f"the input {name} is not supported")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lengths:
    """How far each sequence reaches.

    Attributes:
        new: queries per sequence.
        total: the longest sequence, these included.
        present: places in the present cache.
        starts: per sequence, the place of its first query in the cache.
        stops: per sequence, how many keys it has.
        is_first_prompt: whether there is no past.
    """

    new: int
    total: int
    present: int
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    is_first_prompt: bool

    @classmethod
    def of(cls, batch: int, new: int, past: int, seqlens: Tensor, total_length: Tensor) -> _Lengths:
        if total_length.size != 1:
            raise ValueError(f"total_sequence_length is one number, not a tensor of shape {total_length.shape}")
        if seqlens.shape != (batch,):
            raise ValueError(f"seqlens_k has the shape ({batch},), one per sequence, not {seqlens.shape}")
        total = int(total_length.reshape(()))
        if total < new or total < 1:
            raise ValueError(f"total_sequence_length {total} is less than the {new} new ones")
        is_first = new == total
        if not is_first and new > 1 and batch > 1:
            raise ValueError(f"{new} new queries over a past take a batch of 1, not of {batch}")
        present = max(total, past)
        stops = tuple(int(length) + 1 for length in seqlens)
        starts = tuple(0 if is_first else stop - new for stop in stops)
        for index, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            if start < 0 or stop < 1 or stop > total or start > past:
                raise ValueError(
                    f"seqlens_k[{index}]={stop - 1} does not fit {new} new queries, a past of {past} and "
                    f"total_sequence_length={total}"
                )
        return cls(new=new, total=total, present=present, starts=starts, stops=stops, is_first_prompt=is_first)


def _split(query: Tensor, key: Tensor | None, value: Tensor | None, heads: int, shared: int) -> list[Tensor]:
    """Query, key and value as views (batch, length, heads, size)."""
    if query.ndim != 3:
        raise ValueError(f"query has the shape (batch, length, hidden size), not {query.shape}")
    if (key is None) != (value is None):
        raise ValueError("key and value are both given or, packed into query, both left out")
    batch, length, width = query.shape
    in_query = heads if key is not None else heads + 2 * shared
    size = width // in_query
    if size == 0 or width % in_query:
        raise ValueError(f"a query of shape {query.shape} does not divide into {in_query} heads")
    if key is None or value is None:
        packed = query.reshape(batch, length, in_query, size)
        return [packed[:, :, :heads], packed[:, :, heads : heads + shared], packed[:, :, heads + shared :]]
    for name, x in (("key", key), ("value", value)):
        if x.shape != (batch, length, shared * size) or x.dtype != query.dtype:
            raise ValueError(
                f"{name} has the shape {(batch, length, shared * size)} and the type {query.dtype} of query, "
                f"not {x.shape} and {x.dtype}"
            )
    return [
        query.reshape(batch, length, heads, size),
        key.reshape(batch, length, shared, size),
        value.reshape(batch, length, shared, size),
    ]


def _past_length(past_key: Tensor | None, past_value: Tensor | None, like: Tensor) -> int:
    """Places in the past cache, 0 where there is none; ``like`` is the new key (batch, length, shared heads, size)."""
    if past_key is None and past_value is None:
        return 0
    if past_key is None or past_value is None:
        raise ValueError("past_key and past_value are both given or both left out")
    batch, _, shared, size = like.shape
    for name, past in (("past_key", past_key), ("past_value", past_value)):
        expected = (batch, shared, past_key.shape[2] if past_key.ndim == 4 else 0, size)
        if past.shape != expected or past.dtype != like.dtype:
            raise ValueError(
                f"{name} has the shape {expected}, (batch, kv_num_heads, length, size), and the type {like.dtype}, "
                f"not {past.shape} and {past.dtype}"
            )
    return int(past_key.shape[2])


def _angles(
    cosines: Tensor | None, sines: Tensor | None, position_ids: Tensor | None, lengths: _Lengths, like: Tensor
) -> tuple[Tensor, Tensor]:
    """The rows of both caches for each token, (batch or 1, length, n), in the type that they are computed in."""
    if cosines is None or sines is None:
        raise ValueError("do_rotary=1 needs cos_cache and sin_cache")
    if cosines.ndim != 2 or cosines.shape != sines.shape or 2 * cosines.shape[1] > like.shape[3]:
        raise ValueError(
            f"caches of shapes {cosines.shape} and {sines.shape} do not turn heads of size {like.shape[3]}"
        )
    if cosines.shape[0] < lengths.total:
        raise ValueError(f"caches of {cosines.shape[0]} positions are too short for {lengths.total}")
    expected = (like.shape[0], lengths.new)
    if position_ids is not None and position_ids.shape != expected:
        raise ValueError(f"position_ids has the shape {expected}, (batch, length), not {position_ids.shape}")
    wide = compute_dtype(like.dtype)
    if lengths.is_first_prompt:
        first = 0 if position_ids is None or not position_ids.size else int(position_ids.flat[0])
        if first < 0 or first + lengths.new > cosines.shape[0]:
            raise ValueError(f"caches have no rows for the {lengths.new} positions from {first} on")
        rows = slice(first, first + lengths.new)
        return cosines[None, rows].astype(wide, copy=False), sines[None, rows].astype(wide, copy=False)
    positions = np.array(lengths.starts)[:, None] + np.arange(lengths.new) if position_ids is None else position_ids
    if positions.size and positions.min() < 0:
        raise ValueError(f"position {positions.min()} is negative")
    places = wrapped_indices(positions, cosines.shape[0])
    return cosines[places].astype(wide, copy=False), sines[places].astype(wide, copy=False)


def _check_extras(bias: Tensor | None, sinks: Tensor | None, batch: int, heads: int, lengths: _Lengths) -> None:
    if bias is not None and (
        bias.ndim != 4
        or bias.shape[0] not in (1, batch)
        or bias.shape[1] not in (1, heads)
        or bias.shape[2:] != (lengths.new, lengths.total)
    ):
        raise ValueError(
            f"attention_bias has the shape ({batch} or 1, {heads} or 1, {lengths.new}, {lengths.total}), "
            f"not {bias.shape}"
        )
    if sinks is not None and sinks.shape != (heads,):
        raise ValueError(f"head_sink has the shape ({heads},), not {sinks.shape}")


def _fill(cache: Tensor, past: Tensor | None, new: Tensor, lengths: _Lengths) -> None:
    """Writes past, new and zeros to ``cache`` (batch, shared heads, places, size), perhaps ``past``'s own memory."""
    for index, start in enumerate(lengths.starts):
        stop = start + lengths.new
        if past is not None and start and not np.may_share_memory(past, cache):
            cache[index, :, :start] = past[index, :, :start]
        cache[index, :, start:stop] = new[index].swapaxes(0, 1)
        cache[index, :, stop:] = 0


def _scores(attributes: _Attributes, size: int, sinks: Tensor | None, wide: np.dtype[Any]) -> GroupedScores:
    """How keys are scored by heads of ``size``; a smooth softmax is one with a sink of 0 for each head."""
    if sinks is None and attributes.is_smooth:
        sinks = np.zeros(attributes.heads, wide)
    return GroupedScores(
        scale=attributes.scale or 1 / math.sqrt(size),
        softcap=attributes.softcap,
        is_causal=attributes.is_causal,
        window=attributes.window,
        sinks=sinks,
        captures_weights=attributes.qk_output == _QK_WEIGHTS,
    )


def _sequences(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: _Lengths,
    bias: Tensor | None,
    out: Tensor,
    capture: Tensor | None,
) -> list[CachedSequence]:
    """What is attended to per sequence, as views; ``query`` and ``out`` are (batch, length, heads, size)."""
    return [
        CachedSequence(
            query=query[index].swapaxes(0, 1),
            key=keys[index, :, :stop],
            value=values[index, :, :stop],
            first=lengths.starts[index],
            bias=None if bias is None else bias[index if bias.shape[0] > 1 else 0],
            out=out[index].swapaxes(0, 1),
            capture=None if capture is None else capture[index],
        )
        for index, stop in enumerate(lengths.stops)
    ]


@kernel(
    "GroupQueryAttention",
    since=(1,),
    domain=_DOMAIN,
    types={"T": FLOATS},
    in_place=((3, 1), (4, 2)),
)
def group_query_attention(info: OpKernelInfo) -> Compute:
    """Present caches end in zeros; a prompt's padding lies in them as it came, and its queries see the whole prompt."""
    attributes = _Attributes.of(info)
    heads, shared = attributes.heads, attributes.shared_heads
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
        dtype = query.dtype
        q, k, v = _split(query, key, value, heads, shared)
        batch, new, _, size = q.shape
        past = _past_length(past_key, past_value, k)
        lengths = _Lengths.of(batch, new, past, seqlens, total_length)
        _check_extras(bias, sinks, batch, heads, lengths)
        cache_shape = (batch, shared, lengths.present, size)
        wide = compute_dtype(dtype)
        stretch_nbytes = scratch_nbytes(shared, heads // shared, new, lengths.total, size, wide.itemsize)
        cache_nbytes = 0 if wants[1] and wants[2] else 2 * math.prod(cache_shape) * dtype.itemsize
        context.check_allocation(4 * q.size * wide.itemsize + cache_nbytes + stretch_nbytes)
        out = context.output(0, (batch, new, heads * size), dtype)
        cosine, sine = None, None
        if attributes.do_rotary:
            cosine, sine = _angles(cosines, sines, position_ids, lengths, k)
        turned, turned_key, work, *spare = take_scratch(
            Slot.SHARED,
            (q.shape if cosine is not None else (0,), wide),
            (k.shape if cosine is not None else (0,), wide),
            ((*q.shape[:3], cosine.shape[2]) if cosine is not None else (0,), wide),
            *((cache_shape if not wants[slot] else (0,), dtype) for slot in (1, 2)),
        )
        keys, values = (context.output(slot, cache_shape, dtype) if wants[slot] else spare[slot - 1] for slot in (1, 2))
        if cosine is not None and sine is not None:
            rotate(q, cosine, sine, interleaved=attributes.interleaved, out=turned, spare=work)
            rotate(k, cosine, sine, interleaved=attributes.interleaved, out=turned_key, spare=work[:, :, :shared])
            q, k = turned, turned_key
        _fill(keys, past_key, k, lengths)
        _fill(values, past_value, v, lengths)
        capture = None
        if wants[3]:
            capture = context.output(3, (batch, heads, new, lengths.total), dtype)
            capture[...] = 0
        sequences = _sequences(q, keys, values, lengths, bias, out.reshape(q.shape), capture)
        attend_grouped(sequences, _scores(attributes, size, sinks, wide), wide, context.check_cancelled)
        present = (keys if wants[1] else None, values if wants[2] else None, capture)
        return (out, *present)[: len(info.node.outputs)] if len(info.node.outputs) > 1 else out

    return compute
