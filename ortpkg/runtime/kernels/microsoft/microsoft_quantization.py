"""Quantized operators of com.microsoft: elementwise, pooling, concatenation.

Source: ONNX Runtime, docs/ContribOperators.md. Matrices are in
:mod:`ortpkg.runtime.kernels.microsoft.microsoft_matmul`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ortpkg.runtime.kernels.axes import broadcast_shape, normalized_axis
from ortpkg.runtime.kernels.integer_gemm import centred
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.linear_quantization import integer_range, round_into
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.quantization import BYTES

_DOMAIN = "com.microsoft"
#: Elements per block: two blocks as float32 stay in cache.
_BLOCK = 1 << 16
#: Bytes of an element while it becomes a real value and an integer again, in three arrays at most.
_REAL_NBYTES = 12


def _real(x: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    """Return the float32 values of a tensor that is quantized as a whole."""
    return np.asarray(
        centred(x, zero_point if zero_point is None else zero_point.reshape(())) * scale.reshape(())
    )


def _quantized_output(
    context: OpKernelContext,
    y: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    dtype: np.dtype[np.generic],
) -> Tensor:
    out = context.output(0, y.shape, dtype)
    scaled = np.asarray(np.divide(y, scale.reshape(()), dtype=np.float32))
    round_into(out, scaled, zero_point if zero_point is None else zero_point.reshape(()))
    return out


def _parameters(
    scale: Tensor, zero_point: Tensor | None, over: np.float32
) -> tuple[np.float32, np.float32]:
    """Return factor and shift with factor · code + shift = real value / over."""
    factor = np.float32(scale.reshape(())) / over
    return factor, (
        np.float32(0) if zero_point is None else -factor * np.float32(zero_point.reshape(()))
    )


def _blocks(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Yield parts of a matrix, of at most _BLOCK elements each, in order."""
    height, width = max(_BLOCK // max(columns, 1), 1), max(min(columns, _BLOCK), 1)
    for row in range(0, rows, height):
        for column in range(0, columns, width):
            yield slice(row, row + height), slice(column, column + width)


def _binary(operation: np.ufunc) -> Compute:
    """Make a compute function of two quantized inputs, with folded factors and one rounding.

    Source: MlasQLinearAdd, MlasQLinearMul.
    """

    def compute(
        context: OpKernelContext,
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor | None,
        c_scale: Tensor,
        c_zero: Tensor | None = None,
    ) -> Tensor:
        out = context.output(0, broadcast_shape(a.shape, b.shape), a.dtype)
        over = np.float32(c_scale.reshape(()))
        point = None if c_zero is None else c_zero.reshape(())
        left = _parameters(a_scale, a_zero, over)
        right = _parameters(b_scale, b_zero, over if operation is np.add else np.float32(1))
        if a.shape == b.shape and a.ndim:
            a, b, target = a.reshape(1, -1), b.reshape(1, -1), out.reshape(1, -1)
        else:
            context.check_allocation(out.nbytes * ((a.shape != out.shape) + (b.shape != out.shape)))
            target = out.reshape(-1, out.shape[-1]) if out.ndim else out.reshape(1, 1)
            a, b = (np.broadcast_to(x, out.shape).reshape(target.shape) for x in (a, b))

        def run(block: tuple[slice, slice]) -> None:
            first, second = (
                codes[block] * factor + shift for codes, (factor, shift) in ((a, left), (b, right))
            )
            operation(first, second, out=first)
            round_into(target[block], first, point)

        for block in _blocks(*target.shape):
            run(block)
        return out

    return compute


@kernel("QLinearAdd", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def qlinear_add(_info: OpKernelInfo) -> Compute:
    return _binary(np.add)


@kernel("QLinearMul", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def qlinear_mul(_info: OpKernelInfo) -> Compute:
    return _binary(np.multiply)


def _by_table(function: Callable[[Tensor], Tensor]) -> Compute:
    """Make a compute function that looks 8-bit values up in a table of 256 results."""

    def compute(
        context: OpKernelContext,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
    ) -> Tensor:
        codes = np.arange(256, dtype=np.uint8).view(x.dtype)
        table = np.empty(256, x.dtype)
        scaled = np.asarray(function(_real(codes, x_scale, x_zero)) / y_scale.reshape(()))
        round_into(table, scaled, y_zero if y_zero is None else y_zero.reshape(()))
        out = context.output(0, x.shape, x.dtype)
        flat_out, flat_codes = out.reshape(-1), x.reshape(-1).view(np.uint8)
        for start in range(0, x.size, _BLOCK):  # numpy makes positions of codes
            block = slice(start, start + _BLOCK)
            np.take(table, flat_codes[block], out=flat_out[block], mode="clip")
        return out

    return compute


@kernel("QLinearSigmoid", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def qlinear_sigmoid(_info: OpKernelInfo) -> Compute:
    return _by_table(lambda x: 1 / (1 + np.exp(-x)))


@kernel("QLinearLeakyRelu", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def qlinear_leaky_relu(info: OpKernelInfo) -> Compute:
    alpha = np.float32(info.attribute("alpha", 0.01))
    return _by_table(lambda x: np.where(x >= 0, x, alpha * x))


@kernel("QLinearSoftmax", since=(1,), domain=_DOMAIN, types={"T": BYTES})
def qlinear_softmax(info: OpKernelInfo) -> Compute:
    """Softmax over ``axis``; before opset 13 over all dimensions from ``axis`` on, like Softmax."""
    axis_attribute = int(info.attribute("axis", -1))
    flattens = int(info.attribute("opset", 13)) < 13

    def compute(
        context: OpKernelContext,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor,
    ) -> Tensor:
        axis = normalized_axis(axis_attribute, x.ndim)
        axes = tuple(range(axis, x.ndim)) if flattens else (axis,)
        context.check_allocation(_REAL_NBYTES * x.size)
        real = _real(x, x_scale, x_zero)
        real -= real.max(axis=axes, keepdims=True, initial=-np.inf)
        powers = np.exp(real, out=real)
        powers /= powers.sum(axis=axes, keepdims=True)
        return _quantized_output(context, powers, y_scale, y_zero, x.dtype)

    return compute


@kernel("QLinearGlobalAveragePool", since=(1,), domain=_DOMAIN)
def qlinear_global_average_pool(info: OpKernelInfo) -> Compute:
    channels_last = bool(info.attribute("channels_last", 0))

    def compute(
        context: OpKernelContext,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor,
        y_scale: Tensor,
        y_zero: Tensor,
    ) -> Tensor:
        if x.ndim < 3:
            raise ValueError(
                f"pooling needs spatial dimensions, which a tensor of shape {x.shape} has not"
            )
        axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
        count = math.prod(x.shape[axis] for axis in axes)
        # Sums of integers are exact; the mean is rounded once.
        context.check_allocation(_REAL_NBYTES * 2 * (x.size // max(count, 1)))
        sums = x.sum(axis=axes, keepdims=True, dtype=np.int64) - count * int(x_zero.reshape(()))
        mean = (sums * np.float64(x_scale.reshape(())) / max(count, 1)).astype(np.float32)
        return _quantized_output(context, mean, y_scale, y_zero, x.dtype)

    return compute


@kernel("QLinearConcat", since=(1,), domain=_DOMAIN)
def qlinear_concat(info: OpKernelInfo) -> Compute:
    """Concatenation of parts.

    Inputs: the output's scale and zero point; then each part, its scale and zero point.
    """
    axis_attribute = int(info.attribute("axis"))

    def compute(
        context: OpKernelContext, y_scale: Tensor, y_zero: Tensor, *parts: Tensor
    ) -> Tensor:
        if not parts or len(parts) % 3:
            raise ValueError(
                f"parts come as tensor, scale and zero point, but there are {len(parts)} inputs for"
                " them"
            )
        triples = [parts[index : index + 3] for index in range(0, len(parts), 3)]
        tensors = [x for x, _, _ in triples]
        axis = normalized_axis(axis_attribute, tensors[0].ndim)
        size = sum(x.shape[axis] for x in tensors)
        out = context.output(
            0, (*tensors[0].shape[:axis], size, *tensors[0].shape[axis + 1 :]), y_zero.dtype
        )
        others = max(x.size for x in tensors)
        context.check_allocation(sum(x.size for x in tensors) + _REAL_NBYTES * others)
        same = [
            _requantized(x, scale, zero_point, y_scale, y_zero) for x, scale, zero_point in triples
        ]
        np.concatenate(same, axis=axis, out=out)
        return out

    return compute


def _requantized(
    x: Tensor, scale: Tensor, zero_point: Tensor, y_scale: Tensor, y_zero: Tensor
) -> Tensor:
    """Return ``x`` with another scale and zero point; ``x`` itself if they are the same."""
    if (
        x.dtype == y_zero.dtype
        and scale.item() == y_scale.item()
        and zero_point.item() == y_zero.item()
    ):
        return x
    assert integer_range(x.dtype) is not None
    out = np.empty(x.shape, y_zero.dtype)
    scaled = np.asarray(_real(x, scale, zero_point) / y_scale.reshape(()))
    round_into(out, scaled, y_zero.reshape(()))
    return out
