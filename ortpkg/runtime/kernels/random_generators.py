"""Operators that draw random numbers.

With a ``seed`` a node draws the same numbers on every run, because kernels keep no state. Without
one the numbers are fresh on every run, or come from a stream if the process has a seed
(``random_seed``). The numbers are numpy's (PCG64), not those of another runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.random_seed import stream_of

_FLOAT64 = np.dtype(np.float64)
_INT32 = int(ElementType.INT32)
Draw = Callable[[np.random.Generator, tuple[int, ...], Any], Tensor]


#: Function that returns the generator of a run.
Source = Callable[[], np.random.Generator]


def _source(info: OpKernelInfo) -> Source:
    seed = info.attribute("seed")
    if seed is not None:
        bits = int(np.float32(seed).view(np.uint32))  # a float attribute: its bits are the seed
        return lambda: np.random.default_rng(bits)
    stream = stream_of(info.node.index)
    return np.random.default_rng if stream is None else lambda: stream


def _filled(
    context: OpKernelContext, source: Source, draw: Draw, shape: tuple[int, ...], dtype: Any
) -> Tensor:
    out = context.output(0, shape, np.dtype(dtype))
    work = dtype if dtype in (np.float32, np.float64) else np.dtype(np.float32)
    context.check_allocation(out.size * np.dtype(work).itemsize)
    np.copyto(out, draw(source(), shape, work), casting="unsafe")
    return out


def _normal(info: OpKernelInfo) -> Draw:
    mean, scale = float(info.attribute("mean", 0.0)), float(info.attribute("scale", 1.0))
    return lambda generator, shape, dtype: _moved(
        generator.standard_normal(shape, dtype), scale, mean
    )


def _uniform(info: OpKernelInfo) -> Draw:
    low, high = float(info.attribute("low", 0.0)), float(info.attribute("high", 1.0))
    return lambda generator, shape, dtype: _moved(generator.random(shape, dtype), high - low, low)


def _moved(drawn: Any, factor: float, shift: float) -> Tensor:
    numbers = np.asarray(drawn)
    numbers *= numbers.dtype.type(factor)
    numbers += numbers.dtype.type(shift)
    return numbers


def _of_shape(info: OpKernelInfo, draw: Draw) -> Compute:
    shape = tuple(info.attribute("shape"))
    if any(dimension < 0 for dimension in shape):
        raise ValueError(f"shape {shape} has a negative dimension")
    dtype = numpy_dtype(ElementType(info.attribute("dtype", int(ElementType.FLOAT))))
    source = _source(info)
    return lambda context: _filled(context, source, draw, shape, dtype)


def _like(info: OpKernelInfo, draw: Draw) -> Compute:
    declared, source = info.attribute("dtype"), _source(info)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        dtype = numpy_dtype(ElementType(declared)) if declared else x.dtype
        return _filled(context, source, draw, x.shape, dtype)

    return compute


@kernel("RandomNormal", since=(1, 22))
def random_normal(info: OpKernelInfo) -> Compute:
    return _of_shape(info, _normal(info))


@kernel("RandomUniform", since=(1, 22))
def random_uniform(info: OpKernelInfo) -> Compute:
    return _of_shape(info, _uniform(info))


@kernel("RandomNormalLike", since=(1, 22))
def random_normal_like(info: OpKernelInfo) -> Compute:
    return _like(info, _normal(info))


@kernel("RandomUniformLike", since=(1, 22))
def random_uniform_like(info: OpKernelInfo) -> Compute:
    return _like(info, _uniform(info))


@kernel("Bernoulli", since=(15, 22))
def bernoulli(info: OpKernelInfo) -> Compute:
    """1 with the probability that the input gives, else 0."""
    declared, source = info.attribute("dtype"), _source(info)

    def compute(context: OpKernelContext, probability: Tensor) -> Tensor:
        dtype = numpy_dtype(ElementType(declared)) if declared else probability.dtype
        out = context.output(0, probability.shape, dtype)
        context.check_allocation(probability.size * (2 * _FLOAT64.itemsize + 1))
        drawn = source().random(probability.shape) < probability.astype(_FLOAT64)
        np.copyto(out, drawn, casting="unsafe")
        return out

    return compute


@kernel("Multinomial", since=(7, 22))
def multinomial(info: OpKernelInfo) -> Compute:
    """``sample_size`` class indices per row of unnormalized log-probabilities (batch, classes)."""
    count = int(info.attribute("sample_size", 1))
    dtype = numpy_dtype(ElementType(info.attribute("dtype", _INT32)))
    source = _source(info)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim != 2 or not x.shape[1] or count < 0:
            raise ValueError(
                f"{count} samples need log-probabilities (batch, classes), not shape {x.shape}"
            )
        out = context.output(0, (x.shape[0], count), dtype)
        context.check_allocation((3 * x.size + 2 * out.size) * _FLOAT64.itemsize)
        wide = x.astype(_FLOAT64)
        cumulative = np.cumsum(np.exp(wide - wide.max(axis=1, keepdims=True)), axis=1)
        drawn = source().random((x.shape[0], count)) * cumulative[:, -1:]
        for row, (edges, positions) in enumerate(zip(cumulative, drawn, strict=True)):
            context.check_cancelled()
            out[row] = np.minimum(np.searchsorted(edges, positions, side="right"), x.shape[1] - 1)
        return out

    return compute
