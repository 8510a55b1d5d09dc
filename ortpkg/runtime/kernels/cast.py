"""Conversion between element types: Cast, CastLike, BitCast.

Rules of ONNX's Cast: floats truncate to integers; to float8 and float4 a value out of range
saturates (or becomes infinity or NaN with ``saturate=0``); conversions to 4- and 2-bit integers
drop the high bits; strings are numbers in text.
"""

from __future__ import annotations

import platform
from typing import Any

import ml_dtypes
import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.element_types import is_float
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

_STRING = np.dtype(object)
#: Number of elements converted at once, fewer for texts, so that the steps stay in cache.
_ELEMENTS_AT_ONCE = 1 << 16
_TEXTS_AT_ONCE = 1 << 12
#: Bytes of a number as a text, and of its slot in a list.
_TEXT_NBYTES = 64
_CPU_IS_X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
_SPECIAL_TEXTS = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
_E8M0 = numpy_dtype(ElementType.FLOAT8E8M0)
_SATURATING = frozenset(
    numpy_dtype(element_type)
    for element_type in (
        ElementType.FLOAT8E4M3FN,
        ElementType.FLOAT8E4M3FNUZ,
        ElementType.FLOAT8E5M2,
        ElementType.FLOAT8E5M2FNUZ,
        ElementType.FLOAT4E2M1,
    )
)
_SUB_BYTE_INTEGERS = {
    numpy_dtype(ElementType.INT4): 4,
    numpy_dtype(ElementType.UINT4): 4,
    numpy_dtype(ElementType.INT2): 2,
    numpy_dtype(ElementType.UINT2): 2,
}
_E8M0_BIAS = 127
_E8M0_LARGEST = 254


@kernel("Cast", since=(1, 6, 9, 13, 19, 21, 23, 24, 25, 28))
def cast(info: OpKernelInfo) -> Compute:
    """Cast; version 1 names the target type as text ("FLOAT"), later ones by number."""
    to = info.attribute("to")
    target = numpy_dtype(ElementType[to] if isinstance(to, str) else ElementType(to))
    saturate = bool(info.attribute("saturate", 1))
    round_mode = str(info.attribute("round_mode", "up"))
    return lambda context, x: _converted_output(context, x, target, saturate, round_mode)


@kernel("CastLike", since=(15, 19, 21, 23, 24, 25))
def cast_like(info: OpKernelInfo) -> Compute:
    saturate = bool(info.attribute("saturate", 1))
    round_mode = str(info.attribute("round_mode", "up"))
    return lambda context, x, like: _converted_output(context, x, like.dtype, saturate, round_mode)


@kernel("BitCast", since=(26,))
def bit_cast(info: OpKernelInfo) -> Compute:
    target = numpy_dtype(ElementType(info.attribute("to")))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.dtype.itemsize != target.itemsize:
            raise ValueError(
                f"elements of {x.dtype} and of {target} differ in size, so bits cannot be"
                " reinterpreted"
            )
        out = context.output(0, x.shape, target)
        np.copyto(out, x.view(target))
        return out

    return compute


def _converted_output(
    context: OpKernelContext, x: Tensor, target: np.dtype[Any], saturate: bool, round_mode: str
) -> Tensor:
    out = context.output(0, x.shape, target)
    if target == _STRING and x.dtype != _STRING:
        context.check_allocation(_TEXT_NBYTES * x.size)
    flat, made = x.reshape(-1), out.reshape(-1)
    step = _TEXTS_AT_ONCE if _STRING in (x.dtype, target) else _ELEMENTS_AT_ONCE
    for start in range(0, x.size, step):
        poll_run()
        block = slice(start, start + step)
        values = converted(flat[block], target, saturate=saturate, round_mode=round_mode)
        np.copyto(made[block], values, casting="unsafe")
    return out


def converted(
    x: Tensor, target: np.dtype[Any], *, saturate: bool = True, round_mode: str = "up"
) -> Tensor:
    """Return ``x`` in the run-time dtype ``target``, by ONNX's rules where numpy's differ."""
    if x.dtype == target:
        return x
    if x.dtype == _STRING or x.dtype.kind in "US":
        return converted(_parsed(x, target), target, saturate=saturate, round_mode=round_mode)
    if target == _STRING:
        return _formatted(x)
    if target == _E8M0:
        return _to_e8m0(x, saturate, round_mode)
    if target in _SATURATING:
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        if saturate or target == numpy_dtype(ElementType.FLOAT4E2M1):
            largest = float(ml_dtypes.finfo(target).max)
            wide = np.clip(wide, -largest, largest)
        return np.asarray(wide).astype(target)
    if target in _SUB_BYTE_INTEGERS and x.dtype not in _SUB_BYTE_INTEGERS:
        return _low_bits(x, target)
    if target == np.bool_ and is_float(x.dtype):
        return np.asarray(x != 0)
    if is_float(x.dtype) and target.kind in "iu":
        # numpy cannot convert floats of ml_dtypes to integers directly.
        wide = x if x.dtype == np.float64 else x.astype(np.float32, copy=False)
        return wide if _converts_as_cast(target) else _whole_numbers(wide, target)
    return x


def _converts_as_cast(target: np.dtype[Any]) -> bool:
    """Return True if numpy on this CPU converts floats as :func:`_whole_numbers` does.

    Not to uint32: there numpy converts an array's last elements differently from the others.
    """
    return _CPU_IS_X86 and target != np.uint32


def _whole_numbers(x: Tensor, target: np.dtype[Any]) -> Tensor:
    """Convert floats to 32- or 64-bit integers whose low bits are the result of Cast.

    ONNX does not define the result out of range. On every CPU it is the one of numpy and
    onnxruntime on x86: the lowest integer of 32 bits, or of 64 bits for 64-bit targets.
    """
    wide: np.dtype[Any] = np.dtype(np.int64 if target.itemsize == 8 else np.int32)
    beyond = x.dtype.type(2.0 ** (8 * wide.itemsize - 1))

    def converted_part(part: Tensor) -> Tensor:
        fits = (part >= -beyond) & (part < beyond)
        return np.asarray(np.where(fits, part, -beyond)).astype(wide)

    integers = converted_part(x)
    if target in (np.uint32, np.uint64):
        upper = converted_part(x - beyond) ^ np.iinfo(wide).min
        integers = np.where(x >= beyond, upper, integers)
    return integers


def _parsed(x: Tensor, target: np.dtype[Any]) -> Tensor:
    """Parse numbers from text: integers exactly, floats as float64.

    Raises:
        ValueError: a text is no number; the message names it.
    """
    to_integer = target.kind in "iu"

    def parse(text: Any) -> Any:
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        try:
            if to_integer:
                try:
                    return int(text)
                except ValueError:
                    return int(float(text))
            return float(text)
        except (ValueError, OverflowError):
            raise ValueError(
                f"{quoted(text)} is not a number, so it cannot become {target}"
            ) from None

    numbers = [parse(text) for text in x.ravel().tolist()]
    if not to_integer:
        return np.array(numbers, dtype=np.float64).reshape(x.shape)
    try:
        return np.array(numbers, dtype=target).reshape(x.shape)
    except OverflowError:
        raise ValueError(f"a number in the text does not fit {target}") from None


def _formatted(x: Tensor) -> Tensor:
    """Return each element as text, as onnxruntime writes it.

    Floats of any width have up to eight digits, true is 1, and NaN and infinities are the words
    that Cast reads back (Cast, "string literals reserved for special floating-point values").
    """
    if is_float(x.dtype):
        numbers = x.astype(np.float64).ravel().tolist()
        texts = [_SPECIAL_TEXTS.get(text, text) for text in map("{:.8g}".format, numbers)]
    else:
        integers = x.astype(np.int8) if x.dtype.kind in "bV" else x  # numpy's bool, ml_dtypes' int4
        texts = [str(number) for number in integers.ravel().tolist()]
    out = np.empty(x.shape, dtype=object)
    out.ravel()[:] = texts
    return out


def _low_bits(x: Tensor, target: np.dtype[Any]) -> Tensor:
    whole = x.astype(np.int64) if x.dtype.kind in "iub" else x.astype(np.float64).astype(np.int64)
    bits = _SUB_BYTE_INTEGERS[target]
    low = whole & ((1 << bits) - 1)
    if target in (numpy_dtype(ElementType.INT4), numpy_dtype(ElementType.INT2)):
        low = np.where(low >= 1 << (bits - 1), low - (1 << bits), low)
    return np.asarray(low).astype(np.int8).astype(target)


def _to_e8m0(x: Tensor, saturate: bool, round_mode: str) -> Tensor:
    """Return powers of two: 8 exponent bits without sign; 255 is NaN.

    The significand rounds by ``round_mode``: up, down, or to the nearest power, halves away from
    zero. Source: the Cast operator, "E8M0" (OCP Microscaling).
    """
    wide = np.abs(x.astype(np.float64))
    # wide = significand · 2**exponent, 0.5 <= significand < 1
    significand, exponent = np.frexp(wide)
    if round_mode == "up":
        exponent = np.where(significand > 0.5, exponent, exponent - 1)
    elif round_mode == "down":
        exponent = exponent - 1
    else:
        exponent = np.where(significand >= 0.75, exponent, exponent - 1)
    biased = np.where(wide == 0, -_E8M0_BIAS, exponent) + _E8M0_BIAS
    if saturate:
        biased = np.clip(biased, 0, _E8M0_LARGEST)
        biased = np.where(np.isinf(wide), _E8M0_LARGEST, biased)
    else:
        biased = np.where((biased > _E8M0_LARGEST) | (biased < 0) | np.isinf(wide), 255, biased)
    biased = np.where(np.isnan(wide), 255, biased)
    return biased.astype(np.uint8).view(_E8M0)
