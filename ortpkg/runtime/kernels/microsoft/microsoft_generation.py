"""com.microsoft: NGramRepeatBlock, which keeps generated text from repeating itself."""

from __future__ import annotations

import numpy as np

from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_DOMAIN = "com.microsoft"


@kernel("NGramRepeatBlock", since=(1,), domain=_DOMAIN, in_place=((1, 0),))
def ngram_repeat_block(info: OpKernelInfo) -> Compute:
    """Scores with -inf for each token that would complete an n-gram of ``input_ids`` again."""
    size = int(info.attribute("ngram_size", 0))
    if size < 1:
        raise ValueError(f"ngram_size is 1 or more, not {size}")

    def compute(context: OpKernelContext, ids: Tensor, scores: Tensor) -> Tensor:
        if ids.ndim != 2 or scores.ndim != 2 or ids.shape[0] != scores.shape[0]:
            raise ValueError(
                f"input_ids (batch, length) of shape {ids.shape} do not fit scores (batch,"
                f" vocabulary) of shape {scores.shape}"
            )
        out = context.output(0, scores.shape, scores.dtype)
        np.copyto(out, scores)
        count = ids.shape[1] - size + 1
        if count <= 0 or not ids.shape[0]:
            return out
        # The flags of repeats and the comparison they come from, then the positions and tokens.
        context.check_allocation(ids.shape[0] * count * (2 + 4 * ids.itemsize))
        repeats = np.ones((ids.shape[0], count), np.bool_)
        for offset in range(
            size - 1
        ):  # the last size - 1 tokens, held against those from each position on
            context.check_cancelled()
            repeats &= ids[:, offset : offset + count] == ids[:, count + offset, None]
        rows, starts = np.nonzero(repeats)
        tokens = ids[rows, starts + size - 1]
        wrong = (tokens < 0) | (tokens >= scores.shape[1])
        if wrong.any():
            raise ValueError(
                f"token {tokens[wrong][0]} is none of the vocabulary of {scores.shape[1]}"
            )
        out[rows, tokens] = -np.inf
        return out

    return compute
