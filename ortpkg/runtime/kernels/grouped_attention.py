"""Causal attention of query heads that share keys and values of a cache.

Queries are processed in stretches of heads and rows: keys behind a stretch's last row and before
its window are not even multiplied. Narrow floats compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.op_kernel import Tensor

#: Most bytes of scores that are computed at a time.
_SCORES_NBYTES = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedScores:
    """Steps from products to weights.

    Attributes:
        scale: factor of the scores.
        softcap: scores become softcap · tanh(scores / softcap); 0 leaves them.
        is_causal: True if a query sees no key behind its own position.
        window: number of keys up to its own position that a query sees; -1 for all.
        sinks: (heads,), scores that only join each row's denominator; None for none.
        captures_weights: True if ``capture`` gets the weights, else it gets the scores.
    """

    scale: float
    softcap: float = 0.0
    is_causal: bool = True
    window: int = -1
    sinks: Tensor | None = None
    captures_weights: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSequence:
    """One sequence of a batch.

    Attributes:
        query: (heads, length, size).
        key, value: (shared heads, total, size), the filled part of the cache; ``heads`` is a
            multiple of ``shared heads``.
        first: position of the first query in the cache.
        bias: added to the scores, (heads or 1, length, total or more), or None.
        out: (heads, length, size), any strides and float type.
        capture: receives an intermediate, (heads, length, total or more), for keys that are seen;
            or None.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    first: int
    bias: Tensor | None
    out: Tensor
    capture: Tensor | None


def _stretch(shared: int, group: int, length: int, total: int, itemsize: int) -> tuple[int, int]:
    """Return the number of shared heads, and of rows of their queries, of one stretch."""
    rows = min(max(_SCORES_NBYTES // max(group * total * itemsize, 1), 1), max(length, 1))
    return min(max(_SCORES_NBYTES // max(group * rows * total * itemsize, 1), 1), shared), rows


def stretch_nbytes(
    shared: int, group: int, length: int, total: int, size: int, itemsize: int
) -> int:
    """Return the most bytes that :func:`attend_grouped` takes for ``shared`` heads."""
    heads, rows = _stretch(shared, group, length, total, itemsize)
    scores, vectors = heads * group * rows * total, 2 * heads * size * (group * rows + total)
    return (2 * scores + vectors) * itemsize + 2 * rows * total


def attend_grouped(
    sequences: list[CachedSequence],
    scores: GroupedScores,
    dtype: np.dtype[Any],
    check_cancelled: Callable[[], None],
) -> None:
    """Compute ``softmax(query · keyᵀ · scale + bias) · value`` of each sequence in ``dtype``."""
    stretches = []
    for sequence in sequences:
        heads, length = sequence.query.shape[:2]
        shared, total = sequence.key.shape[:2]
        together, step = _stretch(shared, heads // shared, length, total, dtype.itemsize)
        stretches += [
            (
                sequence,
                slice(head, min(head + together, shared)),
                slice(start, min(start + step, length)),
            )
            for head in range(0, shared, together)
            for start in range(0, length, step)
        ]

    for stretch in stretches:
        check_cancelled()
        _attend_stretch(*stretch, scores, dtype)


def _attend_stretch(
    sequence: CachedSequence,
    shared: slice,
    rows: slice,
    scores: GroupedScores,
    dtype: np.dtype[Any],
) -> None:
    """Attend for the heads of some shared heads and some rows of queries."""
    group = sequence.query.shape[0] // sequence.key.shape[0]
    heads = slice(shared.start * group, shared.stop * group)
    keys = _seen_keys(sequence, rows, scores)
    apart, count, size = shared.stop - shared.start, keys.stop - keys.start, sequence.query.shape[2]
    together = (heads.stop - heads.start, rows.stop - rows.start)
    query = np.multiply(
        sequence.query[heads, rows],
        dtype.type(scores.scale),
        dtype=dtype,
        casting="unsafe",
        order="C",
    )
    key = sequence.key[shared, keys].astype(dtype, copy=False)
    value = sequence.value[shared, keys].astype(dtype, copy=False)
    weights = matmul(query.reshape(apart, -1, size), key.swapaxes(1, 2)).reshape(*together, count)
    if scores.softcap > 0:
        weights /= dtype.type(scores.softcap)
        np.tanh(weights, out=weights)
        weights *= dtype.type(scores.softcap)
    if sequence.bias is not None:
        weights += sequence.bias[heads if sequence.bias.shape[0] > 1 else slice(0, 1), rows, keys]
    capture = None if sequence.capture is None else sequence.capture[heads, rows, keys]
    raw = capture if not scores.captures_weights else None
    if raw is not None:
        np.copyto(raw, weights, casting="unsafe")
    if scores.is_causal:
        positions = np.arange(rows.start, rows.stop)[:, None] + sequence.first
        _hide(weights, raw, positions, keys, scores.window)
    sums = _powers(
        weights, None if scores.sinks is None else scores.sinks[heads, None, None].astype(dtype)
    )
    if capture is not None and scores.captures_weights:
        np.copyto(capture, weights / sums, casting="unsafe")
    product = matmul(weights.reshape(apart, -1, count), value).reshape(*together, size)
    np.divide(product, sums, out=sequence.out[heads, rows], casting="unsafe")


def _seen_keys(sequence: CachedSequence, rows: slice, scores: GroupedScores) -> slice:
    """Return the range of keys that at least one of the rows sees: one or more."""
    total = sequence.key.shape[1]
    if not scores.is_causal:
        return slice(0, total)
    stop = min(sequence.first + rows.stop, total)
    start = 0 if scores.window < 0 else max(sequence.first + rows.start + 1 - scores.window, 0)
    return slice(min(start, stop - 1), stop)


def _hide(scores: Tensor, raw: Tensor | None, positions: Tensor, keys: slice, window: int) -> None:
    """Set scores to -inf (``raw`` ones to 0) behind each query's position and before its window."""
    key_positions = np.arange(keys.start, keys.stop)
    bounds: list[tuple[np.ufunc, Tensor]] = []
    if positions[0, 0] < keys.stop - 1:
        bounds.append((np.greater, positions))
    if window >= 0 and positions[-1, 0] - window >= keys.start:
        bounds.append((np.less_equal, positions - window))
    for is_beyond, bound in bounds:
        hidden = is_beyond(key_positions, bound)
        np.copyto(scores, -np.inf, where=hidden)
        if raw is not None:
            np.copyto(raw, 0, where=hidden)


def _powers(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Compute exp(scores - the row's largest) in place, and return the rows' sums.

    A row that sees nothing has powers of zero.
    """
    largest = np.maximum.reduce(scores, axis=-1, keepdims=True)
    if sinks is not None:
        np.maximum(largest, sinks, out=largest)
    largest[np.isneginf(largest)] = 0
    scores -= largest
    np.exp(scores, out=scores)
    sums: Tensor = np.add.reduce(scores, axis=-1, keepdims=True)
    if sinks is not None:
        sums += np.exp(sinks - largest)
    sums[sums == 0] = 1
    return sums
