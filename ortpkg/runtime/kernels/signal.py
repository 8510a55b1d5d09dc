"""Signal processing: window functions, the mel filter bank, DFT and STFT."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.axes import normalized_axis
from ortpkg.runtime.kernels.element_types import widened, widened_nbytes
from ortpkg.runtime.kernels.interruptible_fft import transform_nbytes, transformed
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor


def _scalar(x: Tensor, name: str) -> int:
    """Return the value of a one-element integer tensor."""
    if x.size != 1:
        raise ValueError(f"{name} is one number, but this one has shape {x.shape}")
    return int(x.reshape(()))


#: Arrays with one number for each sample that the steps of a window hold at once.
_WINDOW_ARRAYS = 5


# --- windows --------------------------------------------------------------------------------------


def _window(info: OpKernelInfo, function: Callable[[Tensor], Tensor]) -> Compute:
    """Make a window of ``size`` samples of ``function``, whose argument runs from 0 to 2π."""
    periodic = bool(info.attribute("periodic", 1))
    dtype = numpy_dtype(ElementType(info.attribute("output_datatype", int(ElementType.FLOAT))))

    def compute(context: OpKernelContext, size: Tensor) -> Tensor:
        count = _scalar(size, "a window's size")
        if count < 0:
            raise ValueError(f"a window's size is not negative, but this one is {count}")
        out = context.output(0, (count,), dtype)
        context.check_allocation(_WINDOW_ARRAYS * count * np.dtype(np.float64).itemsize)
        steps = count if periodic else count - 1
        samples = function(np.arange(count) * (2 * np.pi / steps)) if steps else np.ones(count)
        np.copyto(out, samples, casting="unsafe")
        return out

    return compute


@kernel("HannWindow", since=(17,))
def hann_window(info: OpKernelInfo) -> Compute:
    return _window(info, lambda angle: 0.5 - 0.5 * np.cos(angle))


@kernel("HammingWindow", since=(17,))
def hamming_window(info: OpKernelInfo) -> Compute:
    return _window(info, lambda angle: 25 / 46 - 21 / 46 * np.cos(angle))


@kernel("BlackmanWindow", since=(17,))
def blackman_window(info: OpKernelInfo) -> Compute:
    return _window(info, lambda angle: 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle))


@kernel("MelWeightMatrix", since=(17,))
def mel_weight_matrix(info: OpKernelInfo) -> Compute:
    """Triangular filters (spectrogram bins, mel bins), spaced evenly on the mel scale."""
    dtype = numpy_dtype(ElementType(info.attribute("output_datatype", int(ElementType.FLOAT))))

    def compute(
        context: OpKernelContext,
        mel_bins: Tensor,
        dft_length: Tensor,
        rate: Tensor,
        low: Tensor,
        high: Tensor,
    ) -> Tensor:
        count, length = _scalar(mel_bins, "num_mel_bins"), _scalar(dft_length, "dft_length")
        if count < 0 or length < 0:
            raise ValueError(
                f"num_mel_bins and dft_length are not negative, but these are {count} and {length}"
            )
        bins = length // 2 + 1
        context.check_allocation((count + 2) * np.dtype(np.float64).itemsize)
        out = context.output(0, (bins, count), dtype)
        out[...] = 0
        edges = _mel_edges(count, length, _scalar(rate, "sample_rate"), float(low), float(high))
        if count and (edges.min() < 0 or edges.max() > bins):
            raise ValueError(
                f"the mel filters reach to bin {int(edges.max())} of a spectrogram of {bins} bins"
            )
        for index in range(count):
            context.check_cancelled()
            _draw_triangle(out[:, index], *(int(edge) for edge in edges[index : index + 3]))
        return out

    return compute


def _mel_edges(count: int, length: int, rate: int, low: float, high: float) -> Tensor:
    """Return the bins where filters begin, peak and end: filter i has edges i, i + 1, i + 2."""
    lowest, highest = (2595 * np.log10(1 + hertz / 700) for hertz in (low, high))
    mel = np.arange(count + 2) * ((highest - lowest) / (count + 2)) + lowest
    hertz = 700 * (np.power(10, mel / 2595) - 1)
    return np.asarray(np.floor((length + 1) * hertz / rate), dtype=np.int64)


def _draw_triangle(column: Tensor, lower: int, centre: int, upper: int) -> None:
    if centre == lower:
        column[centre] = 1
    else:
        column[lower : centre + 1] = np.arange(centre - lower + 1) / (centre - lower)
    if upper > centre:
        column[centre:upper] = np.arange(upper - centre, 0, -1) / (upper - centre)


# --- transforms -----------------------------------------------------------------------------------


@kernel("DFT", since=(17,))
def dft_17(info: OpKernelInfo) -> Compute:
    axis = int(info.attribute("axis", 1))
    transform = _dft(info)
    return lambda context, x, length=None: transform(context, x, length, axis)


@kernel("DFT", since=(20,))
def dft(info: OpKernelInfo) -> Compute:
    transform = _dft(info)

    def compute(
        context: OpKernelContext,
        x: Tensor,
        length: Tensor | None = None,
        axis: Tensor | None = None,
    ) -> Tensor:
        return transform(context, x, length, -2 if axis is None else _scalar(axis, "axis"))

    return compute


def _dft(info: OpKernelInfo) -> Callable[[OpKernelContext, Tensor, Tensor | None, int], Tensor]:
    """Make the transform of (..., 1) real or (..., 2) complex samples along an axis.

    The result is complex in the same layout. ``onesided`` keeps the first half of a forward
    transform of real samples; an inverse one then gives real samples.
    """
    inverse, onesided = bool(info.attribute("inverse", 0)), bool(info.attribute("onesided", 0))

    def transform(context: OpKernelContext, x: Tensor, length: Tensor | None, axis: int) -> Tensor:
        axis = normalized_axis(axis, x.ndim)
        if axis == x.ndim - 1:
            raise ValueError(
                "the last axis holds real and imaginary parts; a DFT runs along another"
            )
        is_half = inverse and onesided
        size = x.shape[axis] if length is None else _scalar(length, "dft_length")
        if length is None and is_half:
            size = 2 * (x.shape[axis] - 1)
        if size < 1:
            raise ValueError(f"a DFT has a positive length, not {size}")
        rows = x.size // max(x.shape[axis] * x.shape[-1], 1)
        of_samples = 0 if x.shape[-1] == 1 else 2 * x.size // x.shape[-1]
        context.check_allocation(
            widened_nbytes(x)
            + (2 * of_samples + 4 * rows * size) * np.dtype(np.complex128).itemsize
            + transform_nbytes(size)
        )
        signal = np.moveaxis(_complex(x), axis, -1)
        lines = signal.reshape(math.prod(signal.shape[:-1]), signal.shape[-1])
        if is_half:
            lines = _whole_spectrum(lines, size)
        result = transformed(context, lines, size, inverse=inverse)
        result = np.moveaxis(result.reshape(*signal.shape[:-1], size), -1, axis)
        if is_half:
            return _parts(context, result.real[..., None], x.dtype)
        if onesided:
            result = result[(slice(None),) * axis + (slice(0, size // 2 + 1),)]
        return _parts(context, np.stack([result.real, result.imag], axis=-1), x.dtype)

    return transform


def _whole_spectrum(half: Tensor, size: int) -> Tensor:
    """Return the spectra of ``size`` real samples from the first half; missing bins are zeros."""
    whole = np.zeros((len(half), size), np.result_type(half.dtype, np.complex64))
    bins = min(half.shape[1], size // 2 + 1)
    whole[:, :bins] = half[:, :bins]
    whole[:, 0] = whole[:, 0].real
    if size % 2 == 0:
        whole[:, size // 2] = whole[:, size // 2].real
    mirrored = (size - 1) // 2
    whole[:, size - mirrored :] = whole[:, 1 : mirrored + 1][:, ::-1].conj()
    return whole


def _complex(x: Tensor) -> Tensor:
    wide = widened(x)
    if x.shape[-1] == 1:
        return wide[..., 0]
    if x.shape[-1] != 2:
        raise ValueError(
            f"the last axis holds 1 or 2 parts of a number, but this one has {x.shape[-1]}"
        )
    return np.asarray(wide[..., 0] + 1j * wide[..., 1])


def _parts(context: OpKernelContext, result: Tensor, dtype: np.dtype[np.generic]) -> Tensor:
    out = context.output(0, result.shape, dtype)
    np.copyto(out, result, casting="unsafe")
    return out


@kernel("STFT", since=(17,))
def stft(info: OpKernelInfo) -> Compute:
    """Windowed DFTs of a signal's frames: (batch, samples, 1 or 2) to (batch, frames, bins, 2)."""
    onesided = bool(info.attribute("onesided", 1))

    def compute(
        context: OpKernelContext,
        x: Tensor,
        step: Tensor,
        window: Tensor | None = None,
        length: Tensor | None = None,
    ) -> Tensor:
        if x.ndim == 2:
            x = x[..., None]
        samples, stride = x.shape[1], _scalar(step, "frame_step")
        window_size = samples if window is None else window.shape[0]
        size = window_size if length is None else _scalar(length, "frame_length")
        if (
            stride < 1
            or not 1 <= size <= samples
            or (window is not None and window.shape != (size,))
        ):
            raise ValueError(
                f"frames of {size} samples every {stride}, with a window of {window_size},"
                f" do not fit {samples} samples"
            )
        count = x.shape[0] * ((samples - size) // stride + 1) * size
        number = np.result_type(x.dtype, np.complex64).itemsize
        context.check_allocation(4 * (count + x.size) * number + transform_nbytes(size))
        frames = np.lib.stride_tricks.sliding_window_view(_complex(x), size, axis=1)[:, ::stride]
        weighted = frames if window is None else frames * widened(window)
        result = transformed(context, weighted.reshape(-1, size), size).reshape(frames.shape)
        if onesided:
            result = result[..., : size // 2 + 1]
        return _parts(context, np.stack([result.real, result.imag], axis=-1), x.dtype)

    return compute
