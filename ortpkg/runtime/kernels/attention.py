"""Scaled dot-product attention of ai.onnx, and its core; heads may share keys and values.

The core works through a few heads at a time, so that their scores stay in cache and no full score
tensor is kept. Narrow floats compute in float32 and round to their type after each step, as the
operator's function body does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.axes import broadcast_shape, element_count
from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.softmax import MOST_NARROW_TERMS

#: Most bytes of scores that are computed at a time.
_SCORES_NBYTES = 1 << 20
_FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSteps:
    """Steps between the two products.

    Attributes:
        scale: factor of the scores; its square root goes to each factor if every step rounds to a
            narrow type.
        softcap: scores become softcap · tanh(scores / softcap); 0 leaves them.
        rounding: the narrow type that every step rounds to, or None.
        softmax_dtype: type that softmax computes in.
        captured: number of the intermediate that ``capture`` gets: 0 product, 1 capped, 2 with
            bias, 3 probabilities.
    """

    scale: float
    softcap: float = 0.0
    rounding: np.dtype[Any] | None = None
    softmax_dtype: np.dtype[Any] = _FLOAT32
    captured: int = 0


def _rounded(x: Tensor, dtype: np.dtype[Any] | None) -> Tensor:
    return x if dtype is None else x.astype(dtype).astype(x.dtype)


def attention_nbytes(query: Tensor, key: Tensor, value: Tensor, bias_count: int = 0) -> int:
    """Return the bytes that attention takes besides its output: scores, wide factors, a bias.

    ``bias_count`` is the bias's number of elements; it is a sum of two, one made of truth values.
    """
    per_key = query.shape[1] // key.shape[1]
    scores = 3 * int(per_key * query.shape[2] * key.shape[2])
    vectors = 3 * int((per_key * query.shape[2] + key.shape[2]) * query.shape[3])
    result = element_count((*query.shape[:3], value.shape[3])) if widened_nbytes(query) else 0
    wide = compute_dtype(query.dtype).itemsize
    return (
        widened_nbytes(query, key, value)
        + max((scores + vectors) * np.dtype(np.float64).itemsize, 3 * _SCORES_NBYTES)
        + result * wide
        + bias_count * (3 * wide + 1)
    )


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    steps: ScoreSteps,
    out: Tensor,
    capture: Tensor | None = None,
) -> None:
    """Compute ``out = softmax(query · keyᵀ + bias) · value``.

    Args:
        query: (batch, heads, length, size).
        key: (batch, shared heads, total, size). ``heads`` is a multiple of ``shared heads``:
            neighbours share.
        value: (batch, shared heads, total, value size). All three are float32, or all float64.
        bias: added to the scores, broadcastable to (batch, heads, length, total); a row of -inf
            gives zeros.
        out: (batch, heads, length, value size), any strides.
        capture: gets an intermediate, (batch, heads, length, total).
    """
    batches, heads, length, _ = query.shape
    shared, total = key.shape[1:3]
    if out.size == 0:
        return
    if total == 0:
        out[...] = 0
        return
    if bias is not None:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
    per_key = heads // shared
    head_elements = per_key * length * total + (per_key * length + total) * query.shape[3]
    step = max(_SCORES_NBYTES // (head_elements * query.itemsize), 1)
    for b in range(batches):
        for first in range(0, shared, step):
            poll_run()
            last = min(first + step, shared)
            heads_slice = slice(first * per_key, last * per_key)
            scores = _scores(query[b, heads_slice], key[b, first:last], steps)
            shared_bias = (
                None
                if bias is None
                else bias[b % bias.shape[0], heads_slice if bias.shape[1] > 1 else slice(0, 1)]
            )
            captured = None if capture is None else capture[b, heads_slice]
            weights = _probabilities(scores, shared_bias, steps, captured)
            weights = weights.reshape(last - first, per_key * length, total)
            out[b, heads_slice] = matmul(weights, value[b, first:last]).reshape(
                heads_slice.stop - heads_slice.start, length, -1
            )


def _scores(query: Tensor, key: Tensor, steps: ScoreSteps) -> Tensor:
    """Return the scaled product of query heads and their shared keys, (heads, length, total)."""
    heads, length, size = query.shape
    if steps.rounding is None:
        scaled = np.multiply(query, query.dtype.type(steps.scale), order="C")
    else:
        root = steps.rounding.type(math.sqrt(steps.scale)).astype(query.dtype)
        scaled = _rounded(np.multiply(query, root, order="C"), steps.rounding)
        key = _rounded(key * root, steps.rounding)
    product = matmul(scaled.reshape(key.shape[0], -1, size), np.swapaxes(key, -1, -2))
    return _rounded(product, steps.rounding).reshape(heads, length, key.shape[1])


def _probabilities(
    scores: Tensor, bias: Tensor | None, steps: ScoreSteps, capture: Tensor | None
) -> Tensor:
    """Return the softmax of capped and biased scores; rows that may attend to nothing are zero.

    The result overwrites ``scores``.
    """
    _capture(scores, 0, steps, capture)
    if steps.softcap > 0:
        capped = np.tanh(_rounded(scores / scores.dtype.type(steps.softcap), steps.rounding))
        scores = _rounded(
            _rounded(capped, steps.rounding) * capped.dtype.type(steps.softcap), steps.rounding
        )
    _capture(scores, 1, steps, capture)
    if bias is not None:
        scores += bias
        scores = _rounded(scores, steps.rounding)
    _capture(scores, 2, steps, capture)
    weights = _safe_softmax(scores, steps)
    if bias is not None:
        empty = np.isneginf(np.maximum.reduce(bias, axis=-1, keepdims=True))
        if empty.any():
            np.copyto(weights, 0, where=empty)
    _capture(weights, 3, steps, capture)
    return weights


def _capture(x: Tensor, step: int, steps: ScoreSteps, capture: Tensor | None) -> None:
    if capture is not None and steps.captured == step:
        np.copyto(capture, x, casting="unsafe")


def _safe_softmax(scores: Tensor, steps: ScoreSteps) -> Tensor:
    """Return the softmax over the last axis in ``steps.softmax_dtype``, zeros for rows of -inf."""
    dtype = steps.softmax_dtype
    rounding = dtype if compute_dtype(dtype) != dtype else None
    rows = scores if scores.dtype == compute_dtype(dtype) else scores.astype(compute_dtype(dtype))
    largest = np.maximum.reduce(rows, axis=-1, keepdims=True)
    largest[np.isneginf(largest)] = 0
    rows -= largest
    rows = _rounded(rows, rounding)
    np.exp(rows, out=rows)
    if rounding is None:
        sums = np.add.reduce(rows, axis=-1, keepdims=True)
    else:
        narrow = rows.astype(rounding)
        rows = narrow.astype(rows.dtype)
        terms = narrow if rows.shape[-1] <= MOST_NARROW_TERMS else rows
        sums = np.add.reduce(terms, axis=-1, keepdims=True).astype(rounding).astype(rows.dtype)
    sums[sums == 0] = 1
    rows /= sums
    return _rounded(rows.astype(scores.dtype, copy=False), steps.rounding or rounding)


# --- masks ----------------------------------------------------------------------------------------


def additive_mask(mask: Tensor, total: int, dtype: np.dtype[Any]) -> Tensor:
    """Return a mask as bias: a boolean one is 0 where True and -inf elsewhere.

    A mask that is shorter than ``total`` is filled up with -inf.
    """
    bias = (
        np.where(mask, dtype.type(0), dtype.type(-np.inf))
        if mask.dtype == np.bool_
        else mask.astype(dtype)
    )
    missing = total - bias.shape[-1]
    if missing > 0:
        bias = np.concatenate([bias, np.full((*bias.shape[:-1], missing), -np.inf, dtype)], axis=-1)
    return bias


def window_bias(
    length: int, total: int, offset: Tensor, before: int, after: int, dtype: np.dtype[Any]
) -> Tensor:
    """Return the bias of a window of keys, (batch or 1, 1, length, total).

    Query i, at position p = offset + i, sees keys from p - before to p + after. A bound of -1
    leaves its side open; causal attention is ``after=0``.
    """
    positions, keys = np.arange(length)[:, None] + offset.reshape(-1, 1, 1, 1), np.arange(total)
    allowed = np.ones((len(positions), 1, length, total), np.bool_)
    if before >= 0:
        allowed &= keys >= positions - before
    if after >= 0:
        allowed &= keys <= positions + after
    bias: Tensor = np.where(allowed, dtype.type(0), dtype.type(-np.inf))
    return bias


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return (batch, length, heads · size) as a view (batch, heads, length, size).

    Raises:
        ValueError: the last dimension is no multiple of ``heads``.
    """
    if x.ndim != 3 or heads < 1 or x.shape[2] % heads:
        raise ValueError(
            f"{heads} heads do not divide an input of shape {x.shape}, (batch, length, heads ·"
            " size)"
        )
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def check_heads(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise ValueError if the factors (batch, heads, length, size) do not fit each other."""
    fits = (
        query.ndim == key.ndim == value.ndim == 4
        and query.shape[0] == key.shape[0] == value.shape[0]
        and query.shape[3] == key.shape[3]
        and key.shape[1:3] == value.shape[1:3]
        and key.shape[1] > 0
        and key.shape[3] > 0
        and query.shape[1] % key.shape[1] == 0
    )
    if not fits:
        raise ValueError(
            f"query {query.shape}, key {key.shape} and value {value.shape} do not fit each other"
        )


def copied_output(context: OpKernelContext, index: int, x: Tensor) -> Tensor:
    """Copy ``x`` to an output."""
    out = context.output(index, x.shape, x.dtype)
    np.copyto(out, x)
    return out


def _joined(context: OpKernelContext, index: int | None, past: Tensor, new: Tensor) -> Tensor:
    """Return keys or values behind past ones, in output ``index`` if the node has it."""
    if index is None:
        return np.concatenate([past, new], axis=2)
    shape = (*new.shape[:2], past.shape[2] + new.shape[2], *new.shape[3:])
    return np.concatenate([past, new], axis=2, out=context.output(index, shape, new.dtype))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attributes:
    heads: int
    shared_heads: int
    causal: bool
    before: int
    after: int
    scale: float | None
    softcap: float
    softmax_precision: int | None
    mode: int

    @classmethod
    def of(cls, info: OpKernelInfo) -> _Attributes:
        """Read the attributes of the node, with ONNX's defaults."""
        return cls(
            heads=info.attribute("q_num_heads", 0),
            shared_heads=info.attribute("kv_num_heads", 0),
            causal=bool(info.attribute("is_causal", 0)),
            before=info.attribute("left_window_size", -1),
            after=info.attribute("right_window_size", -1),
            scale=info.attribute("scale"),
            softcap=info.attribute("softcap", 0.0),
            softmax_precision=info.attribute("softmax_precision"),
            mode=info.attribute("qk_matmul_output_mode", 0),
        )

    def steps(self, dtype: np.dtype[Any], size: int) -> ScoreSteps:
        """Return the steps for keys of ``size`` features that are computed in ``dtype``."""
        softmax = (
            dtype
            if self.softmax_precision is None
            else numpy_dtype(ElementType(self.softmax_precision))
        )
        return ScoreSteps(
            scale=1 / math.sqrt(size) if self.scale is None else self.scale,
            softcap=self.softcap,
            rounding=dtype if compute_dtype(dtype) != dtype else None,
            softmax_dtype=softmax,
            captured=self.mode,
        )

    def hidden_count(self, length: int, total: int, batches: int) -> int:
        """Return the number of elements of the bias that hides keys by their position."""
        hides = self.causal or self.before >= 0 or self.after >= 0 or batches > 1
        return batches * length * total if hides else 0

    def bias(
        self,
        length: int,
        total: int,
        past: int,
        mask: Tensor | None,
        valid: Tensor | None,
        dtype: np.dtype[Any],
    ) -> Tensor | None:
        """Return the sum of all that is added to the scores, or None.

        ``valid`` is the number of keys per batch that are not padding.
        """
        parts = [] if mask is None else [additive_mask(mask, total, dtype)]
        offset = np.array([past]) if valid is None else valid.reshape(-1) - length
        after = 0 if self.causal else -1
        if self.causal:
            parts.append(window_bias(length, total, offset, -1, after, dtype))
        if self.before >= 0 or self.after >= 0:
            parts.append(window_bias(length, total, offset, self.before, self.after, dtype))
        if valid is not None:
            is_valid = np.arange(total) < valid.reshape(-1, 1, 1, 1)
            parts.append(np.where(is_valid, dtype.type(0), dtype.type(-np.inf)))
        bias: Tensor | None = None
        for part in parts:
            bias = part if bias is None else bias + part
        return bias


@kernel("Attention", since=(23, 24, 25), types={"T1": FLOATS, "T2": FLOATS})
def attention(info: OpKernelInfo) -> Compute:
    attributes = _Attributes.of(info)
    wants = [bool(name) for name in info.node.outputs] + [False] * 4

    def compute(
        context: OpKernelContext,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        past_key: Tensor | None = None,
        past_value: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Any:
        dtype, flat, past_nbytes = query.dtype, query.ndim == 3, 0
        if flat:
            query = split_heads(query, attributes.heads)
            key, value = (
                split_heads(key, attributes.shared_heads),
                split_heads(value, attributes.shared_heads),
            )
        past = 0
        if past_key is not None and past_value is not None:
            past = past_key.shape[2]
            past_nbytes = (0 if wants[1] else past_key.nbytes + key.nbytes) + (
                0 if wants[2] else past_value.nbytes + value.nbytes
            )
            context.check_allocation(past_nbytes)
            key = _joined(context, 1 if wants[1] else None, past_key, key)
            value = _joined(context, 2 if wants[2] else None, past_value, value)
        check_heads(query, key, value)
        batches, heads, length, size = query.shape
        total = key.shape[2]
        shape = (
            (batches, length, heads * value.shape[3])
            if flat
            else (batches, heads, length, value.shape[3])
        )
        out = context.output(0, shape, dtype)
        steps = attributes.steps(dtype, size)
        capture = context.output(3, (batches, heads, length, total), dtype) if wants[3] else None
        bias_count = max(
            0 if mask is None else mask.size,
            attributes.hidden_count(length, total, 1 if valid is None else batches),
        )
        context.check_allocation(past_nbytes + attention_nbytes(query, key, value, bias_count))
        wide = compute_dtype(dtype)
        bias = attributes.bias(length, total, past, mask, valid, wide)
        if bias is not None and broadcast_shape(bias.shape, (batches, heads, length, total))[
            -2:
        ] != (length, total):
            raise ValueError(
                f"a mask of shape {bias.shape} does not fit scores of"
                f" {(batches, heads, length, total)}"
            )
        result = out if wide == dtype else np.empty(shape, wide)
        target = split_heads(result, heads) if flat else result
        attend(widened(query), widened(key), widened(value), bias, steps, target, capture)
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        is_joined = past_key is not None and past_value is not None
        present_key, present_value = (
            (part if is_joined else copied_output(context, index, part)) if wants[index] else None
            for index, part in enumerate((key, value), 1)
        )
        outputs = (out, present_key, present_value, capture)
        return outputs[: len(info.node.outputs)] if len(info.node.outputs) > 1 else out

    return compute
