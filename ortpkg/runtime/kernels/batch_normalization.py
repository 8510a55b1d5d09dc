"""BatchNormalization: at inference one multiplication and one addition per channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

#: Arrays of one number per channel from which factor and shift are made.
_AFFINE_ARRAYS = 3


def _affine(
    scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Return factor and shift, per channel.

    factor · x + shift = (x - mean) / sqrt(variance + epsilon) · scale + bias.
    """
    if not scale.shape == bias.shape == mean.shape == variance.shape:
        raise ValueError(
            f"scale, bias, mean and variance have the shapes {scale.shape}, {bias.shape},"
            f" {mean.shape} and {variance.shape}; a number for each channel was expected"
        )
    factor = widened(scale) / np.sqrt(widened(variance) + np.float32(epsilon))
    return factor, widened(bias) - widened(mean) * factor


def _oriented(parameter: Tensor, x: Tensor, spatial: bool) -> Tensor:
    """Return a parameter that broadcasts to (N, C, ...).

    It has a value per channel, or without ``spatial`` one per feature.
    """
    if not spatial:
        return parameter.reshape((1, *x.shape[1:]))
    channels = x.shape[1] if x.ndim > 1 else 1
    if parameter.shape != (channels,):
        raise ValueError(
            f"parameters of shape {parameter.shape} do not fit the channels of an input of"
            f" {x.shape}"
        )
    return parameter.reshape((-1,) + (1,) * (x.ndim - 2)) if x.ndim > 1 else parameter


@kernel(
    "BatchNormalization",
    since=(1, 6, 7, 9, 14, 15),
    types={"T": FLOATS, "T1": FLOATS, "T2": FLOATS, "U": FLOATS},
)
def batch_normalization(info: OpKernelInfo) -> Compute:
    """Inference with one output.

    A node with more outputs trains (before version 14), or where ``training_mode=1``.
    """
    epsilon = info.attribute("epsilon", 1e-5)
    spatial = bool(info.attribute("spatial", 1))
    modern = info.node.since_version >= 14
    if bool(info.attribute("training_mode", 0)) if modern else len(info.node.outputs) > 1:
        return _training(
            epsilon, info.attribute("momentum", 0.9), spatial, saves_statistics=not modern
        )
    constants = [info.constant_input(slot) for slot in range(1, 5)]
    parameters = [constant for constant in constants if constant is not None]
    prepared = (
        _affine(parameters[0], parameters[1], parameters[2], parameters[3], epsilon)
        if len(parameters) == 4
        else None
    )

    def compute(
        context: OpKernelContext,
        x: Tensor,
        scale: Tensor,
        bias: Tensor,
        mean: Tensor,
        variance: Tensor,
    ) -> Tensor:
        context.check_allocation(_AFFINE_ARRAYS * scale.size * np.dtype(np.float64).itemsize)
        factor, shift = prepared or _affine(scale, bias, mean, variance, epsilon)
        factor, shift = _oriented(factor, x, spatial), _oriented(shift, x, spatial)
        out = context.output(0, x.shape, x.dtype)
        context.check_allocation(2 * widened_nbytes(x))
        wide = widened(x)
        if wide is x:
            np.multiply(x, factor, out=out, casting="same_kind")
            np.add(out, shift, out=out, casting="same_kind")
        else:
            result = wide * factor
            np.add(result, shift, out=out, casting="unsafe")
        return out

    return compute


def _training(epsilon: float, momentum: float, spatial: bool, *, saves_statistics: bool) -> Compute:
    """Normalize by the batch's own statistics and move the running ones towards them."""

    def compute(
        context: OpKernelContext,
        x: Tensor,
        scale: Tensor,
        bias: Tensor,
        mean: Tensor,
        variance: Tensor,
    ) -> Any:
        out = context.output(0, x.shape, x.dtype)
        wide_nbytes = x.size * compute_dtype(x.dtype).itemsize
        context.check_allocation(widened_nbytes(x) + 2 * wide_nbytes)
        wide = widened(x)
        axes = (0, *range(2, x.ndim)) if spatial else (0,)
        own_mean, own_variance = wide.mean(axis=axes), wide.var(axis=axes)
        factor, shift = _affine(
            scale, bias, own_mean.reshape(mean.shape), own_variance.reshape(mean.shape), epsilon
        )
        np.copyto(
            out,
            wide * _oriented(factor, x, spatial) + _oriented(shift, x, spatial),
            casting="unsafe",
        )
        running = [
            (widened(old) * momentum + new.reshape(old.shape) * (1 - momentum)).astype(old.dtype)
            for old, new in ((mean, own_mean), (variance, own_variance))
        ]
        saved = (
            [own_mean.astype(mean.dtype), own_variance.astype(variance.dtype)]
            if saves_statistics
            else []
        )
        return (out, *running, *saved)

    return compute
