"""Integer division that never traps.

x86-64's ``idiv`` raises a signal for a divisor of 0, and for the least number divided by -1.
"""

from __future__ import annotations

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder


def guarded_quotient(b: KernelBuilder, left: Value, right: Value) -> Value:
    """Return the quotient, rounded to zero; 0 for a divisor of 0, and wrapped around for -1."""
    if _is_safe(b.number_of(right)):
        return b.div(left, right)
    is_zero = b.compute(Op.EQ, right, 0)
    if right.type.scalar.is_unsigned:
        return b.select(is_zero, 0, b.div(left, b.select(is_zero, 1, right)))
    is_minus = b.compute(Op.EQ, right, -1)
    divisor = b.select(b.compute(Op.OR, is_zero, is_minus), 1, right)
    quotient = b.select(is_minus, b.sub(0, left), b.div(left, divisor))
    return b.select(is_zero, 0, quotient)


def guarded_remainder(b: KernelBuilder, left: Value, right: Value) -> Value:
    """Return the remainder, with the sign of ``left``; 0 for divisors of 0 and -1."""
    if _is_safe(b.number_of(right)):
        return b.rem(left, right)
    is_unsafe = b.compute(Op.EQ, right, 0)
    if not right.type.scalar.is_unsigned:
        is_unsafe = b.compute(Op.OR, is_unsafe, b.compute(Op.EQ, right, -1))
    return b.rem(left, b.select(is_unsafe, 1, right))


def _is_safe(divisor: float | None) -> bool:
    return divisor is not None and divisor not in {0, -1}
