"""Operators of ai.onnx.ml on maps and categories; a sequence of maps is a list of dicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortpkg.errors import InvalidGraphError
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_DOMAIN = "ai.onnx.ml"
_CAST_TARGETS: dict[str, np.dtype[Any]] = {
    "TO_FLOAT": np.dtype(np.float32),
    "TO_INT64": np.dtype(np.int64),
    "TO_STRING": np.dtype(object),
}


@kernel("ZipMap", since=(1,), domain=_DOMAIN, uses_output_buffer=False)
def zip_map(info: OpKernelInfo) -> Compute:
    """Rows of scores as maps from class label to score."""
    labels = info.attribute("classlabels_int64s") or info.attribute("classlabels_strings") or ()

    def compute(_context: OpKernelContext, x: Tensor) -> list[dict[Any, float]]:
        rows = x[None] if x.ndim == 1 else x
        if rows.ndim != 2 or rows.shape[1] != len(labels):
            raise ValueError(f"{len(labels)} class labels do not name the columns of scores of shape {x.shape}")
        return [dict(zip(labels, row, strict=True)) for row in rows.tolist()]

    return compute


@kernel("CastMap", since=(1,), domain=_DOMAIN)
def cast_map(info: OpKernelInfo) -> Compute:
    """A map from int64 as a row: its values by rising key, or (SPARSE) each at its key's place, zeros elsewhere."""
    dtype = _CAST_TARGETS.get(info.attribute("cast_to", "TO_FLOAT"))
    if dtype is None:
        raise InvalidGraphError(f"{info.node}: cast_to is one of {', '.join(_CAST_TARGETS)}", node_name=info.node.name)
    is_sparse = info.attribute("map_form", "DENSE") == "SPARSE"
    width = int(info.attribute("max_map", 1))
    zero = "0" if dtype == np.dtype(object) else 0

    def compute(context: OpKernelContext, entries: dict[int, Any]) -> Tensor:
        keys = sorted(entries)
        if is_sparse and keys and not 0 <= keys[0] <= keys[-1] < width:
            raise ValueError(f"keys of a sparse map lie in [0, {width}), but these reach from {keys[0]} to {keys[-1]}")
        out = context.output(0, (1, width if is_sparse else len(keys)), dtype)
        out[...] = zero
        for position, key in enumerate(keys):
            value = str(entries[key]) if dtype == np.dtype(object) else dtype.type(entries[key])
            out[0, key if is_sparse else position] = value
        return out

    return compute


@kernel("CategoryMapper", since=(1,), domain=_DOMAIN)
def category_mapper(info: OpKernelInfo) -> Compute:
    """Strings to integers or back, by two lists of equal length; what is not listed gets the default."""
    numbers, texts = info.attribute("cats_int64s") or (), info.attribute("cats_strings") or ()
    if len(numbers) != len(texts):
        raise InvalidGraphError(
            f"{info.node}: {len(numbers)} integers and {len(texts)} strings do not pair", node_name=info.node.name
        )
    to_number, to_text = dict(zip(texts, numbers, strict=True)), dict(zip(numbers, texts, strict=True))
    default_number = int(info.attribute("default_int64", -1))
    default_text = str(info.attribute("default_string", "_Unused"))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.dtype == np.dtype(object):
            out = context.output(0, x.shape, np.dtype(np.int64))
            out.reshape(-1)[:] = [to_number.get(text, default_number) for text in x.ravel()]
        else:
            out = context.output(0, x.shape, np.dtype(object))
            out.reshape(-1)[:] = [to_text.get(number, default_text) for number in x.ravel().tolist()]
        return out

    return compute
