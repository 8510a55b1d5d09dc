"""Types and constants of the loop IR as text of LLVM IR."""

from __future__ import annotations

import math
import struct

from ortpkg.compiler.loop_ir.loop_types import LoopType, Scalar

_LLVM: dict[Scalar, str] = {
    Scalar.F64: "double",
    Scalar.F32: "float",
    Scalar.F16: "i16",
    Scalar.BF16: "i16",
    Scalar.I64: "i64",
    Scalar.U64: "i64",
    Scalar.I32: "i32",
    Scalar.U32: "i32",
    Scalar.I16: "i16",
    Scalar.U16: "i16",
    Scalar.I8: "i8",
    Scalar.U8: "i8",
    Scalar.BOOL: "i1",
}


def llvm_type(value_type: LoopType) -> str:
    """Return the type of a value in registers."""
    return vector_of(_LLVM[value_type.scalar], value_type.lanes)


def memory_type(value_type: LoopType) -> str:
    """Return the type of a value in a buffer, where a bool takes a byte."""
    return vector_of("i8" if value_type.scalar is Scalar.BOOL else _LLVM[value_type.scalar],
                     value_type.lanes)  # fmt: skip


def vector_of(element: str, lanes: int) -> str:
    """Return the type of a vector of LLVM's type ``element``; the type itself for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def suffix_of(llvm: str) -> str:
    """Return a type's suffix in names of intrinsics: ``v16f32`` for ``<16 x float>``."""
    names = {"float": "f32", "double": "f64"}
    if not llvm.startswith("<"):
        return names.get(llvm, llvm)
    lanes, _, element = llvm.strip("<>").partition(" x ")
    return f"v{lanes}{names.get(element, element)}"


def literal(number: float, scalar: Scalar) -> str:
    """Return a number as a constant of LLVM IR; floats by their bits, so that they stay exact."""
    if scalar is Scalar.BOOL:
        return "true" if number else "false"
    if not scalar.is_float:
        return str(int(number))
    if scalar is Scalar.F64:
        return _double_bits(number)
    if scalar is Scalar.F32:
        return _double_bits(_rounded_to_float(number))
    return str(_half_bits(number) if scalar is Scalar.F16 else _bfloat_bits(number))


def _rounded_to_float(number: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return rounded


def _double_bits(number: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _half_bits(number: float) -> int:
    try:
        bits: int = struct.unpack("<H", struct.pack("<e", number))[0]
    except OverflowError:
        return 0x7C00 if number > 0 else 0xFC00
    return bits


def _bfloat_bits(number: float) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", _rounded_to_float(number)))[0]
    if math.isnan(number):
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
