"""Operators that make tensors (Constant, ConstantOfShape, Range, EyeLike, OneHot), and Dropout.

Sizes come from data here, so every kernel calls ``context.output`` before it computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.axes import normalized_axis, only_number, reshaped_view, shape_from
from ortpkg.runtime.kernels.element_types import FLOATS, NUMBERS, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_BOOL = np.dtype(np.bool_)
#: Bytes of an index, or of a number of double width.
_NUMBER_NBYTES = 8
#: Upper bound of seeds of numpy's legacy generator.
_SEED_COUNT = 1 << 32
_FROM_1 = (1, 9, 11, 12, 13, 19, 21, 23, 24, 25)


#: Plain attribute of Constant → type of its value.
_PLAIN_VALUES: Mapping[str, type] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


def _constant_value(info: OpKernelInfo) -> Tensor:
    """Return the node's value, read-only; a sparse one is made dense.

    The reader of models bounds the size of a sparse one.
    """
    value = info.attribute("value")
    if value is None and info.attribute("sparse_value") is not None:
        value = info.attribute("sparse_value").numpy()
    for name, dtype in _PLAIN_VALUES.items():
        if value is None and info.attribute(name) is not None:
            value = np.asarray(info.attribute(name), dtype)
    if value is None:
        raise InvalidGraphError(f"{info.node} has no value", node_name=info.node.name)
    tensor = np.asarray(value).view()
    tensor.flags.writeable = False
    return tensor


@kernel("Constant", since=_FROM_1, uses_output_buffer=False)
def constant(info: OpKernelInfo) -> Compute:
    value = _constant_value(info)
    return lambda _context: value


@kernel("ConstantOfShape", since=(9, 20, 21, 23, 24, 25))
def constant_of_shape(info: OpKernelInfo) -> Compute:
    value = info.attribute("value")
    fill = np.zeros(1, np.float32) if value is None else np.asarray(value)

    def compute(context: OpKernelContext, shape: Tensor) -> Tensor:
        out = context.output(0, shape_from(shape), fill.dtype)
        np.copyto(out, fill.reshape(()))
        return out

    return compute


@kernel("Range", since=(11, 27), types={"T": NUMBERS})
def range_(_info: OpKernelInfo) -> Compute:
    """start + i · delta, with max(ceil((limit - start) / delta), 0) elements.

    Narrow floats count in float32.
    """

    def compute(context: OpKernelContext, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
        named = {"start": start, "limit": limit, "delta": delta}
        first, last, step = (
            only_number(widened(value), name).item() for name, value in named.items()
        )
        if step == 0:
            raise ValueError("delta is 0, so the range has no end")
        if start.dtype.kind == "i":
            length = max(-((first - last) // step), 0)
        else:
            steps = (last - first) / step
            if not math.isfinite(steps):
                raise ValueError(f"a range from {first} to {last} in steps of {step} has no length")
            length = max(math.ceil(steps), 0)
        out = context.output(0, (length,), start.dtype)
        context.check_allocation(length * _NUMBER_NBYTES)
        counts = np.arange(length, dtype=np.int64 if start.dtype.kind == "i" else np.float64)
        counts *= step
        np.add(counts, first, out=out, casting="unsafe")
        return out

    return compute


@kernel("EyeLike", since=(9, 22))
def eye_like(info: OpKernelInfo) -> Compute:
    dtype, k = info.attribute("dtype"), info.attribute("k", 0)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim != 2:
            raise ValueError(f"an identity matrix has rank 2, but the input's shape is {x.shape}")
        out = context.output(
            0, x.shape, x.dtype if dtype is None else numpy_dtype(ElementType(dtype))
        )
        out[...] = 0
        rows = np.arange(max(-k, 0), min(x.shape[0], x.shape[1] - k))
        out[rows, rows + k] = 1
        return out

    return compute


@kernel("OneHot", since=(9, 11, 28))
def one_hot(info: OpKernelInfo) -> Compute:
    """Rows of ``values`` = (off, on). An index outside [-depth, depth) leaves its column off."""
    axis = info.attribute("axis", -1)

    def compute(context: OpKernelContext, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
        size = int(only_number(depth, "depth").item())
        along = normalized_axis(axis, indices.ndim + 1)
        if size < 0 or values.shape != (2,):
            raise ValueError(
                f"depth is {size} and values have shape {values.shape}; at least 0 and (2,) are"
                " needed"
            )
        out = context.output(
            0, (*indices.shape[:along], size, *indices.shape[along:]), values.dtype
        )
        # The wanted indices, which of them are classes, and the positions of those.
        context.check_allocation(indices.size * (indices.ndim + 3) * _NUMBER_NBYTES)
        wanted = np.atleast_1d(indices.astype(np.int64))
        np.add(wanted, size, out=wanted, where=wanted < 0)
        is_class = (wanted >= 0) & (wanted < size)
        np.copyto(out, values[0])
        rows = reshaped_view(np.moveaxis(out, along, -1), (*wanted.shape, size))
        rows[(*np.nonzero(is_class), wanted[is_class])] = values[1]
        return out

    return compute


@kernel("Dropout", since=(1, 6, 7, 10), alias=((0, 0),), uses_output_buffer=False)
def dropout_inference(info: OpKernelInfo) -> Compute:
    """Dropout that only infers, as these versions do without ``is_test=0``.

    The mask is all True.
    """
    with_mask = len(info.node.outputs) > 1 and bool(info.node.outputs[1])
    boolean_mask = info.node.since_version >= 10

    def compute(context: OpKernelContext, x: Tensor) -> Any:
        if not with_mask:
            return x
        context.check_allocation(x.size if boolean_mask else x.nbytes)
        return x, np.ones(x.shape, _BOOL if boolean_mask else x.dtype)

    return compute


@kernel("Dropout", since=(12, 13, 22), types={"T": FLOATS})
def dropout(info: OpKernelInfo) -> Compute:
    """Pass the input on; in training, zero some elements and scale the rest by 1 / (1 - ratio).

    Training mode draws from numpy's legacy generator seeded by ``seed``, as the ONNX reference
    does.
    """
    with_mask = len(info.node.outputs) > 1 and bool(info.node.outputs[1])
    seed = info.attribute("seed")

    def compute(
        context: OpKernelContext,
        x: Tensor,
        ratio: Tensor | None = None,
        training: Tensor | None = None,
    ) -> Any:
        out = context.output(0, x.shape, x.dtype)
        share = 0.5 if ratio is None else float(only_number(ratio, "ratio").item())
        if not 0 <= share < 1:
            raise ValueError(f"a ratio of {share} is not in [0, 1)")
        if training is None or not only_number(training, "training_mode").item() or share == 0:
            context.check_allocation(x.size if with_mask else 0)
            np.copyto(out, x)
            mask = np.ones(x.shape, _BOOL) if with_mask else None
        else:
            # Random numbers and the mask; then the mask, its factors and the product.
            context.check_allocation(widened_nbytes(x) + x.size * (2 * _NUMBER_NBYTES + 1))
            mask = np.asarray(
                np.random.RandomState(None if seed is None else seed % _SEED_COUNT).uniform(
                    0, 1, x.shape
                )
                >= share
            )
            np.copyto(out, widened(x) * (mask / np.float32(1 - share)), casting="unsafe")
        return (out, mask) if with_mask else out

    return compute
