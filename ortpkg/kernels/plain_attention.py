"""softmax(query · keyᵀ · scale + bias) · value in float32, float64: most of a transformer's time.

A few heads at a time are multiplied and normalized while their scores are in cache. The powers are
taken of the scores as they are where the lengths of queries and keys prove that they cannot
overflow, which saves finding and subtracting each row's largest score. The rows are divided by
their sums after the second product, where they are shorter.
"""

from __future__ import annotations

import numpy as np

from ortpkg.kernels.blas_threads import matmul
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.kernels.polling import poll_run
from ortpkg.kernels.scratch import Slot, take_scratch
from ortpkg.kernels.softmax import row_sums

#: Bytes of scores computed at a time by one thread.
_SCORES_NBYTES = 1 << 19
#: Scores of at most this size have powers and sums that are normal numbers, far from the ends of
#: float32.
_LARGEST_SAFE_SCORE = 60.0
_LEAST_SAFE_SUM = 1e-30


def attend_plainly(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, out: Tensor
) -> None:
    """The operands of ``attention.attend``, with a key head for every query head."""
    batches, heads, length = query.shape[:3]
    total = key.shape[2]
    of_head = length * (total + query.shape[3])
    per_call = max(_SCORES_NBYTES // max(of_head * query.itemsize, 1), 1)
    highest_bias = 0.0 if bias is None else float(np.max(bias, initial=0.0))

    for batch in range(batches):
        for head in range(0, heads, per_call):
            poll_run()
            own = slice(head, head + per_call)
            own_bias = None if bias is None else _part(bias, batch, own)
            factors = (query[batch, own], key[batch, own], value[batch, own])
            _attend_heads(*factors, own_bias, scale, highest_bias, out[batch, own])


def _part(bias: Tensor, batch: int, heads: slice) -> Tensor:
    return bias[batch if bias.shape[0] > 1 else 0, heads if bias.shape[1] > 1 else slice(0, 1)]


def _attend_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    scale: float,
    highest_bias: float,
    out: Tensor,
) -> None:
    """(heads, length, size) and (heads, total, size) to (heads, length, value size)."""
    dtype = query.dtype
    scaled, scores = take_scratch(
        Slot.TASK, (query.shape, dtype), ((*query.shape[:2], key.shape[1]), dtype)
    )
    np.multiply(query, dtype.type(scale), out=scaled)
    if (
        _largest_length(scaled) * _largest_length(key) + highest_bias < _LARGEST_SAFE_SCORE
    ):  # false for NaN
        matmul(scaled, key.swapaxes(-1, -2), out=scores)
        if bias is not None:
            scores += bias
        np.exp(scores, out=scores)
        sums = row_sums(scores)
        if sums.min() > _LEAST_SAFE_SUM:
            _weigh(scores, value, sums, scaled, out)
            return
    matmul(scaled, key.swapaxes(-1, -2), out=scores)
    if bias is not None:
        scores += bias
    largest = np.maximum.reduce(scores, axis=-1, keepdims=True)
    largest[np.isneginf(largest)] = 0  # a row that attends to nothing is zero
    scores -= largest
    np.exp(scores, out=scores)
    sums = row_sums(scores)
    sums[sums == 0] = 1
    _weigh(scores, value, sums, scaled, out)


def _weigh(powers: Tensor, value: Tensor, sums: Tensor, scratch: Tensor, out: Tensor) -> None:
    """``out = powers · value / sums``.

    The product goes to ``scratch`` first where it has its shape, in one piece.
    """
    product = scratch if scratch.shape == out.shape else out
    matmul(powers, value, out=product)
    np.divide(product, sums, out=out)


def _largest_length(vectors: Tensor) -> float:
    """Of the vectors along the last axis, by the product with themselves."""
    return float(np.sqrt(np.vecdot(vectors, vectors).max()))
