"""com.microsoft: layer normalization fused with sums: SkipLayerNormalization, EmbedLayer.

Source: onnxruntime's contrib operators. Panels of rows are summed, normalized and scaled while they
are in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortpkg.runtime.kernels.axes import broadcast_shape, element_count, wrapped_indices
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.normalization import (
    normalize_rows,
    normalize_rows_by_rms,
    over_row_panels,
)
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

MS = "com.microsoft"
_EPSILON = 1e-12
_INT32 = np.dtype(np.int32)


def _check_row(parameter: Tensor | None, columns: int, what: str) -> Tensor | None:
    if parameter is not None and parameter.shape != (columns,):
        raise ValueError(
            f"{what} of shape {parameter.shape} does not fit rows of {columns} features"
        )
    return None if parameter is None else widened(parameter)


def _skip_normalization(info: OpKernelInfo, *, by_rms: bool) -> Compute:
    """normalize(input + skip + bias) · gamma + beta.

    Outputs: result, mean, inverse deviation, the sum.
    """
    epsilon = info.attribute("epsilon", _EPSILON)
    wants = [bool(name) for name in info.node.outputs] + [False] * 4

    def run(
        context: OpKernelContext,
        x: Tensor,
        skip: Tensor,
        gamma: Tensor,
        beta: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Any:
        if broadcast_shape(skip.shape, x.shape) != x.shape:
            raise ValueError(
                f"a skip of shape {skip.shape} does not broadcast to the input's shape {x.shape}"
            )
        columns = x.shape[-1]
        scale, shift = _check_row(gamma, columns, "gamma"), _check_row(beta, columns, "beta")
        row_bias = _check_row(bias, columns, "bias")
        out = context.output(0, x.shape, x.dtype)
        sums = context.output(3, x.shape, x.dtype) if wants[3] else None
        shape = (element_count(x.shape[:-1]), columns)
        itemsize = compute_dtype(x.dtype).itemsize
        spread_nbytes = 0 if skip.shape == x.shape else x.size * itemsize
        context.check_allocation(
            widened_nbytes(x, skip, out) + spread_nbytes + sum(wants[1:3]) * shape[0] * itemsize
        )
        wide, wide_skip = widened(x), np.broadcast_to(widened(skip), x.shape)
        matrix, skips = wide.reshape(shape), wide_skip.reshape(shape)
        mean, inverse = (
            np.zeros((shape[0], 1), wide.dtype) if wanted else None for wanted in wants[1:3]
        )
        result = out if out.dtype == wide.dtype else np.empty(x.shape, wide.dtype)
        results = result.reshape(shape)

        def normalize(rows: slice) -> None:
            panel = np.add(matrix[rows], skips[rows], out=results[rows])
            if row_bias is not None:
                panel += row_bias
            if sums is not None:
                sums.reshape(shape)[rows] = panel
            panel_statistics: tuple[Tensor | None, Tensor]
            if by_rms:
                panel_statistics = None, normalize_rows_by_rms(panel, panel, epsilon)
            else:
                panel_statistics = normalize_rows(panel, panel, epsilon)
            for target, statistic in zip((mean, inverse), panel_statistics, strict=True):
                if target is not None and statistic is not None:
                    target[rows] = statistic
            panel *= scale
            if shift is not None:
                panel += shift

        over_row_panels(normalize, *shape)
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        statistics = (
            None if part is None else part.reshape(*x.shape[:-1], 1).astype(np.float32, copy=False)
            for part in (mean, inverse)
        )
        outputs = (out, *statistics, sums)
        return outputs[: len(info.node.outputs)] if len(info.node.outputs) > 1 else out

    return run


@kernel("SkipLayerNormalization", since=(1,), domain=MS, types={"T": FLOATS})
def skip_layer_normalization(info: OpKernelInfo) -> Compute:
    return _skip_normalization(info, by_rms=False)


@kernel("SkipSimplifiedLayerNormalization", since=(1,), domain=MS, types={"T": FLOATS})
def skip_simplified_layer_normalization(info: OpKernelInfo) -> Compute:
    """Skip normalization by root mean square; it has no beta."""
    run = _skip_normalization(info, by_rms=True)
    return lambda context, x, skip, gamma, bias=None: run(context, x, skip, gamma, None, bias)


@kernel("EmbedLayerNormalization", since=(1,), domain=MS, types={"T": FLOATS})
def embed_layer_normalization(info: OpKernelInfo) -> Compute:
    """Sum of word, position and segment embeddings, normalized.

    The second output is the count of tokens per row, from the mask.
    """
    epsilon = info.attribute("epsilon", _EPSILON)
    wanted = len(info.node.outputs)

    def compute(
        context: OpKernelContext,
        ids: Tensor,
        segments: Tensor | None,
        words: Tensor,
        positions: Tensor,
        segment_table: Tensor | None,
        gamma: Tensor,
        beta: Tensor,
        mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Any:
        if ids.ndim != 2 or words.ndim != 2:
            raise ValueError(
                f"ids of shape {ids.shape} and words of shape {words.shape} are not matrices"
            )
        batch, length = ids.shape
        columns = words.shape[1]
        out = context.output(0, (batch, length, columns), words.dtype)
        position_indices = np.arange(length)[None] if position_ids is None else position_ids
        # The sum and the result; the rows of one table, as they are and widened.
        wide_nbytes = out.size * compute_dtype(words.dtype).itemsize
        context.check_allocation(2 * wide_nbytes + out.nbytes + widened_nbytes(out))

        def rows_of(table: Tensor, indices: Tensor) -> Tensor:
            return widened(table[wrapped_indices(indices, len(table), context.check_allocation)])

        total = rows_of(words, ids)
        total += rows_of(positions, position_indices)
        if segments is not None and segment_table is not None:
            total += rows_of(segment_table, segments)
        rows = total.reshape(-1, columns)
        result = np.empty(rows.shape, compute_dtype(words.dtype))
        normalize_rows(rows, result, epsilon)
        result *= _check_row(gamma, columns, "gamma")
        result += _check_row(beta, columns, "beta")
        np.copyto(out.reshape(result.shape), result, casting="unsafe")
        if wanted == 1:
            return out
        counts = np.zeros(batch, _INT32) if mask is None else mask.sum(axis=1, dtype=np.int32)
        return (out, counts, total.astype(words.dtype))[:wanted]

    return compute
