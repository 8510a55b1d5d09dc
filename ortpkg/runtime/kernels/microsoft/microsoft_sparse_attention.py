"""com.microsoft: SparseAttention, where a block of queries sees only some blocks of keys.

Source: ONNX Runtime, docs/ContribOperators.md, and its CPU kernel where that says nothing. Blocks
are rows and columns of a sparse matrix (CSR) per layout; heads take the layouts in turns. That
kernel mixes up the weights of sequences of different lengths in one batch; here each sequence has
the result that it has alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype
from ortpkg.runtime.kernels.grouped_attention import (
    CachedSequence,
    GroupedScores,
    attend_grouped,
    stretch_nbytes,
)
from ortpkg.runtime.kernels.grouped_inputs import (
    HeadAttributes,
    Lengths,
    angles,
    fill_cache,
    past_length,
    split_heads,
)
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.rotary_embedding import rotate

_DOMAIN = "com.microsoft"


@dataclass(frozen=True, slots=True)
class _BlockMask:
    """Mask of the blocks of keys that each block of queries sees.

    Attributes:
        sees: (layouts, blocks, blocks) of bool.
        size: tokens of a block.
    """

    sees: Tensor
    size: int

    @classmethod
    def of(
        cls, context: OpKernelContext, rows: Tensor, columns: Tensor, size: int, heads: int
    ) -> _BlockMask:
        """Make a mask from the bounds of the rows and from the columns.

        ``rows`` is (layouts, blocks + 1), ``columns`` is (layouts, entries).
        """
        if rows.ndim != 2 or rows.shape[1] < 2 or not rows.shape[0] or heads % rows.shape[0]:
            raise ValueError(
                f"block_row_indices has the shape (layouts, blocks + 1), {heads} heads a multiple"
                f" of the layouts, not {rows.shape}"
            )
        layouts, blocks = rows.shape[0], rows.shape[1] - 1
        if columns.ndim != 2 or columns.shape[0] != layouts or columns.shape[1] > blocks * blocks:
            raise ValueError(
                f"block_col_indices has the shape ({layouts}, entries), at most {blocks * blocks}"
                f" entries, not {columns.shape}"
            )
        context.check_allocation(layouts * blocks * blocks)
        sees = np.zeros((layouts, blocks, blocks), np.bool_)
        for layout in range(layouts):
            counts = np.diff(rows[layout])
            first, last = int(rows[layout, 0]), int(rows[layout, -1])
            if first < 0 or last > columns.shape[1] or (counts < 0).any():
                raise ValueError(
                    f"block_row_indices of layout {layout} do not rise from 0 to {columns.shape[1]}"
                )
            used = columns[layout, first:last]
            if used.size and (used.min() < 0 or used.max() >= blocks):
                raise ValueError(
                    f"block_col_indices of layout {layout} name a block that is none of {blocks}"
                )
            sees[layout, np.repeat(np.arange(blocks), counts), used] = True
        return cls(sees, size)

    @property
    def positions(self) -> int:
        """Number of positions that the blocks cover."""
        blocks: int = self.sees.shape[1]
        return blocks * self.size

    def bias(
        self, layout: int, first: int, count: int, total: int, dtype: np.dtype[Any]
    ) -> Tensor | None:
        """Return (1, count, total): the least number for keys that a query does not see.

        The first query is at position ``first``. None if all keys are seen.
        """
        queries = np.minimum(np.arange(first, first + count) // self.size, self.sees.shape[1] - 1)
        blocks = -(-total // self.size)
        is_seen = self.sees[layout, :, :blocks][queries]
        if (is_seen | (np.arange(blocks) > queries[:, None])).all():
            return None
        hidden = np.where(is_seen, dtype.type(0), np.finfo(dtype).min)
        return np.repeat(hidden, self.size, axis=1)[None, :, :total]


@kernel(
    "SparseAttention", since=(1,), domain=_DOMAIN, types={"T": FLOATS}, in_place=((3, 1), (4, 2))
)
def sparse_attention(info: OpKernelInfo) -> Compute:
    """Attention, and present caches: the past ones with the new part; the rest behind it stays."""
    attributes = HeadAttributes.of(info)
    heads, shared = attributes.count, attributes.shared
    block_size = int(info.attribute("sparse_block_size", 0))
    if block_size < 1:
        raise ValueError(f"sparse_block_size is 1 or more, not {block_size}")

    def compute(
        context: OpKernelContext,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        past_key: Tensor,
        past_value: Tensor,
        rows: Tensor,
        columns: Tensor,
        total_length: Tensor,
        key_lengths: Tensor,
        cosines: Tensor | None = None,
        sines: Tensor | None = None,
    ) -> Any:
        dtype = query.dtype
        q, k, v = split_heads(query, key, value, heads, shared)
        batch, new, _, size = q.shape
        past = past_length(past_key, past_value, k)
        lengths = Lengths.of(batch, new, past, key_lengths.astype(np.int64) - 1, total_length)
        if lengths.total > past:
            raise ValueError(
                f"caches of {past} places are too short for total_sequence_length={lengths.total}"
            )
        mask = _BlockMask.of(context, rows, columns, block_size, heads)
        if mask.positions < lengths.total:
            raise ValueError(
                f"a mask of {mask.positions} positions is too short for {lengths.total}"
            )
        wide = compute_dtype(dtype)
        most_nbytes = stretch_nbytes(
            shared, heads // shared, new, lengths.total, size, wide.itemsize
        )
        bias_nbytes = 2 * new * (lengths.total + block_size) * wide.itemsize
        context.check_allocation(4 * q.size * wide.itemsize + bias_nbytes + most_nbytes)
        out = context.output(0, (batch, new, heads * size), dtype)
        keys, values = (context.output(slot, past_key.shape, dtype) for slot in (1, 2))
        if attributes.do_rotary:
            angle = angles(context, cosines, sines, None, lengths, k)
            q, k = _turned(q, k, *angle, interleaved=attributes.interleaved)
        for cache, before, added in ((keys, past_key, k), (values, past_value, v)):
            if not np.may_share_memory(cache, before):
                np.copyto(cache, before)
            fill_cache(cache, cache, added, lengths)
        scores = GroupedScores(scale=attributes.scale_of(size))
        for layout in range(mask.sees.shape[0]):
            sequences = _sequences(
                q, keys, values, lengths, mask, layout, out.reshape(q.shape), wide
            )
            attend_grouped(sequences, scores, wide, context.check_cancelled)
        return out, keys, values

    return compute


def _turned(
    q: Tensor, k: Tensor, cosine: Tensor, sine: Tensor, *, interleaved: bool
) -> tuple[Tensor, Tensor]:
    """Return queries and keys rotated by their positions' angles, in the type of the angles."""
    rotated = np.empty(q.shape, cosine.dtype), np.empty(k.shape, cosine.dtype)
    for x, out in zip((q, k), rotated, strict=True):
        rotate(x, cosine, sine, interleaved=interleaved, out=out)
    return rotated


def _sequences(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Lengths,
    mask: _BlockMask,
    layout: int,
    out: Tensor,
    dtype: np.dtype[Any],
) -> list[CachedSequence]:
    """Return the sequences to which the heads of a layout attend, as views.

    ``q`` and ``out`` are (batch, length, heads, size).
    """
    heads, shared, layouts = q.shape[2], keys.shape[1], mask.sees.shape[0]
    group = heads // shared
    if group % layouts == 0:
        parts = [(slice(layout, None, layouts), slice(0, shared))]
    else:
        parts = [
            (slice(head, head + 1), slice(head // group, head // group + 1))
            for head in range(layout, heads, layouts)
        ]
    sequences = []
    for index, (start, stop) in enumerate(zip(lengths.starts, lengths.stops, strict=True)):
        bias = mask.bias(layout, start, lengths.new, stop, dtype)
        sequences += [
            CachedSequence(
                query=q[index].swapaxes(0, 1)[head_slice],
                key=keys[index, shared_slice, :stop],
                value=values[index, shared_slice, :stop],
                first=start,
                bias=bias,
                out=out[index].swapaxes(0, 1)[head_slice],
                capture=None,
            )
            for head_slice, shared_slice in parts
        ]
    return sequences
