"""Types of values in the loop IR: numbers, and vectors of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scalar(StrEnum):
    """A scalar type. BOOL is 0 or 1: one byte in a buffer, one bit in a value."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I64 = "i64"
    I32 = "i32"
    I16 = "i16"
    I8 = "i8"
    U64 = "u64"
    U32 = "u32"
    U16 = "u16"
    U8 = "u8"
    BOOL = "bool"

    @property
    def nbytes(self) -> int:
        """Bytes of one element in a buffer."""
        return 1 if self is Scalar.BOOL else int(self.value.lstrip("bfiu")) // 8

    @property
    def is_float(self) -> bool:
        """True for floating-point numbers."""
        return self.value[0] == "f" or self is Scalar.BF16

    @property
    def is_unsigned(self) -> bool:
        """True for integers without a sign."""
        return self.value[0] == "u"

    @property
    def is_integer(self) -> bool:
        """True for integers, signed or unsigned."""
        return not self.is_float and self is not Scalar.BOOL


@dataclass(frozen=True, slots=True)
class LoopType:
    """Type of a value: ``lanes`` numbers of one scalar type; a scalar has one lane."""

    scalar: Scalar
    lanes: int = 1

    def __str__(self) -> str:
        return self.scalar.value if self.lanes == 1 else f"{self.scalar.value}x{self.lanes}"

    def with_scalar(self, scalar: Scalar) -> LoopType:
        """Return the type with another scalar type and as many lanes."""
        return LoopType(scalar, self.lanes)

    def with_lanes(self, lanes: int) -> LoopType:
        """Return the type with another number of lanes."""
        return LoopType(self.scalar, lanes)


I64 = LoopType(Scalar.I64)
I32 = LoopType(Scalar.I32)
F32 = LoopType(Scalar.F32)
BOOL = LoopType(Scalar.BOOL)
