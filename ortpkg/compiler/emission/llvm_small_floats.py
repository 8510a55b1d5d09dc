"""Floats of 16 bits in LLVM IR, as integers that are converted to and from f32.

With LLVM's own types for them, LLVM would call a library on CPUs that do not support them.
"""

from __future__ import annotations

from typing import Protocol

from ortpkg.compiler.emission.llvm_types import vector_of
from ortpkg.compiler.loop_ir.loop_types import Scalar

SMALL_FLOATS = frozenset({Scalar.F16, Scalar.BF16})


class Emitter(Protocol):
    """Receiver of emitted instructions."""

    @property
    def converts_half(self) -> bool:
        """True if the CPU converts f16."""
        ...

    def do(self, instruction: str) -> str:
        """Emit an instruction; return the name of its result."""
        ...

    def splat(self, value: str, element: str, lanes: int) -> str:
        """Emit a vector with one value in each lane; return its name."""
        ...


def widened(scalar: Scalar, lanes: int, operand: str, emitter: Emitter) -> str:
    """Emit the conversion of f16 or bf16 to f32."""
    words = _Words(lanes, emitter)
    if scalar is Scalar.BF16:
        return words.as_float(words.op("shl", words.zero_extended(operand), 16))
    if emitter.converts_half:
        half = emitter.do(f"bitcast {words.halves} {operand} to {vector_of('half', lanes)}")
        return emitter.do(f"fpext {vector_of('half', lanes)} {half} to {words.floats}")
    return _widened_half(words, operand)


def narrowed(scalar: Scalar, lanes: int, operand: str, emitter: Emitter) -> str:
    """Emit the conversion of f32 to f16 or bf16: rounds half to even, and keeps NaN."""
    words = _Words(lanes, emitter)
    if scalar is Scalar.BF16:
        return _narrowed_to_bfloat(words, operand)
    if emitter.converts_half:
        half = emitter.do(f"fptrunc {words.floats} {operand} to {vector_of('half', lanes)}")
        return emitter.do(f"bitcast {vector_of('half', lanes)} {half} to {words.halves}")
    return _narrowed_to_half(words, operand)


def _widened_half(words: _Words, operand: str) -> str:
    """Emit f16 to f32; a product changes the exponent's bias and is right for denormals too."""
    bits = words.zero_extended(operand)
    sign = words.op("shl", words.op("and", bits, 0x8000), 16)
    size = words.op("and", bits, 0x7FFF)
    scaled = words.times_power_of_2(words.as_float(words.op("shl", size, 13)), 112)
    finite = words.as_word(scaled)
    is_finite = words.compared("ult", size, 0x7C00)
    chosen = words.select(is_finite, finite, words.op("or", finite, 0x7F800000))
    return words.as_float(words.op("or", chosen, sign))


def _narrowed_to_half(words: _Words, operand: str) -> str:
    """Emit f32 to f16.

    Source: F. Giesen, "Float to half conversion", round to nearest even.
    """
    bits = words.as_word(operand)
    sign = words.op("and", words.op("lshr", bits, 16), 0x8000)
    size = words.op("and", bits, 0x7FFFFFFF)
    is_odd = words.op("and", words.op("lshr", size, 13), 1)
    rounded = words.op("add", words.op("add", size, is_odd), 0xFFF - (112 << 23))
    normal = words.op("lshr", rounded, 13)
    # adding a float whose last bit is worth the least f16 rounds to a multiple of that
    summed = words.plus_half(words.as_float(size))
    denormal = words.op("sub", words.as_word(summed), 126 << 23)
    made = words.select(words.compared("ult", size, 113 << 23), denormal, normal)
    is_nan = words.compared("ugt", size, 0x7F800000)
    beyond = words.select(is_nan, words.number(0x7E00), words.number(0x7C00))
    made = words.select(words.compared("uge", size, 143 << 23), beyond, made)
    return words.truncated(words.op("or", made, sign))


def _narrowed_to_bfloat(words: _Words, operand: str) -> str:
    bits = words.as_word(operand)
    upper = words.op("lshr", bits, 16)
    raised = words.op("add", words.op("and", upper, 1), 0x7FFF)
    rounded = words.op("lshr", words.op("add", bits, raised), 16)
    is_nan = words.compared("ugt", words.op("and", bits, 0x7FFFFFFF), 0x7F800000)
    return words.truncated(words.select(is_nan, words.op("or", upper, 0x40), rounded))


class _Words:
    """Emits instructions over vectors of i32; an operand is a value's name or a number."""

    def __init__(self, lanes: int, emitter: Emitter) -> None:
        self._lanes, self._emitter = lanes, emitter
        self.halves, self._words = vector_of("i16", lanes), vector_of("i32", lanes)
        self.floats, self._bools = vector_of("float", lanes), vector_of("i1", lanes)

    def number(self, number: int) -> str:
        if self._lanes == 1:
            return str(number)
        return self._emitter.splat(str(number), "i32", self._lanes)

    def op(self, word: str, left: str, right: str | int) -> str:
        second = self.number(right) if isinstance(right, int) else right
        return self._emitter.do(f"{word} {self._words} {left}, {second}")

    def compared(self, predicate: str, left: str, number: int) -> str:
        return self.op(f"icmp {predicate}", left, number)

    def select(self, condition: str, then: str, otherwise: str) -> str:
        return self._emitter.do(
            f"select {self._bools} {condition}, {self._words} {then}, {self._words} {otherwise}"
        )

    def times_power_of_2(self, operand: str, exponent: int) -> str:
        factor = self.as_float(self.number((127 + exponent) << 23))
        return self._emitter.do(f"fmul {self.floats} {operand}, {factor}")

    def plus_half(self, operand: str) -> str:
        half = self.as_float(self.number(126 << 23))
        return self._emitter.do(f"fadd {self.floats} {operand}, {half}")

    def as_float(self, operand: str) -> str:
        return self._emitter.do(f"bitcast {self._words} {operand} to {self.floats}")

    def as_word(self, operand: str) -> str:
        return self._emitter.do(f"bitcast {self.floats} {operand} to {self._words}")

    def zero_extended(self, operand: str) -> str:
        return self._emitter.do(f"zext {self.halves} {operand} to {self._words}")

    def truncated(self, operand: str) -> str:
        return self._emitter.do(f"trunc {self._words} {operand} to {self.halves}")
