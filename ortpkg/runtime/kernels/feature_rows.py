"""Operators of ai.onnx.ml that fill, choose, join and encode columns of features.

Source: the operators; onnxruntime where they leave something open (vectors, cut columns, numbers
with a fraction).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_DOMAIN = "ai.onnx.ml"
_NUMBERS = frozenset({ElementType.FLOAT, ElementType.DOUBLE, ElementType.INT64, ElementType.INT32})
_FLOAT32, _OBJECT = np.dtype(np.float32), np.dtype(object)
#: Number of elements between two checks of a run's limits.
_ELEMENTS_AT_ONCE = 1 << 14


@kernel("Imputer", since=(1,), domain=_DOMAIN, types={"T": _NUMBERS}, in_place=((0, 0),))
def imputer(info: OpKernelInfo) -> Compute:
    """Rows in which one value, or NaN, is replaced by a number for all columns or for each."""

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        kind, least = ("float", "floats") if x.dtype.kind == "f" else ("int64", "int64s")
        values = np.array(info.attribute(f"imputed_value_{least}", ()), x.dtype)
        replaced = x.dtype.type(info.attribute(f"replaced_value_{kind}", 0))
        columns = x.shape[-1] if x.ndim else 1
        if x.ndim not in (1, 2) or values.size not in (1, columns):
            raise ValueError(
                f"{values.size} numbers in imputed_value_{least} do not fit rows of shape {x.shape}"
            )
        out = context.output(0, x.shape, x.dtype)
        context.check_allocation(x.size)
        is_replaced = np.isnan(x) if replaced != replaced else np.equal(x, replaced)
        np.copyto(out, x)
        np.copyto(out, values, where=is_replaced)
        return out

    return compute


@kernel("ArrayFeatureExtractor", since=(1,), domain=_DOMAIN)
def array_feature_extractor(_info: OpKernelInfo) -> Compute:
    """Elements of the last axis at some positions; for a vector, one row of them."""

    def compute(context: OpKernelContext, x: Tensor, positions: Tensor) -> Tensor:
        if not x.ndim or not positions.size:
            raise ValueError(
                f"data of shape {x.shape} and positions of shape {positions.shape} give no features"
            )
        width, chosen = x.shape[-1], positions.reshape(-1)
        if chosen.min() < 0 or chosen.max() >= width:
            raise ValueError(
                f"positions lie in [0, {width}), but these reach from {chosen.min()} to"
                f" {chosen.max()}"
            )
        out = context.output(0, (*(x.shape[:-1] or (1,)), chosen.size), x.dtype)
        context.check_allocation(chosen.nbytes)  # numpy copies positions that are read-only
        # "clip" clips nothing here; the default mode would compute into a second array first
        np.take(x, chosen, axis=-1, out=out if x.ndim > 1 else out[0], mode="clip")
        return out

    return compute


@kernel("FeatureVectorizer", since=(1,), domain=_DOMAIN, types={"T1": _NUMBERS})
def feature_vectorizer(info: OpKernelInfo) -> Compute:
    """Rows of float32 side by side, each input cut or filled with zeros to its declared width."""
    widths = tuple(info.attribute("inputdimensions", ()))
    if len(widths) != len(info.node.inputs) or min(widths, default=0) < 0:
        raise InvalidGraphError(
            f"{info.node}: inputdimensions states {len(widths)} widths for"
            f" {len(info.node.inputs)} inputs",
            node_name=info.node.name,
        )

    def compute(context: OpKernelContext, *inputs: Tensor) -> Tensor:
        rows = [x[None] if x.ndim == 1 else x for x in inputs]
        counts = {len(x) for x in rows if x.ndim == 2}
        if len(counts) != 1 or any(x.ndim != 2 for x in rows):
            shapes = ", ".join(str(x.shape) for x in inputs)
            raise ValueError(f"as many rows are needed in each input, but the shapes are {shapes}")
        out = context.output(0, (*counts, sum(widths)), _FLOAT32)
        start = 0
        for x, width in zip(rows, widths, strict=True):
            copied_width = min(width, x.shape[1])
            np.copyto(out[:, start : start + copied_width], x[:, :copied_width], casting="unsafe")
            out[:, start + copied_width : start + width] = 0
            start += width
        return out

    return compute


@kernel("OneHotEncoder", since=(1,), domain=_DOMAIN)
def one_hot_encoder(info: OpKernelInfo) -> Compute:
    """Row for each element: 1 at its category, zeros if it has none and ``zeros`` is set."""
    numbers, texts = info.attribute("cats_int64s") or (), info.attribute("cats_strings") or ()
    may_lack = bool(info.attribute("zeros", 1))
    positions: dict[Any, int] = {}
    for position, category in enumerate(numbers or texts):
        positions.setdefault(category, position)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if (x.dtype == _OBJECT) != bool(texts):
            raise ValueError("texts need cats_strings, and numbers need cats_int64s")
        out = context.output(0, (*x.shape, len(numbers or texts)), _FLOAT32)
        out[...] = 0
        flat, rows = x.reshape(-1), out.reshape(x.size, -1)
        for start in range(0, x.size, _ELEMENTS_AT_ONCE):
            context.check_cancelled()
            elements = _categories(flat[start : start + _ELEMENTS_AT_ONCE])
            category_indices = np.array(
                [positions.get(element, -1) for element in elements], np.intp
            )
            (encoded,) = np.nonzero(category_indices >= 0)
            if len(encoded) < len(category_indices) and not may_lack:
                raise ValueError("an element is of no category, and the attribute zeros is 0")
            rows[start + encoded, category_indices[encoded]] = 1
        return out

    return compute


def _categories(elements: Tensor) -> list[Any]:
    """Return numbers without their fraction, or texts; None for a number that is not finite."""
    if elements.dtype.kind != "f":
        return list(elements.tolist())
    return [int(number) if np.isfinite(number) else None for number in elements.tolist()]
