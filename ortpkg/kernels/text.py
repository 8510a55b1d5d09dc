"""Text: StringConcat, StringSplit, RegexFullMatch. Strings are Python strings in arrays of objects."""

from __future__ import annotations

import numpy as np

from ortpkg.kernels.axes import broadcast_shape, element_count
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.kernels.regular_expressions import RegularExpression

_STRING = np.dtype(object)


def _longest(x: Tensor) -> int:
    return max(map(len, x.ravel()), default=0)


@kernel("StringConcat", since=(20,))
def string_concat(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor, y: Tensor) -> Tensor:
        shape = broadcast_shape(x.shape, y.shape)
        context.check_allocation(element_count(shape) * (_longest(x) + _longest(y)))
        return np.add(x, y, out=context.output(0, shape, _STRING))

    return compute


@kernel("StringSplit", since=(20,))
def string_split(info: OpKernelInfo) -> Compute:
    """The parts of each string along a new last axis, filled up with "", and how many there are.

    Without a delimiter strings are split at runs of white space.
    """
    delimiter = info.attribute("delimiter") or None
    most = info.attribute("maxsplit")

    def compute(context: OpKernelContext, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = [text.split(delimiter, -1 if most is None else most) for text in x.ravel()]
        longest = max(map(len, rows), default=0)
        parts = context.output(0, (*x.shape, longest), _STRING)
        for target, row in zip(parts.reshape(len(rows), longest), rows, strict=True):
            target[:] = row + [""] * (longest - len(row))
        counts = context.output(1, x.shape, np.dtype(np.int64))
        counts[...] = np.array([len(row) for row in rows], dtype=np.int64).reshape(x.shape)
        return parts, counts

    return compute


@kernel("RegexFullMatch", since=(20,))
def regex_full_match(info: OpKernelInfo) -> Compute:
    expression = RegularExpression(str(info.attribute("pattern", "")))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, x.shape, np.dtype(np.bool_))
        found = [expression.matches_fully(text, context.check_cancelled) for text in x.ravel()]
        out[...] = np.array(found, dtype=np.bool_).reshape(x.shape)
        return out

    return compute
