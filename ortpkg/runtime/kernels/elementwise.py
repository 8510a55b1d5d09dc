"""Elementwise arithmetic of one, two or many inputs: numpy's ufuncs under ONNX's names.

Integer overflow wraps, as in C; float results follow IEEE 754, and the executor silences numpy's
warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.axes import broadcast_shape, normalized_axis, only_number
from ortpkg.runtime.kernels.element_types import FLOATS, INTEGERS, NUMBERS, is_float
from ortpkg.runtime.kernels.kernel_registry import KernelDef, kernel
from ortpkg.runtime.kernels.op_kernel import (
    Compute,
    KernelFactory,
    OpKernelContext,
    OpKernelInfo,
    Tensor,
)

_FLOAT64 = np.dtype(np.float64)
_ANY_INPUT_IN_PLACE = ((0, 0), (1, 0))


def aligned_second_input(info: OpKernelInfo) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that aligns the second input for broadcasting before version 7.

    There, only the second input broadcasts, if ``broadcast=1``, starting at ``axis``.
    """
    if not info.attribute("broadcast", 0):
        return lambda _a, b: b
    axis = info.attribute("axis")

    def align(a: Tensor, b: Tensor) -> Tensor:
        first = a.ndim - b.ndim if axis is None else normalized_axis(axis, a.ndim)
        return b.reshape(b.shape + (1,) * max(a.ndim - first - b.ndim, 0))

    return align


def _binary(ufunc: Callable[..., Any]) -> KernelFactory:
    def factory(info: OpKernelInfo) -> Compute:
        def compute(context: OpKernelContext, a: Tensor, b: Tensor) -> Tensor:
            shape = a.shape if a.shape == b.shape else broadcast_shape(a.shape, b.shape)
            out = context.output(0, shape, a.dtype)
            if ufunc is truncated_divide and a.dtype.kind == "i":
                context.check_allocation(out.nbytes)
            ufunc(a, b, out=out)
            return out

        if info.node.since_version >= 7:
            return compute
        align = aligned_second_input(info)
        return lambda context, a, b: compute(context, a, align(a, b))

    return factory


def truncated_divide(a: Tensor, b: Tensor, out: Tensor) -> Any:
    """Compute a / b; integers round toward zero (ONNX's Div), and x / 0 is 0."""
    if a.dtype.kind in "iu":
        if a.dtype.kind == "i":
            remainder = np.asarray(np.fmod(a, b))  # of scalars numpy returns no array
            a = np.subtract(a, remainder, out=remainder)
        return np.floor_divide(a, b, out=out)
    return np.divide(a, b, out=out)


def _unary(ufunc: Callable[..., Any]) -> KernelFactory:
    def factory(_info: OpKernelInfo) -> Compute:
        def compute(context: OpKernelContext, x: Tensor) -> Tensor:
            out: Tensor = ufunc(x, out=context.output(0, x.shape, x.dtype))
            return out

        return compute

    return factory


def _reciprocal(x: Tensor, out: Tensor) -> Any:
    return np.divide(x.dtype.type(1), x, out=out)


_BINARY: Mapping[str, tuple[Callable[..., Any], tuple[int, ...], frozenset[ElementType]]] = {
    "Add": (np.add, (1, 6, 7, 13, 14), NUMBERS),
    "Sub": (np.subtract, (1, 6, 7, 13, 14), NUMBERS),
    "Mul": (np.multiply, (1, 6, 7, 13, 14), NUMBERS),
    "Div": (truncated_divide, (1, 6, 7, 13, 14), NUMBERS),
    "BitwiseAnd": (np.bitwise_and, (18,), INTEGERS),
    "BitwiseOr": (np.bitwise_or, (18,), INTEGERS),
    "BitwiseXor": (np.bitwise_xor, (18,), INTEGERS),
}
_UNARY: Mapping[str, tuple[Callable[..., Any], tuple[int, ...], frozenset[ElementType]]] = {
    "Abs": (np.absolute, (1, 6, 13), NUMBERS),
    "Neg": (np.negative, (1, 6, 13), NUMBERS),
    "Exp": (np.exp, (1, 6, 13), FLOATS),
    "Log": (np.log, (1, 6, 13), FLOATS),
    "Sqrt": (np.sqrt, (1, 6, 13), FLOATS),
    "Reciprocal": (_reciprocal, (1, 6, 13), FLOATS),
    "Floor": (np.floor, (1, 6, 13), FLOATS),
    "Ceil": (np.ceil, (1, 6, 13), FLOATS),
    "Round": (np.rint, (11, 22), FLOATS),
    "Sign": (np.sign, (9, 13), NUMBERS),
    "Sin": (np.sin, (7, 22), FLOATS),
    "Cos": (np.cos, (7, 22), FLOATS),
    "Tan": (np.tan, (7, 22), FLOATS),
    "Asin": (np.arcsin, (7, 22), FLOATS),
    "Acos": (np.arccos, (7, 22), FLOATS),
    "Atan": (np.arctan, (7, 22), FLOATS),
    "Sinh": (np.sinh, (9, 22), FLOATS),
    "Cosh": (np.cosh, (9, 22), FLOATS),
    "Asinh": (np.arcsinh, (9, 22), FLOATS),
    "Acosh": (np.arccosh, (9, 22), FLOATS),
    "Atanh": (np.arctanh, (9, 22), FLOATS),
    "Tanh": (np.tanh, (1, 6, 13), FLOATS),
    "BitwiseNot": (np.invert, (18,), INTEGERS),
}
KERNELS = (
    *(
        KernelDef(
            op_type=op_type,
            since=since,
            types={"T": types},
            in_place=_ANY_INPUT_IN_PLACE,
            factory=_binary(ufunc),
        )
        for op_type, (ufunc, since, types) in _BINARY.items()
    ),
    *(
        KernelDef(
            op_type=op_type,
            since=since,
            types={"T": types},
            in_place=((0, 0),),
            factory=_unary(ufunc),
        )
        for op_type, (ufunc, since, types) in _UNARY.items()
    ),
)


def _root(x: Tensor, out: Tensor) -> None:
    """Write x to the power 0.5: infinity for -infinity and 0 for -0, unlike the square root.

    numpy's power itself takes the square root if the exponent is a scalar (numpy 2.4).
    """
    is_lowest = np.equal(x, x.dtype.type(-np.inf))
    np.add(x, x.dtype.type(0), out=out)
    np.sqrt(out, out=out)
    np.copyto(out, x.dtype.type(np.inf), where=is_lowest)


@kernel("Pow", since=(1, 7, 12, 13, 15), types={"T": NUMBERS, "T1": NUMBERS}, in_place=((0, 0),))
def power(info: OpKernelInfo) -> Compute:
    align = aligned_second_input(info) if info.node.since_version < 7 else None

    def compute(context: OpKernelContext, x: Tensor, y: Tensor) -> Tensor:
        if align is not None:
            y = align(x, y)
        out = context.output(
            0, x.shape if y.ndim == 0 else broadcast_shape(x.shape, y.shape), x.dtype
        )
        if y.size == 1 and y.flat[0] == 2:
            np.square(x, out=out)
        elif y.size == 1 and y.flat[0] == 0.5 and is_float(x.dtype):
            context.check_allocation(x.size)
            _root(x, out)
        elif not is_float(x.dtype) and (is_float(y.dtype) or (y.size and int(y.min()) < 0)):
            context.check_allocation((x.size + y.size + out.size) * _FLOAT64.itemsize)
            np.copyto(out, np.power(x.astype(_FLOAT64), y.astype(_FLOAT64)), casting="unsafe")
        else:
            context.check_allocation(0 if y.dtype == x.dtype else y.size * x.itemsize)
            np.power(x, y.astype(x.dtype, copy=False), out=out)
        return out

    return compute


@kernel("Mod", since=(10, 13, 28), types={"T": NUMBERS}, in_place=_ANY_INPUT_IN_PLACE)
def modulo(info: OpKernelInfo) -> Compute:
    """Remainder with the divisor's sign (``fmod=0``) or the dividend's (``fmod=1``).

    x mod 0 is 0 for integers.
    """
    return _binary(np.fmod if info.attribute("fmod", 0) else np.mod)(info)


@kernel("BitShift", since=(11, 28), types={"T": INTEGERS}, in_place=_ANY_INPUT_IN_PLACE)
def bit_shift(info: OpKernelInfo) -> Compute:
    """Shift of bits; shifting all of them out leaves 0, or -1 of a negative number to the right.

    numpy defines it so, too.
    """
    return _binary(np.left_shift if info.attribute("direction") == "LEFT" else np.right_shift)(info)


def _fold(
    ufunc: Callable[..., Any], context: OpKernelContext, inputs: tuple[Tensor, ...]
) -> Tensor:
    if not inputs:
        raise ValueError("at least one input is needed, none is given")
    out = context.output(0, broadcast_shape(*(x.shape for x in inputs)), inputs[0].dtype)
    if len(inputs) == 1:
        np.copyto(out, inputs[0])
        return out
    ufunc(inputs[0], inputs[1], out=out)
    for x in inputs[2:]:
        ufunc(out, x, out=out)
    return out


def _variadic(ufunc: Callable[..., Any]) -> KernelFactory:
    def factory(_info: OpKernelInfo) -> Compute:
        return lambda context, *inputs: _fold(ufunc, context, inputs)

    return factory


maximum = kernel("Max", since=(1, 6, 8, 12, 13), types={"T": NUMBERS})(_variadic(np.maximum))
minimum = kernel("Min", since=(1, 6, 8, 12, 13), types={"T": NUMBERS})(_variadic(np.minimum))
total = kernel("Sum", since=(1, 6, 8, 13), types={"T": FLOATS})(_variadic(np.add))


@kernel("Mean", since=(1, 6, 8, 13), types={"T": FLOATS})
def mean(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, *inputs: Tensor) -> Tensor:
        out = _fold(np.add, context, inputs)
        np.divide(out, out.dtype.type(len(inputs)), out=out)
        return out

    return compute


@kernel("Clip", since=(1, 6, 11, 12, 13), types={"T": NUMBERS}, in_place=((0, 0),))
def clip(info: OpKernelInfo) -> Compute:
    """Limit elements to a range; versions before 11 have the bounds as attributes.

    If min > max, every element becomes max (version 13).
    """
    if info.node.since_version < 11:
        bounds = info.attribute("min"), info.attribute("max")
        return lambda context, x: _clipped(context, x, *bounds)

    def compute(
        context: OpKernelContext, x: Tensor, low: Tensor | None = None, high: Tensor | None = None
    ) -> Tensor:
        least = None if low is None else only_number(low, "min")
        return _clipped(context, x, least, None if high is None else only_number(high, "max"))

    return compute


def _clipped(context: OpKernelContext, x: Tensor, low: Any, high: Any) -> Tensor:
    out = context.output(0, x.shape, x.dtype)
    if low is None and high is None:
        np.copyto(out, x)
    if low is not None:
        np.maximum(x, np.asarray(low, x.dtype), out=out)
    if high is not None:
        np.minimum(x if low is None else out, np.asarray(high, x.dtype), out=out)
    return out
