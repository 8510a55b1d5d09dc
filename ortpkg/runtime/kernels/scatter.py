"""Operators that write at positions: Scatter, ScatterElements, ScatterND, TensorScatter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.axes import normalized_axis, wrapped_indices
from ortpkg.runtime.kernels.element_types import compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.tensor_index import (
    check_element_indices,
    element_index,
    element_index_nbytes,
    nd_index,
)

_INT64 = np.dtype(np.int64)
_REDUCTIONS: Mapping[str, Callable[..., Any] | None] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _reduction(info: OpKernelInfo) -> Callable[..., Any] | None:
    name = str(info.attribute("reduction", "none"))
    if name not in _REDUCTIONS:
        raise ValueError(f"there is no reduction {quoted(name)}: {', '.join(_REDUCTIONS)} exist")
    return _REDUCTIONS[name]


def _scatter(
    context: OpKernelContext,
    data: Tensor,
    index: tuple[Tensor, ...],
    updates: Tensor,
    out: Tensor,
    ufunc: Callable[..., Any] | None,
) -> Tensor:
    """Return ``data`` in ``out`` with ``updates`` at ``index``: assigned, or combined one by one.

    ``out`` was allocated before ``index``, whose memory therefore was checked in addition to it.
    """
    if ufunc is None or not updates.size:
        np.copyto(out, data)
        if updates.size:
            out[index] = updates
        return out
    index_nbytes = sum(indices.nbytes for indices in index)
    combined_nbytes = data.size * compute_dtype(data.dtype).itemsize
    context.check_allocation(index_nbytes + combined_nbytes + widened_nbytes(updates))
    combined = data.astype(compute_dtype(data.dtype))
    ufunc.at(combined, index, widened(updates))  # type: ignore[attr-defined]
    np.copyto(out, combined, casting="unsafe")
    return out


@kernel("ScatterElements", since=(11, 13, 16, 18), in_place=((0, 0),))
@kernel("Scatter", since=(9, 11), in_place=((0, 0),))
def scatter_elements(info: OpKernelInfo) -> Compute:
    axis, ufunc = info.attribute("axis", 0), _reduction(info)

    def compute(context: OpKernelContext, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        along = normalized_axis(axis, data.ndim)
        check_element_indices(data.shape, indices.shape, along)
        if updates.shape != indices.shape:
            raise ValueError(
                f"updates of shape {updates.shape} and indices of shape {indices.shape} must agree"
            )
        out = context.output(0, data.shape, data.dtype)
        positions = wrapped_indices(indices, data.shape[along], context.check_allocation)
        context.check_allocation(element_index_nbytes(positions.shape))
        index = element_index(positions, along) if updates.size else ()
        return _scatter(context, data, index, updates, out, ufunc)

    return compute


@kernel("ScatterND", since=(11, 13, 16, 18), in_place=((0, 0),))
def scatter_nd(info: OpKernelInfo) -> Compute:
    ufunc = _reduction(info)

    def compute(context: OpKernelContext, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        out = context.output(0, data.shape, data.dtype)
        index = nd_index(indices, data.shape, context.check_allocation)
        wanted = (*indices.shape[:-1], *data.shape[indices.shape[-1] :])
        if updates.shape != wanted:
            raise ValueError(
                f"updates have shape {updates.shape}; indices and data ask for {wanted}"
            )
        return _scatter(context, data, index, updates, out, ufunc)

    return compute


@kernel("TensorScatter", since=(24,), in_place=((0, 0),))
def tensor_scatter(info: OpKernelInfo) -> Compute:
    """Cache with ``update``, per sample from its write index on.

    A circular cache continues at its beginning; in others, the update has to fit.
    """
    axis, circular = info.attribute("axis", -2), info.attribute("mode", "linear") == "circular"

    def compute(
        context: OpKernelContext, past: Tensor, update: Tensor, write_indices: Tensor | None = None
    ) -> Tensor:
        along = normalized_axis(axis, past.ndim)
        if (
            along == 0
            or (*update.shape[:along], past.shape[along], *update.shape[along + 1 :]) != past.shape
        ):
            raise ValueError(
                f"an update of shape {update.shape} does not fit a cache of {past.shape} at axis"
                f" {along}"
            )
        out = context.output(0, past.shape, past.dtype)
        if not update.size:
            np.copyto(out, past)
            return out
        context.check_allocation(2 * past.shape[0] * update.shape[along] * _INT64.itemsize)
        starts = np.zeros(past.shape[0], np.int64) if write_indices is None else write_indices
        positions = starts[:, None] + np.arange(update.shape[along])
        positions = (
            positions % past.shape[along]
            if circular
            else wrapped_indices(positions, past.shape[along], context.check_allocation)
        )
        np.copyto(out, past)
        for cache, fresh, rows in zip(out, update, positions, strict=True):
            context.check_cancelled()
            cache[(slice(None),) * (along - 1) + (rows,)] = fresh
        return out

    return compute
