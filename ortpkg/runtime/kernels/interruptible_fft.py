"""Fourier transforms in blocks, so that the limits of a run can end a long one in the middle.

numpy transforms in one call, which takes minutes for 10^8 samples and cannot be interrupted. Here a
long line is a matrix whose columns and rows are transformed (the four-step algorithm), and one
whose length has no such factors is a convolution of a length that has (Bluestein's algorithm).
"""

from __future__ import annotations

import math

import numpy as np

from ortpkg.runtime.kernels.op_kernel import OpKernelContext, Tensor

#: Most samples that numpy transforms in one call, which takes some 20 ms.
TRANSFORMED_AT_ONCE = 1 << 18
#: Complex numbers per sample that the transform of one line allocates, in numpy and here.
_SHORT_SCRATCH, _LONG_SCRATCH = 6, 16


def transform_nbytes(size: int) -> int:
    """Return the most bytes for transforming one line, besides the line and its result."""
    scratch = _SHORT_SCRATCH if size <= TRANSFORMED_AT_ONCE else _LONG_SCRATCH
    return scratch * size * np.dtype(np.complex128).itemsize


def transformed(
    context: OpKernelContext, lines: Tensor, size: int, *, inverse: bool = False
) -> Tensor:
    """Return the transform of each line as complex numbers.

    Lines are cut to ``size`` samples or filled with zeros. Raises like ``context.check_cancelled``.
    """
    made = np.empty((len(lines), size), np.result_type(lines.dtype, np.complex64))
    transform = np.fft.ifft if inverse else np.fft.fft
    step = max(TRANSFORMED_AT_ONCE // size, 1)
    for start in range(0, len(lines), step):
        context.check_cancelled()
        block = lines[start : start + step]
        if size <= TRANSFORMED_AT_ONCE:
            made[start : start + step] = transform(block, n=size, axis=-1)
            continue
        line = np.zeros(size, np.complex128)
        line[: block.shape[1]] = block[0, :size]
        made[start] = _inverse(context, line) if inverse else _long(context, line)
    return made


def _inverse(context: OpKernelContext, line: Tensor) -> Tensor:
    made = _long(context, np.conj(line, out=line))
    np.conj(made, out=made)
    made /= line.size
    return made


def _long(context: OpKernelContext, line: Tensor) -> Tensor:
    size = line.size
    for rows in range(math.isqrt(size), 0, -1):
        if size % rows == 0:
            is_split = size // rows <= TRANSFORMED_AT_ONCE or size & (size - 1) == 0
            return _by_rows(context, line, rows) if is_split else _by_convolution(context, line)
    raise AssertionError("1 divides every size")


def _by_rows(context: OpKernelContext, line: Tensor, rows: int) -> Tensor:
    """Transform a line of ``rows`` times ``columns`` samples, which is overwritten."""
    size, columns = line.size, line.size // rows
    matrix, made = line.reshape(rows, columns), np.empty(size, np.complex128)
    step = max(TRANSFORMED_AT_ONCE // rows, 1)
    row = np.arange(rows)[:, None]
    for start in range(0, columns, step):
        context.check_cancelled()
        column = np.arange(start, min(start + step, columns))
        part = np.fft.fft(matrix[:, start : start + step], axis=0)
        matrix[:, start : start + step] = part * np.exp(row * column * (-2j * np.pi / size))
    step = max(TRANSFORMED_AT_ONCE // columns, 1)
    for start in range(0, rows, step):
        context.check_cancelled()
        part = np.fft.fft(matrix[start : start + step], axis=1)
        made.reshape(columns, rows)[:, start : start + step] = part.T
    return made


def _by_convolution(context: OpKernelContext, line: Tensor) -> Tensor:
    """Transform a line of any length, as a convolution with a chirp."""
    size = line.size
    padded = 1 << (2 * size - 1).bit_length()
    chirp = np.empty(size, np.complex128)
    for start in range(0, size, TRANSFORMED_AT_ONCE):
        context.check_cancelled()
        positions = np.arange(start, min(start + TRANSFORMED_AT_ONCE, size))
        chirp[start : start + positions.size] = np.exp(
            positions * positions % (2 * size) * (-1j * np.pi / size)
        )
    other = np.zeros(padded, np.complex128)
    np.conj(chirp, out=other[:size])
    other[padded - size + 1 :] = other[1:size][::-1]
    other = _long(context, other)
    samples = np.zeros(padded, np.complex128)
    np.multiply(line, chirp, out=samples[:size])
    samples = _long(context, samples)
    samples *= other
    result = _inverse(context, samples)[:size]
    result *= chirp
    return result
