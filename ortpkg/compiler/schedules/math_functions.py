"""Functions of floats as vector polynomials in the loop IR.

All take f32. NaN gives NaN, infinities give the limits, denormals are exact operands. The largest
errors, in units in the last place of the result (also for denormal results), with and without an
instruction that fuses a product and a sum:

===========  ============  ============  ==========================================================
function     fused         not fused     source
===========  ============  ============  ==========================================================
exp          1.1           1.1           polynomial of Cephes' ``expf``
sigmoid      2.5           2.5           by exp
tanh         2.5           2.5           by exp(2x) - 1
erf          1.2           1.2           two polynomials, of N. Juffa
log          1.0           1.2           polynomial of N. Juffa
sin, cos     1.6           1.6           the argument is reduced in f64, beyond 1,000,000 in 96 bits
pow          0.6           0.6           computed in f64
===========  ============  ============  ==========================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import Function

_LOG2_E = 1.4426950408889634
#: The logarithm of 2 in two parts; the first has few bits, so that its products are exact.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
#: Adding it to a float rounds to a whole number, which is then in the lowest bits of the sum.
_ROUNDER, _ROUNDER_BITS = 12582912.0, 0x4B400000
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
        5.0000001201e-1)  # fmt: skip
_MOST_EXP, _LEAST_EXP = 90.0, -105.0
_LEAST_EXP_UP_TO_1 = -86.0
#: From these numbers on, tanh and erf are 1.
_MOST_TANH, _MOST_ERF = 10.0, 4.0
_ERF_NEAR = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
             1.28379166e-1)  # fmt: skip
_ERF_FAR = (-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1,
            -6.34846687e-1, -1.28717512e-1)  # fmt: skip
_ERF_BORDER = 0.927734375
_LEAST_NORMAL = 2.0**-126
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
#: Half of pi in three parts, the first two of 33 bits (source: fdlibm's ``__ieee754_rem_pio2``).
_HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
_F64_ROUNDER = 6755399441055744.0
#: From this number on, three parts of half of pi are too few.
_FAR = 1e6
#: 2 / pi (source: OEIS A060294): words of 64 bits, 32 bits apart, the first from bit 2^23 on.
_TWO_BY_PI = (0xA2F9836E4E, 0xF9836E4E441529FC, 0x441529FC2757D1F5, 0x2757D1F534DDC0DB,
              0x34DDC0DB6295993C, 0x6295993C439041FE)  # fmt: skip
_SIGN = -(1 << 31)


def exp(b: KernelBuilder, x: Value) -> Value:
    """Return the exponential of x."""
    near_one, power_of_2 = _split_exp(b, _clamped(b, x, _LEAST_EXP, _MOST_EXP))
    half = b.compute(Op.SHR, power_of_2, 1)
    first, second = _power_of_2(b, half), _power_of_2(b, b.sub(power_of_2, half))
    return b.mul(b.mul(near_one, first), second)


def exp_up_to_1(b: KernelBuilder, x: Value) -> Value:
    """Return the exponential of numbers of at most 0; 0 for those below -86 and -infinity.

    NaN stays NaN. It takes two thirds of the instructions of :func:`exp`, and is as exact.
    """
    shifted = b.fma(x, _LOG2_E, _ROUNDER)
    whole = b.sub(shifted, _ROUNDER)
    fraction = b.fma(whole, -_LN2_LOW, b.fma(whole, -_LN2_HIGH, x))
    square = b.mul(fraction, fraction)
    near_one = b.add(b.fma(_polynomial(b, fraction, _EXP), square, fraction), 1.0)
    words = x.type.with_scalar(Scalar.I32)
    # the bits of _ROUNDER are shifted out; what is left is added to the exponent
    power_of_2 = b.compute(Op.SHL, b.bitcast(shifted, words), 23)
    made = b.bitcast(b.add(b.bitcast(near_one, words), power_of_2), x.type)
    is_near = b.compute(Op.GE, x, _LEAST_EXP_UP_TO_1)
    return b.select(is_near, made, b.compute(Op.GREATER, _like(b, 0.0, x), x))


def sigmoid(b: KernelBuilder, x: Value) -> Value:
    """Return 1 / (1 + exp(-x))."""
    small = exp(b, b.compute(Op.NEG, b.compute(Op.ABS, x)))
    is_negative = b.compute(Op.LT, x, 0.0)
    return b.div(b.select(is_negative, small, 1.0), b.add(small, 1.0))


def tanh(b: KernelBuilder, x: Value) -> Value:
    """Return the hyperbolic tangent of x: e / (e + 2) with e = exp(2x) - 1."""
    size = b.compute(Op.LESSER, _like(b, _MOST_TANH, x), b.compute(Op.ABS, x))
    twice = b.add(size, size)
    fraction, power_of_2 = _reduced(b, twice)
    square = b.mul(fraction, fraction)
    less_one = b.fma(_polynomial(b, fraction, _EXP), square, fraction)
    scale = _power_of_2(b, power_of_2)
    grown = b.fma(scale, less_one, b.sub(scale, 1.0))
    return _with_sign_of(b, b.div(grown, b.add(grown, 2.0)), x)


def erf(b: KernelBuilder, x: Value) -> Value:
    """Return the error function of x."""
    size = b.compute(Op.LESSER, _like(b, _MOST_ERF, x), b.compute(Op.ABS, x))
    square = b.mul(size, size)
    near = b.fma(_polynomial(b, square, _ERF_NEAR), size, size)
    far = _polynomial(b, size, _ERF_FAR)
    far = b.sub(b.mul(far, size), size)
    near_one, power_of_2 = _split_exp(b, far)  # far is -16 to 0: no power of 2 is too small
    far = b.sub(1.0, b.mul(near_one, _power_of_2(b, power_of_2)))
    is_far = b.compute(Op.GT, size, _ERF_BORDER)
    return _with_sign_of(b, b.select(is_far, far, near), x)


def log(b: KernelBuilder, x: Value) -> Value:
    """Return the natural logarithm of x."""
    is_small = b.compute(Op.LT, x, _LEAST_NORMAL)
    normal = b.mul(x, b.select(is_small, _like(b, 2.0**23, x), 1.0))
    words = x.type.with_scalar(Scalar.I32)
    bits = b.bitcast(normal, words)
    shift = b.compute(Op.AND, b.sub(bits, 0x3F2AAAAB), -(1 << 23))
    fraction = b.sub(b.bitcast(b.sub(bits, shift), x.type), 1.0)
    power_of_2 = b.mul(b.cast(shift, Scalar.F32), 2.0**-23)
    power_of_2 = b.sub(power_of_2, b.select(is_small, _like(b, 23.0, x), 0.0))
    square = b.mul(fraction, fraction)
    odd = _polynomial(b, square, (0.140869141, 0.139814854, 0.200120345))
    even = _polynomial(b, square, (-0.130310059, -0.121484190, -0.166846052, -0.249996200))
    made = b.fma(b.fma(b.fma(odd, fraction, even), fraction, 0.333331972), fraction, -0.5)
    made = b.fma(power_of_2, math.log(2.0), b.fma(made, square, fraction))
    made = b.select(b.compute(Op.EQ, x, 0.0), _like(b, -math.inf, x), made)
    made = b.select(b.compute(Op.LT, x, math.inf), made, x)
    return b.select(b.compute(Op.LT, x, 0.0), _like(b, math.nan, x), made)


def sin(b: KernelBuilder, x: Value) -> Value:
    """Return the sine of x."""
    return _sine(b, x, quarters=0)


def cos(b: KernelBuilder, x: Value) -> Value:
    """Return the cosine of x."""
    return _sine(b, x, quarters=1)


#: Functions of one f32.
MATH_FUNCTIONS: Mapping[Function, Callable[[KernelBuilder, Value], Value]] = MappingProxyType({
    Function.EXP: exp,
    Function.LOG: log,
    Function.TANH: tanh,
    Function.ERF: erf,
    Function.SIGMOID: sigmoid,
    Function.SIN: sin,
    Function.COS: cos,
})  # fmt: skip


def power(b: KernelBuilder, base: Value, exponent: Value) -> Value:
    """Return ``base ** exponent``, both f32, with the special cases of C's Annex F.10.4.4."""
    size, wide = (b.cast(operand, Scalar.F64) for operand in (b.compute(Op.ABS, base), exponent))
    made = b.cast(_f64_exp(b, b.mul(_f64_log(b, size), wide)), Scalar.F32)
    is_one = b.compute(Op.EQ, base, 1.0)
    is_number = b.compute(Op.EQ, exponent, exponent)
    # the logarithm of 1 is 0, and 0 times infinity would be NaN
    is_unit = b.compute(Op.AND, b.compute(Op.EQ, size, 1.0), is_number)
    made = b.select(b.compute(Op.OR, is_one, is_unit), _like(b, 1.0, base), made)
    is_whole = b.compute(Op.EQ, b.compute(Op.TRUNC, exponent), exponent)
    half = b.mul(exponent, 0.5)
    is_odd = b.compute(Op.AND, is_whole, b.compute(Op.NE, b.compute(Op.FLOOR, half), half))
    made = b.select(is_odd, _with_sign_of(b, made, base), made)
    is_negative = b.compute(Op.AND, b.compute(Op.LT, base, 0.0), b.compute(Op.GT, base, -math.inf))
    has_none = b.compute(Op.AND, is_negative, b.compute(Op.NOT, is_whole))
    made = b.select(has_none, _like(b, math.nan, base), made)
    return b.select(b.compute(Op.EQ, exponent, 0.0), _like(b, 1.0, base), made)


def power_of_number(b: KernelBuilder, base: Value, exponent: float) -> Value:
    """Return ``base`` to a constant power; common ones become products and roots."""
    if exponent in {2, 3, 4}:
        square = b.mul(base, base)
        return square if exponent == 2 else b.mul(square, base if exponent == 3 else square)
    if exponent == 1:
        return base
    if exponent == -1:
        return b.div(_like(b, 1.0, base), base)
    return power(b, base, _like(b, exponent, base))


def _like(b: KernelBuilder, number: float, like: Value) -> Value:
    """Return a number of the type of another value."""
    return b.constant(number, like.type)


def _clamped(b: KernelBuilder, x: Value, least: float, most: float) -> Value:
    """Return the value clamped to bounds; NaN stays NaN."""
    below = b.compute(Op.LESSER, _like(b, most, x), x)
    return b.compute(Op.GREATER, _like(b, least, x), below)


def _polynomial(b: KernelBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    """Return the value of a polynomial, highest coefficient first."""
    made = _like(b, coefficients[0], x)
    for coefficient in coefficients[1:]:
        made = b.fma(made, x, coefficient)
    return made


def _reduced(b: KernelBuilder, x: Value) -> tuple[Value, Value]:
    r"""Return (r, n) with exp(x) = exp(r) * 2^n, \|r\| <= log(2) / 2, and n an i32."""
    shifted = b.fma(x, _LOG2_E, _ROUNDER)
    whole = b.sub(shifted, _ROUNDER)
    fraction = b.fma(whole, -_LN2_LOW, b.fma(whole, -_LN2_HIGH, x))
    bits = b.bitcast(shifted, x.type.with_scalar(Scalar.I32))
    return fraction, b.sub(bits, _ROUNDER_BITS)


def _split_exp(b: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return (p, n) with exp(x) = p * 2^n, and n an i32."""
    fraction, power_of_2 = _reduced(b, x)
    square = b.mul(fraction, fraction)
    return b.add(b.fma(_polynomial(b, fraction, _EXP), square, fraction), 1.0), power_of_2


def _power_of_2(b: KernelBuilder, exponent: Value) -> Value:
    """Return 2 to the power of an i32 from -126 to 128, as an f32; the last one is infinity."""
    bits = b.compute(Op.SHL, b.add(exponent, 127), 23)
    return b.bitcast(bits, exponent.type.with_scalar(Scalar.F32))


def _with_sign_of(b: KernelBuilder, size: Value, x: Value) -> Value:
    """Return a value that is not negative, with the sign of x."""
    words = x.type.with_scalar(Scalar.I32)
    sign = b.compute(Op.AND, b.bitcast(x, words), _SIGN)
    return b.bitcast(b.compute(Op.OR, b.bitcast(size, words), sign), x.type)


def _sine(b: KernelBuilder, x: Value, *, quarters: int) -> Value:
    """Return the sine of x plus this many quarters of a turn."""
    angle, quarter = _quarter_turns(b, x)
    size = b.compute(Op.ABS, x)
    is_far = b.compute(Op.GE, size, _FAR)  # includes infinities, which the loop skips
    is_any_far = b.cast(b.compute(Op.ANY, is_far), Scalar.I64)
    # a loop of one iteration or none, since few numbers are that large
    with b.loop(0, is_any_far, carried=(angle, quarter)) as loop:
        is_far = b.compute(Op.AND, is_far, b.compute(Op.LT, size, math.inf))
        reduced = _far_quarter_turns(b, x)
        loop.hand_on(*(b.select(is_far, *pair) for pair in zip(reduced, loop.carried, strict=True)))
    angle, quarter = loop.results
    return _sine_of_turns(b, angle, b.add(quarter, quarters))


def _sine_of_turns(b: KernelBuilder, angle: Value, quarter: Value) -> Value:
    """Return the sine of an angle from -pi / 4 to pi / 4 plus quarters of a turn."""
    square = b.mul(angle, angle)
    sine = b.fma(b.mul(_polynomial(b, square, _SIN), square), angle, angle)
    cosine = b.mul(square, square)
    cosine = b.fma(_polynomial(b, square, _COS), cosine, b.fma(square, -0.5, 1.0))
    is_odd = b.compute(Op.NE, b.compute(Op.AND, quarter, 1), 0)
    sign = b.compute(Op.SHL, b.compute(Op.AND, quarter, 2), 30)
    made = b.bitcast(b.select(is_odd, cosine, sine), quarter.type)
    return b.bitcast(b.compute(Op.XOR, made, sign), angle.type)


def _quarter_turns(b: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return (angle, n) with x = angle + n * pi / 2, and n an i32; exact up to ``_FAR``.

    The angle is NaN for infinities, and too large beyond ``_FAR``.
    """
    wide = b.cast(x, Scalar.F64)
    shifted = b.fma(wide, 2 / math.pi, _F64_ROUNDER)
    whole = b.sub(shifted, _F64_ROUNDER)
    rest = wide
    for part in _HALF_PI:
        rest = b.fma(whole, -part, rest)
    bits = b.cast(b.bitcast(shifted, wide.type.with_scalar(Scalar.I64)), Scalar.I32)
    return b.cast(rest, Scalar.F32), bits


def _far_quarter_turns(b: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return (angle, n) for numbers from 2 up, with the bits of 2 / pi that matter.

    A number is m * 2^e, with m of 24 bits. Bits of 2 / pi that make whole turns of it are left out,
    and
    those too low to matter. The sum of 96 bits is in units of 2^-62 quarters of a turn (Payne,
    Hanek).
    """
    words = b.bitcast(x, x.type.with_scalar(Scalar.U32))
    exponent = b.compute(Op.AND, b.compute(Op.SHR, words, 23), 0xFF)
    mantissa = b.compute(Op.OR, b.compute(Op.AND, words, 0x7FFFFF), 1 << 23)
    mantissa = b.cast(mantissa, Scalar.U64)
    high, middle, low = (b.mul(part, mantissa) for part in _bits_of_two_by_pi(b, exponent))
    turns = b.add(b.add(b.compute(Op.SHL, high, 32), middle), b.compute(Op.SHR, low, 32))
    quarter = b.compute(Op.SHR, b.add(turns, 1 << 61), 62)
    rest = b.sub(turns, b.compute(Op.SHL, quarter, 62))
    rest = b.cast(b.bitcast(rest, rest.type.with_scalar(Scalar.I64)), Scalar.F64)
    angle = b.cast(b.mul(rest, math.pi / 2 * 2.0**-62), Scalar.F32)
    quarter = b.cast(b.cast(quarter, Scalar.I64), Scalar.I32)
    is_negative = b.compute(Op.LT, x, 0.0)
    angle = b.select(is_negative, b.compute(Op.NEG, angle), angle)
    return angle, b.select(is_negative, b.compute(Op.NEG, quarter), quarter)


def _bits_of_two_by_pi(b: KernelBuilder, exponent: Value) -> list[Value]:
    """Return three words of 32 bits of 2 / pi, as u64, from the bit that the exponent selects.

    The exponent is that of an f32 with its bias, 128 or more.
    """
    wide = b.cast(exponent, Scalar.U64)
    step, shift = b.compute(Op.SHR, wide, 5), b.compute(Op.AND, wide, 31)
    bits = []
    for first in range(3):
        chosen = b.constant(_TWO_BY_PI[first], wide.type)
        for number in range(1, 4):
            is_later = b.compute(Op.GE, step, 4 + number)
            chosen = b.select(is_later, _TWO_BY_PI[first + number], chosen)
        bits.append(b.compute(Op.SHR, b.compute(Op.SHL, chosen, shift), 32))
    return bits


def _f64_log(b: KernelBuilder, x: Value) -> Value:
    """Return the logarithm of an f64 that is a nonnegative f32, by the series of artanh."""
    bits = b.bitcast(x, x.type.with_scalar(Scalar.I64))
    shift = b.compute(Op.AND, b.sub(bits, 0x3FE5555555555555), -(1 << 52))
    fraction = b.bitcast(b.sub(bits, shift), x.type)
    power_of_2 = b.mul(b.cast(b.compute(Op.SHR, shift, 52), Scalar.F64), math.log(2.0))
    ratio = b.div(b.sub(fraction, 1.0), b.add(fraction, 1.0))
    square = b.mul(ratio, ratio)
    series = _polynomial(b, square, [2.0 / (2 * k + 1) for k in range(10, 0, -1)])
    made = b.add(b.fma(b.mul(series, square), ratio, b.add(ratio, ratio)), power_of_2)
    made = b.select(b.compute(Op.LT, x, math.inf), made, x)
    return b.select(b.compute(Op.EQ, x, 0.0), _like(b, -math.inf, x), made)


def _f64_exp(b: KernelBuilder, x: Value) -> Value:
    """Return the exponential as an f64, in the range of f32, by its series."""
    x = _clamped(b, x, -110.0, 90.0)
    shifted = b.fma(x, _LOG2_E, _F64_ROUNDER)
    whole = b.sub(shifted, _F64_ROUNDER)
    fraction = b.fma(whole, -math.log(2.0), x)
    series = _polynomial(b, fraction, [1 / math.factorial(k) for k in range(12, -1, -1)])
    words = x.type.with_scalar(Scalar.I64)
    power_of_2 = b.compute(Op.SHL, b.add(b.bitcast(shifted, words), 1023), 52)
    return b.mul(series, b.bitcast(power_of_2, x.type))
