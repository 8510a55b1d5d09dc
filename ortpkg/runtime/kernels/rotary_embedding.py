"""RotaryEmbedding: pairs of features rotated by their position's angle (ai.onnx, com.microsoft)."""

from __future__ import annotations

import numpy as np

from ortpkg.runtime.kernels.axes import wrapped_indices
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

MS = "com.microsoft"


def rotate(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    *,
    interleaved: bool,
    out: Tensor,
) -> None:
    """Rotate the first 2 · n features of ``x`` (..., length, heads, size).

    n is the caches' last dimension.

    Args:
        x, out: same shape and dtype, not overlapping.
        cosines, sines: (batch or 1, length, n).
        interleaved: True if pairs are neighbours (0, 1), (2, 3), ...; else feature i pairs with i +
            n.
    """
    n = cosines.shape[-1]
    if 2 * n > x.shape[-1]:
        raise ValueError(f"caches turn {2 * n} features, but a head has {x.shape[-1]}")
    first, second = (
        (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if interleaved else (slice(0, n), slice(n, 2 * n))
    )
    cosine, sine = cosines[:, :, None, :], sines[:, :, None, :]
    out[..., 2 * n :] = x[..., 2 * n :]
    for target, one, other, combine in (
        (first, cosine, sine, np.subtract),
        (second, sine, cosine, np.add),
    ):
        part = out[..., target]
        np.multiply(x[..., first], one, out=part)
        combine(part, x[..., second] * other, out=part)


def _cache_rows(context: OpKernelContext, cache: Tensor, positions: Tensor | None) -> Tensor:
    """Return the cache's rows at ``positions``, or its own row per token.

    The shape is (batch or 1, length, n).
    """
    if positions is None:
        return widened(cache if cache.ndim == 3 else cache[None])
    return widened(cache[wrapped_indices(positions, cache.shape[0], context.check_allocation)])


def _rows_nbytes(cache: Tensor, positions: Tensor | None) -> int:
    """Return the bytes that :func:`_cache_rows` allocates."""
    if positions is None:
        return widened_nbytes(cache)
    count = positions.size * int(cache.shape[-1])
    return count * (cache.itemsize + compute_dtype(cache.dtype).itemsize)


def _compute(info: OpKernelInfo) -> Compute:
    heads = info.attribute("num_heads", 0)
    interleaved = bool(info.attribute("interleaved", 0))
    rotary_dim = info.attribute("rotary_embedding_dim", 0)

    def compute(
        context: OpKernelContext,
        x: Tensor,
        cosines: Tensor,
        sines: Tensor,
        positions: Tensor | None = None,
    ) -> Tensor:
        if rotary_dim and cosines.shape[-1] * 2 != rotary_dim:
            raise ValueError(
                f"caches of {cosines.shape[-1]} columns do not turn {rotary_dim} features"
            )
        out = context.output(0, x.shape, x.dtype)
        halves_nbytes = x.size * compute_dtype(x.dtype).itemsize // 2
        context.check_allocation(
            widened_nbytes(x, out)
            + halves_nbytes
            + _rows_nbytes(cosines, positions)
            + _rows_nbytes(sines, positions)
        )
        wide = widened(x)
        result = out if wide is x else np.empty(x.shape, wide.dtype)
        by_token, target = _by_token(wide, heads, cosines), _by_token(result, heads, cosines)
        cosine, sine = (_cache_rows(context, cache, positions) for cache in (cosines, sines))
        if cosine.shape[1] != by_token.shape[1] or cosine.shape[0] not in (1, by_token.shape[0]):
            raise ValueError(
                f"caches with rows {cosine.shape[:2]} do not fit an input of shape {x.shape}"
            )
        rotate(by_token, cosine, sine, interleaved=interleaved, out=target)
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        return out

    return compute


def _by_token(x: Tensor, heads: int, cosines: Tensor) -> Tensor:
    """Return a view (batch, length, heads, size) of a layout with heads second, or in the last."""
    if x.ndim == 4:
        return x.transpose(0, 2, 1, 3)
    size = x.shape[-1] // heads if heads else 2 * cosines.shape[-1]
    if x.ndim != 3 or size == 0 or x.shape[2] % size:
        raise ValueError(f"an input of shape {x.shape} does not divide into {heads} heads")
    return x.reshape(x.shape[0], x.shape[1], x.shape[2] // size, size)


@kernel("RotaryEmbedding", since=(23,), types={"T": FLOATS})
def rotary_embedding(info: OpKernelInfo) -> Compute:
    return _compute(info)


@kernel("RotaryEmbedding", since=(1,), domain=MS, types={"T": FLOATS})
def microsoft_rotary_embedding(info: OpKernelInfo) -> Compute:
    """Rotation whose second input has positions: one per token, or one for the batch."""
    compute_by_position = _compute(info)

    def compute(
        context: OpKernelContext, x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor
    ) -> Tensor:
        if positions.size == 1:
            length = x.shape[2] if x.ndim == 4 else x.shape[1]
            positions = int(positions.reshape(()).item()) + np.arange(length)[None]
        return compute_by_position(context, x, cosines, sines, positions)  # type: ignore[no-any-return]

    return compute
