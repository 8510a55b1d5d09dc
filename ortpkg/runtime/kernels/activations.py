"""Activation functions: x → f(x), elementwise.

Evaluated in cache-sized blocks; narrow floats compute in float32.

Every function here may write over its input (``out is x``), so all are in-place kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ortpkg.runtime.kernels.axes import broadcast_shape
from ortpkg.runtime.kernels.element_types import FLOATS, NUMBERS, is_narrow_float
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.special_functions import (
    apply_in_blocks,
    erf_block,
    phi_block,
    sigmoid_block,
    softplus_block,
    softplus_into,
    temporaries,
)

MS = "com.microsoft"
#: Function of (x, out) that writes f(x) to out, which may be x.
Block = Callable[[Tensor, Tensor], None]

_GELU_TANH_SCALE = math.sqrt(2 / math.pi)
_GELU_TANH_CUBIC = 0.044715


def activation(block: Block) -> Compute:
    """Make a compute function of one input from a block function."""

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, x.shape, x.dtype)
        apply_activation(block, x, out)
        return out

    return compute


def apply_activation(block: Block, x: Tensor, out: Tensor) -> None:
    """Compute ``out = f(x)`` block by block, narrow floats in float32. ``out`` may be ``x``."""
    if not is_narrow_float(x.dtype):
        apply_in_blocks(block, x, out)
        return

    def through_float32(narrow: Tensor, target: Tensor) -> None:
        wide = narrow.astype(np.float32)
        block(wide, wide)
        target[...] = wide

    apply_in_blocks(through_float32, x, out)


# --- block functions, which fused kernels use too -------------------------------------------------


def relu_block(x: Tensor, out: Tensor) -> None:
    """max(x, 0)."""
    np.maximum(x, x.dtype.type(0), out=out)


def gelu_block(x: Tensor, out: Tensor) -> None:
    """x · Φ(x), exact form."""
    gate, square = temporaries(x, 2)
    phi_block(x, gate, square)
    np.multiply(x, gate, out=out)


def gelu_tanh_block(x: Tensor, out: Tensor) -> None:
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))."""
    (gate,) = temporaries(x, 1)
    np.multiply(x, x, out=gate)
    gate *= _GELU_TANH_SCALE * _GELU_TANH_CUBIC
    gate += _GELU_TANH_SCALE
    gate *= x
    np.tanh(gate, out=gate)
    gate += 1
    gate *= 0.5
    np.multiply(x, gate, out=out)


def tanh_block(x: Tensor, out: Tensor) -> None:
    """tanh(x)."""
    np.tanh(x, out=out)


def mish_block(x: Tensor, out: Tensor) -> None:
    """x · tanh(softplus(x))."""
    gate, tail = temporaries(x, 2)
    softplus_into(x, gate, tail)
    np.tanh(gate, out=gate)
    np.multiply(x, gate, out=out)


def softsign_block(x: Tensor, out: Tensor) -> None:
    """x / (1 + |x|)."""
    (size,) = temporaries(x, 1)
    np.abs(x, out=size)
    size += 1
    np.divide(x, size, out=out)


def leaky_relu_block(alpha: float) -> Block:
    """x, or alpha · x below 0."""

    def block(x: Tensor, out: Tensor) -> None:
        np.copyto(out, np.where(x < 0, x * alpha, x))

    def block_of_maximum(x: Tensor, out: Tensor) -> None:
        (scaled,) = temporaries(x, 1)
        np.multiply(x, alpha, out=scaled)
        np.maximum(x, scaled, out=out)

    return block_of_maximum if 0 <= alpha <= 1 else block


def elu_block(alpha: float, gamma: float = 1.0, scale: float = 1.0) -> Block:
    """gamma · (x above 0, alpha · (exp(x / scale) - 1) below).

    Celu alone has a scale. It is a sum of both parts, so that an alpha of infinity gives NaN.
    """
    is_sum = scale != 1 or math.isfinite(alpha)

    def block(x: Tensor, out: Tensor) -> None:
        (tail,) = temporaries(x, 1)
        np.minimum(x, x.dtype.type(0), out=tail)
        if scale != 1:
            tail /= scale
        np.expm1(tail, out=tail)
        tail *= alpha
        np.maximum(x, x.dtype.type(0), out=out)
        out += tail
        if not is_sum:  # infinity times 0 is no number
            np.copyto(out, x, where=x >= 0)
        if gamma != 1:
            out *= gamma

    return block


def hard_sigmoid_block(alpha: float, beta: float) -> Block:
    """max(0, min(1, alpha · x + beta))."""

    def block(x: Tensor, out: Tensor) -> None:
        np.multiply(x, alpha, out=out)
        out += beta
        np.clip(out, 0, 1, out=out)

    return block


def hard_swish_block(x: Tensor, out: Tensor) -> None:
    """x · max(0, min(1, x / 6 + 0.5))."""
    (gate,) = temporaries(x, 1)
    np.multiply(x, 1 / 6, out=gate)
    gate += 0.5
    np.clip(gate, 0, 1, out=gate)
    np.multiply(x, gate, out=out)


def thresholded_relu_block(alpha: float) -> Block:
    """x above alpha, else 0."""

    def block(x: Tensor, out: Tensor) -> None:
        below = np.logical_not(x > alpha)
        np.copyto(out, x)
        np.copyto(out, x.dtype.type(0), where=below)

    return block


def scaled_tanh_block(alpha: float, beta: float) -> Block:
    """alpha · tanh(beta · x)."""

    def block(x: Tensor, out: Tensor) -> None:
        np.multiply(x, beta, out=out)
        np.tanh(out, out=out)
        np.multiply(out, alpha, out=out)

    return block


def parametric_softplus_block(alpha: float, beta: float) -> Block:
    """alpha · log(1 + exp(beta · x))."""

    def block(x: Tensor, out: Tensor) -> None:
        softplus_block(x * beta, out)
        np.multiply(out, alpha, out=out)

    return block


def swish_block(alpha: float) -> Block:
    """x · sigmoid(alpha · x)."""

    def block(x: Tensor, out: Tensor) -> None:
        (gate,) = temporaries(x, 1)
        np.multiply(x, alpha, out=gate)
        sigmoid_block(gate, gate)
        np.multiply(x, gate, out=out)

    return block


def shrink_block(lambd: float, bias: float) -> Block:
    """x moved by ``bias`` towards 0, and 0 within ``lambd`` of it."""

    def block(x: Tensor, out: Tensor) -> None:
        zero = x.dtype.type(0)
        shrunk = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, zero))
        np.copyto(out, shrunk, casting="unsafe")

    return block


# --- kernels --------------------------------------------------------------------------------------


@kernel("Relu", since=(1, 6, 13, 14), types={"T": NUMBERS}, in_place=((0, 0),))
def relu(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        out = context.output(0, x.shape, x.dtype)
        np.maximum(x, x.dtype.type(0), out=out)
        return out

    return compute


@kernel("LeakyRelu", since=(1, 6, 16), types={"T": FLOATS}, in_place=((0, 0),))
def leaky_relu(info: OpKernelInfo) -> Compute:
    return activation(leaky_relu_block(info.attribute("alpha", 0.01)))


@kernel("Elu", since=(1, 6, 22), types={"T": FLOATS}, in_place=((0, 0),))
def elu(info: OpKernelInfo) -> Compute:
    return activation(elu_block(info.attribute("alpha", 1.0)))


@kernel("Selu", since=(1, 6, 22), types={"T": FLOATS}, in_place=((0, 0),))
def selu(info: OpKernelInfo) -> Compute:
    """Selu; the defaults of version 1 differ from those of version 6 in the last digits."""
    first = info.node.since_version == 1
    alpha = info.attribute("alpha", 1.6732 if first else 1.67326319217681884765625)
    gamma = info.attribute("gamma", 1.0507 if first else 1.05070102214813232421875)
    return activation(elu_block(alpha, gamma))


@kernel("Celu", since=(12, 28), types={"T": FLOATS}, in_place=((0, 0),))
def celu(info: OpKernelInfo) -> Compute:
    alpha = info.attribute("alpha", 1.0)
    return activation(elu_block(alpha, scale=alpha))


@kernel("Sigmoid", since=(1, 6, 13), types={"T": FLOATS}, in_place=((0, 0),))
def sigmoid(_info: OpKernelInfo) -> Compute:
    return activation(sigmoid_block)


@kernel("HardSigmoid", since=(1, 6, 22), types={"T": FLOATS}, in_place=((0, 0),))
def hard_sigmoid(info: OpKernelInfo) -> Compute:
    return activation(hard_sigmoid_block(info.attribute("alpha", 0.2), info.attribute("beta", 0.5)))


@kernel("HardSwish", since=(14, 22), types={"T": FLOATS}, in_place=((0, 0),))
def hard_swish(_info: OpKernelInfo) -> Compute:
    return activation(hard_swish_block)


@kernel("Softplus", since=(1, 22), types={"T": FLOATS}, in_place=((0, 0),))
def softplus(_info: OpKernelInfo) -> Compute:
    return activation(softplus_block)


@kernel("Softsign", since=(1, 22), types={"T": FLOATS}, in_place=((0, 0),))
def softsign(_info: OpKernelInfo) -> Compute:
    return activation(softsign_block)


@kernel("ThresholdedRelu", since=(10, 22), types={"T": FLOATS}, in_place=((0, 0),))
def thresholded_relu(info: OpKernelInfo) -> Compute:
    return activation(thresholded_relu_block(info.attribute("alpha", 1.0)))


@kernel("Mish", since=(18, 22), types={"T": FLOATS}, in_place=((0, 0),))
def mish(_info: OpKernelInfo) -> Compute:
    return activation(mish_block)


@kernel("Swish", since=(24,), types={"T": FLOATS}, in_place=((0, 0),))
def swish(info: OpKernelInfo) -> Compute:
    return activation(swish_block(info.attribute("alpha", 1.0)))


@kernel("Shrink", since=(9,), types={"T": NUMBERS}, in_place=((0, 0),))
def shrink(info: OpKernelInfo) -> Compute:
    return activation(shrink_block(info.attribute("lambd", 0.5), info.attribute("bias", 0.0)))


@kernel("Erf", since=(9, 13), types={"T": FLOATS}, in_place=((0, 0),))
def erf(_info: OpKernelInfo) -> Compute:
    return activation(erf_block)


@kernel("Gelu", since=(20,), types={"T": FLOATS}, in_place=((0, 0),))
def gelu(info: OpKernelInfo) -> Compute:
    return activation(
        gelu_tanh_block if info.attribute("approximate", "none") == "tanh" else gelu_block
    )


@kernel("Gelu", since=(1,), domain=MS, types={"T": FLOATS}, in_place=((0, 0),))
def microsoft_gelu(_info: OpKernelInfo) -> Compute:
    return activation(gelu_block)


@kernel("QuickGelu", since=(1,), domain=MS, types={"T": FLOATS}, in_place=((0, 0),))
def quick_gelu(info: OpKernelInfo) -> Compute:
    """x · sigmoid(alpha · x); alpha is 1.702 by default."""
    return activation(swish_block(info.attribute("alpha", 1.702)))


def _biased(block: Block) -> Compute:
    def compute(context: OpKernelContext, x: Tensor, bias: Tensor | None = None) -> Tensor:
        out = context.output(0, x.shape, x.dtype)
        if bias is not None:
            x = np.add(x, bias, out=out)
        apply_activation(block, x, out)
        return out

    return compute


@kernel("FastGelu", since=(1,), domain=MS, types={"T": FLOATS}, in_place=((0, 0),))
def fast_gelu(_info: OpKernelInfo) -> Compute:
    """Gelu's tanh form of x + bias."""
    return _biased(gelu_tanh_block)


@kernel("BiasGelu", since=(1,), domain=MS, types={"T": FLOATS}, in_place=((0, 0),))
def bias_gelu(_info: OpKernelInfo) -> Compute:
    """Gelu of x + bias."""
    return _biased(gelu_block)


@kernel("PRelu", since=(1, 6, 7, 9, 16), types={"T": NUMBERS}, in_place=((0, 0),))
def parametric_relu(info: OpKernelInfo) -> Compute:
    """x, or slope · x below 0.

    Versions before 7 take one slope per channel; later ones broadcast the slope to x.
    """
    by_channel = info.node.since_version < 7

    def compute(context: OpKernelContext, x: Tensor, slope: Tensor) -> Tensor:
        if by_channel and slope.size > 1:
            slope = slope.reshape((-1,) + (1,) * (x.ndim - 2))
        if broadcast_shape(x.shape, slope.shape) != x.shape:
            raise ValueError(
                f"slope of shape {slope.shape} does not broadcast to the input's shape {x.shape}"
            )
        out = context.output(0, x.shape, x.dtype)
        context.check_allocation(x.nbytes + x.size)
        scaled = np.multiply(x, slope)
        is_scaled = np.asarray(np.greater_equal(x, x.dtype.type(0)))
        np.logical_not(is_scaled, out=is_scaled)
        np.copyto(out, x)
        np.copyto(out, scaled, where=is_scaled)
        return out

    return compute
