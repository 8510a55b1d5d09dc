"""Comparisons, logic on booleans, tests for NaN and infinity, and Where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.axes import broadcast_shape
from ortpkg.runtime.kernels.element_types import BOOLEAN, NUMBERS
from ortpkg.runtime.kernels.elementwise import aligned_second_input
from ortpkg.runtime.kernels.kernel_registry import KernelDef, kernel
from ortpkg.runtime.kernels.op_kernel import (
    Compute,
    KernelFactory,
    OpKernelContext,
    OpKernelInfo,
    Tensor,
)

_BOOL = np.dtype(np.bool_)
_COMPARABLE = NUMBERS | BOOLEAN


def _to_boolean(ufunc: Callable[..., Any]) -> KernelFactory:
    def factory(info: OpKernelInfo) -> Compute:
        def compute(context: OpKernelContext, a: Tensor, b: Tensor) -> Tensor:
            shape = a.shape if a.shape == b.shape else broadcast_shape(a.shape, b.shape)
            out: Tensor = ufunc(a, b, out=context.output(0, shape, _BOOL))
            return out

        if info.node.since_version >= 7:
            return compute
        align = aligned_second_input(info)
        return lambda context, a, b: compute(context, a, align(a, b))

    return factory


_COMPARISONS: Mapping[str, tuple[Callable[..., Any], tuple[int, ...], frozenset[ElementType]]] = {
    "Equal": (np.equal, (1, 7, 11, 13, 19), _COMPARABLE | {ElementType.STRING}),
    "Less": (np.less, (1, 7, 9, 13), _COMPARABLE),
    "Greater": (np.greater, (1, 7, 9, 13), _COMPARABLE),
    "LessOrEqual": (np.less_equal, (12, 16), _COMPARABLE),
    "GreaterOrEqual": (np.greater_equal, (12, 16), _COMPARABLE),
    "And": (np.logical_and, (1, 7), BOOLEAN),
    "Or": (np.logical_or, (1, 7), BOOLEAN),
    "Xor": (np.logical_xor, (1, 7), BOOLEAN),
}
KERNELS = tuple(
    KernelDef(op_type=op_type, since=since, types={"T": types}, factory=_to_boolean(ufunc))
    for op_type, (ufunc, since, types) in _COMPARISONS.items()
)


@kernel("Not", since=(1,), in_place=((0, 0),))
def logical_not(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        return np.logical_not(x, out=context.output(0, x.shape, _BOOL))

    return compute


@kernel("IsNaN", since=(9, 13, 20))
def is_nan(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        return np.isnan(x, out=context.output(0, x.shape, _BOOL))

    return compute


@kernel("IsInf", since=(10, 20))
def is_inf(info: OpKernelInfo) -> Compute:
    positive = bool(info.attribute("detect_positive", 1))
    negative = bool(info.attribute("detect_negative", 1))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, x.shape, _BOOL)
        if not positive and not negative:
            out[...] = False
            return out
        np.isinf(x, out=out)
        if not (positive and negative):
            context.check_allocation(out.nbytes)
            out &= (x > 0) if positive else (x < 0)
        return out

    return compute


@kernel("Where", since=(9, 16))
def where(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        out = context.output(0, broadcast_shape(condition.shape, x.shape, y.shape), x.dtype)
        np.copyto(out, y)
        np.copyto(out, x, where=condition)
        return out

    return compute
