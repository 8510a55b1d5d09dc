"""Functions that numpy lacks, and the block-wise evaluation that keeps their temporaries in cache.

The functions here write to ``out`` and tolerate infinities and NaN; the executor silences
floating-point warnings (it runs every model under ``np.errstate(all="ignore")``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ortpkg.runtime.kernels.op_kernel import Tensor

#: Elements per block: 128 kB of float32, so that a block and its temporaries stay in a core's
#: second-level cache, and a numpy call's own time is small beside its work.
BLOCK = 32_768

#: erf(x) / x for |x| <= _ERF_LIMIT as a ratio of polynomials in x², lowest power first; fitted
#: (iteratively reweighted least squares on Chebyshev nodes) to a relative error of 2.1e-8. Beyond
#: the limit erf is 1 in float32.
_ERF_LIMIT = np.float32(3.95)
_ERF_NUMERATOR = tuple(
    np.float32(c)
    for c in (
        1.12837914371,
        0.1915513356354847,
        0.052875571924458346,
        0.003808197398312921,
        0.00028468706264632025,
        2.0258838865103e-06,
    )
)
_ERF_DENOMINATOR = tuple(
    np.float32(c)
    for c in (
        1.0,
        0.503090627496464,
        0.11456003586599568,
        0.015055170136475884,
        0.0011707312776205784,
        3.783150972812591e-05,
    )
)
_erf_float64 = np.frompyfunc(math.erf, 1, 1)

#: atanh(erf(x / √2)) / x as a polynomial in x², lowest power first, fitted (reweighted least
#: squares) so that its tanh gives erf to 6e-8 everywhere. It grows without end, so nothing needs to
#: be clamped.
_PHI_ARGUMENT = tuple(
    np.float32(c)
    for c in (
        0.7978849414623908,
        0.0363330845634152,
        -3.259496194894411e-05,
        -5.530620038411773e-05,
        3.9647458403801354e-06,
        -1.3226347133815052e-07,
        1.7561750307233858e-09,
    )
)


def apply_in_blocks(function: Callable[[Tensor, Tensor], None], x: Tensor, out: Tensor) -> None:
    """Call ``function(x_block, out_block)`` over flat blocks of two arrays of one shape.

    ``out`` may be ``x`` itself if ``function`` allows that.
    """
    if x.ndim == 0:
        x, out = x.reshape(1), out.reshape(1)
    if x.size <= BLOCK:
        function(x, out)
        return
    if not (x.flags.c_contiguous and out.flags.c_contiguous):
        step = max(BLOCK * len(x) // x.size, 1)
        for start in range(0, len(x), step):
            function(x[start : start + step], out[start : start + step])
        return
    flat_x, flat_out = x.reshape(-1), out.reshape(-1)
    for start in range(0, flat_x.size, BLOCK):
        block = slice(start, start + BLOCK)
        function(flat_x[block], flat_out[block])


def temporaries(x: Tensor, count: int) -> list[Tensor]:
    """Return ``count`` uninitialized arrays of the shape and type of ``x``."""
    return [np.empty(x.shape, x.dtype) for _ in range(count)]


def _horner(coefficients: tuple[np.float32, ...], u: Tensor, result: Tensor) -> Tensor:
    result.fill(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        np.multiply(result, u, out=result)
        np.add(result, coefficient, out=result)
    return result


def erf_block(x: Tensor, out: Tensor) -> None:
    """Error function, exact to 1 ulp in float64; in float32 to 7, and 1 on average."""
    if x.dtype != np.float32:
        out[...] = _erf_float64(x)
        return
    clamped, square, numerator, denominator = temporaries(x, 4)
    np.clip(x, -_ERF_LIMIT, _ERF_LIMIT, out=clamped)
    np.multiply(clamped, clamped, out=square)
    _horner(_ERF_NUMERATOR, square, numerator)
    numerator *= clamped
    np.divide(numerator, _horner(_ERF_DENOMINATOR, square, denominator), out=out)
    np.clip(out, np.float32(-1), np.float32(1), out=out)


def phi_block(x: Tensor, out: Tensor, square: Tensor) -> None:
    """Φ, the normal distribution function, to 6e-8 in float32.

    ``out`` and ``square``, for x², must not be ``x``.
    """
    if x.dtype != np.float32:
        erf_block(np.multiply(x, math.sqrt(0.5), dtype=x.dtype), out)
    else:
        np.multiply(x, x, out=square)
        np.multiply(square, _PHI_ARGUMENT[-1], out=out)
        for coefficient in _PHI_ARGUMENT[-2:0:-1]:
            np.add(out, coefficient, out=out)
            np.multiply(out, square, out=out)
        np.add(out, _PHI_ARGUMENT[0], out=out)
        np.multiply(out, x, out=out)
        np.tanh(out, out=out)
    np.add(out, x.dtype.type(1), out=out)
    np.multiply(out, x.dtype.type(0.5), out=out)


def sigmoid_block(x: Tensor, out: Tensor) -> None:
    """1 / (1 + exp(-x)); ``out`` may be ``x``, and either a part of rows."""
    # not np.negative: that of numpy 2.4 takes every fourth float32 for one behind the other
    np.multiply(x, x.dtype.type(-1), out=out)
    np.exp(out, out=out)
    np.add(out, x.dtype.type(1), out=out)
    np.reciprocal(out, out=out)


def softplus_block(x: Tensor, out: Tensor) -> None:
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)), which does not overflow.

    ``out`` may be ``x``.
    """
    (tail,) = temporaries(x, 1)
    softplus_into(x, out, tail)


def softplus_into(x: Tensor, out: Tensor, tail: Tensor) -> None:
    """:func:`softplus_block` with ``tail`` as its temporary."""
    np.abs(x, out=tail)
    np.negative(tail, out=tail)
    np.exp(tail, out=tail)
    np.log1p(tail, out=tail)
    np.maximum(x, x.dtype.type(0), out=out)
    np.add(out, tail, out=out)
