"""com.microsoft: Attention and MultiHeadAttention of exported, optimized transformer models.

Source: onnxruntime's contrib operators. Padding adds ``mask_filter_value`` to the scores, as
onnxruntime does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortpkg.runtime.kernels.attention import (
    ScoreSteps,
    attend,
    attention_nbytes,
    check_heads,
    copied_output,
    split_heads,
    window_bias,
)
from ortpkg.runtime.kernels.axes import element_count
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.matrix_product import product_in_blocks
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

MS = "com.microsoft"
_MASK_FILTER = -10000.0


def _padding_bias(
    mask: Tensor, batch: int, length: int, total: int, filtered: float, dtype: np.dtype[Any]
) -> Tensor:
    """Return a padding mask as bias, broadcastable to (batch, 1, length, total).

    Forms of a mask:

    - (batch,): number of keys, counted from the left.
    - (2 · batch,): these, then the first key of each row.
    - (3 · batch + 2,): these, then offsets in tensors without padding, which are not needed here.
    - (batch, total), (batch, length, total) or (batch, 1, total, total): 0 for keys that do not
      count.
    """
    keys = np.arange(total)
    if mask.shape == (batch,):
        counts = keys < mask[:, None, None, None]
    elif mask.shape == (2 * batch,):
        counts = (keys < mask[:batch, None, None, None]) & (keys >= mask[batch:, None, None, None])
    elif mask.shape == (3 * batch + 2,):
        counts = keys < mask[:batch, None, None, None]
    elif mask.shape == (batch, total):
        counts = mask[:, None, None, :] != 0
    elif mask.shape == (batch, length, total):
        counts = mask[:, None] != 0
    elif (
        mask.ndim == 4 and mask.shape[:2] == (batch, 1) and mask.shape[2] == mask.shape[3] >= total
    ):
        counts = mask[:, :, total - length : total, :total] != 0
    else:
        raise ValueError(
            f"a mask of shape {mask.shape} does not fit {batch} sequences, {length} queries,"
            f" {total} keys"
        )
    bias: Tensor = np.where(counts, dtype.type(0), dtype.type(filtered))
    return bias


class _Scoring:
    """Parts that the two operators share: attributes, the bias, and the call of the core."""

    def __init__(self, info: OpKernelInfo) -> None:
        self.heads = info.attribute("num_heads")
        self.causal = bool(info.attribute("unidirectional", 0))
        self.filtered = info.attribute("mask_filter_value", _MASK_FILTER)
        self.scale = info.attribute("scale", 0.0) or None

    def run(
        self,
        context: OpKernelContext,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        dtype: np.dtype[Any],
        held_nbytes: int,
    ) -> Tensor:
        """Attend with factors (batch, heads, length, size); return (batch, length, heads · size).

        The result is in ``dtype``. ``held_nbytes`` is the size of what the node has allocated
        before.
        """
        check_heads(query, key, value)
        batch, heads, length, size = query.shape
        total = key.shape[2]
        wide = compute_dtype(dtype)
        shape = (batch, length, heads * value.shape[3])
        out = context.output(0, shape, dtype)
        hidden = batch if mask is not None else int(self.causal)
        bias_count = max(0 if bias is None else bias.size, hidden * length * total)
        result_nbytes = widened_nbytes(out) + widened_nbytes(bias)
        context.check_allocation(
            held_nbytes + result_nbytes + attention_nbytes(query, key, value, bias_count)
        )
        parts = [] if bias is None else [widened(bias)]
        if mask is not None:
            parts.append(_padding_bias(mask, batch, length, total, self.filtered, wide))
        if self.causal:
            parts.append(window_bias(length, total, np.array([total - length]), -1, 0, wide))
        combined: Tensor | None = None
        for part in parts:
            combined = part if combined is None else combined + part
        result = out if wide == dtype else np.empty(shape, wide)
        steps = ScoreSteps(
            scale=1 / math.sqrt(size) if self.scale is None else self.scale, softmax_dtype=wide
        )
        attend(
            widened(query),
            widened(key),
            widened(value),
            combined,
            steps,
            split_heads(result, heads),
        )
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        return out


def _projected(rows: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``rows @ weights + bias``."""
    if bias is not None and bias.shape != weights.shape[1:]:
        raise ValueError(
            f"a bias of shape {bias.shape} does not fit weights of shape {weights.shape}"
        )
    out = np.empty((len(rows), weights.shape[1]), rows.dtype)
    product_in_blocks(rows, weights, out)
    if bias is not None:
        out += bias
    return out


@kernel("Attention", since=(1,), domain=MS, types={"T": FLOATS})
def microsoft_attention(info: OpKernelInfo) -> Compute:
    """Project the input, attend, and return keys and values as ``present``."""
    scoring = _Scoring(info)
    sizes = info.attribute("qkv_hidden_sizes")
    wants_present = len(info.node.outputs) > 1 and bool(info.node.outputs[1])

    def compute(
        context: OpKernelContext,
        x: Tensor,
        weights: Tensor,
        bias: Tensor | None = None,
        mask: Tensor | None = None,
        past: Tensor | None = None,
        attention_bias: Tensor | None = None,
    ) -> Any:
        if x.ndim != 3 or weights.ndim != 2 or x.shape[2] != weights.shape[0]:
            raise ValueError(
                f"an input of shape {x.shape} does not fit weights of shape {weights.shape}"
            )
        widths = tuple(sizes) if sizes else (weights.shape[1] // 3,) * 3
        if len(widths) != 3 or sum(widths) != weights.shape[1]:
            raise ValueError(f"hidden sizes {widths} do not fit weights of shape {weights.shape}")
        count = x.shape[0] * x.shape[1]
        held_nbytes = widened_nbytes(x, weights, bias)
        held_nbytes += count * weights.shape[1] * compute_dtype(x.dtype).itemsize
        context.check_allocation(held_nbytes)
        rows = widened(x).reshape(count, x.shape[2])
        projected = _projected(rows, widened(weights), None if bias is None else widened(bias))
        projected = projected.reshape(*x.shape[:2], weights.shape[1])
        first, second = widths[0], widths[0] + widths[1]
        query, key, value = (
            split_heads(part, scoring.heads)
            for part in (
                projected[..., :first],
                projected[..., first:second],
                projected[..., second:],
            )
        )
        if past is not None:
            # Both caches with the new part; one past cache, widened.
            held_nbytes += 2 * past.size * compute_dtype(past.dtype).itemsize
            held_nbytes += (key.size + value.size) * key.itemsize
            context.check_allocation(held_nbytes)
            key, value = (
                np.concatenate([widened(old), new], axis=2)
                for old, new in zip(past, (key, value), strict=True)
            )
        out = scoring.run(context, query, key, value, mask, attention_bias, x.dtype, held_nbytes)
        if not wants_present:
            return out
        context.check_allocation(held_nbytes + (key.size + value.size) * x.itemsize)
        present = context.output(1, (2, *key.shape), x.dtype)
        np.copyto(present[0], key, casting="unsafe")
        np.copyto(present[1], value, casting="unsafe")
        return out, present

    return compute


def _unpacked(
    query: Tensor, key: Tensor | None, value: Tensor | None, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value as (batch, heads, length, size), from all packed forms."""
    if query.ndim == 5:  # (batch, length, heads, 3, size)
        packed = query.transpose(3, 0, 2, 1, 4)
        return packed[0], packed[1], packed[2]
    split = split_heads(query, heads)
    if key is None:
        raise ValueError(f"a query of shape {query.shape} needs a key")
    if key.ndim == 5:  # (batch, length, heads, 2, size)
        packed = key.transpose(3, 0, 2, 1, 4)
        return split, packed[0], packed[1]
    if value is None:
        raise ValueError(f"a key of shape {key.shape} needs a value")
    return (
        split,
        key if key.ndim == 4 else split_heads(key, heads),
        value if value.ndim == 4 else split_heads(value, heads),
    )


def _with_bias(
    parts: tuple[Tensor, Tensor, Tensor], bias: Tensor, is_own: tuple[bool, ...]
) -> list[Tensor]:
    """Add the projection bias's parts to query, key and value, except to ones from elsewhere."""
    widths = [part.shape[1] * part.shape[3] for part in parts]
    if bias.shape != (sum(widths),):
        raise ValueError(
            f"a bias of shape {bias.shape} does not fit query, key and value of widths {widths}"
        )
    biased, start = [], 0
    for part, width, has_bias in zip(parts, widths, is_own, strict=True):
        stretch = widened(bias)[start : start + width].reshape(1, part.shape[1], 1, part.shape[3])
        biased.append(widened(part) + stretch if has_bias else part)
        start += width
    return biased


@kernel("MultiHeadAttention", since=(1,), domain=MS, types={"T": FLOATS})
def multi_head_attention(info: OpKernelInfo) -> Compute:
    scoring = _Scoring(info)
    wants = [bool(name) for name in info.node.outputs] + [False] * 3

    def compute(
        context: OpKernelContext,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        bias: Tensor | None = None,
        mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        past_key: Tensor | None = None,
        past_value: Tensor | None = None,
    ) -> Any:
        dtype = query.dtype
        from_elsewhere = key is not None and key.ndim == 4
        q, k, v = _unpacked(query, key, value, scoring.heads)
        held_nbytes = 0
        if bias is not None:
            wide = compute_dtype(dtype).itemsize
            held_nbytes += (q.size + k.size + v.size) * wide + widened_nbytes(q)
            context.check_allocation(held_nbytes)
            q, k, v = _with_bias((q, k, v), bias, (True, not from_elsewhere, not from_elsewhere))
        if past_key is not None and past_value is not None and element_count(past_key.shape):
            held_nbytes += (past_key.size + k.size + past_value.size + v.size) * k.itemsize
            context.check_allocation(held_nbytes)
            k, v = np.concatenate([past_key, k], axis=2), np.concatenate([past_value, v], axis=2)
        out = scoring.run(context, q, k, v, mask, attention_bias, dtype, held_nbytes)
        if len(info.node.outputs) == 1:
            return out
        context.check_allocation(held_nbytes + (k.size + v.size) * dtype.itemsize)
        present = [
            copied_output(context, slot, part.astype(dtype, copy=False)) if wants[slot] else None
            for slot, part in ((1, k), (2, v))
        ]
        return (out, *present)[: len(info.node.outputs)]

    return compute
