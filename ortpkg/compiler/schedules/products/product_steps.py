"""Steps along k of the micro-kernel of a matrix product: multiply and sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ortpkg.compiler.loop_ir.kernel import Buffer, Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import I32, LoopType, Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel

#: Shift of bytes that become u8 on the left side or i8 on the right side.
BYTE_SHIFT = 128
#: LLVM's names of features with one instruction for four products of bytes.
_DOT_FEATURES = frozenset({"avx512vnni", "avxvnni", "i8mm"})


class ProductSteps(Protocol):
    """Products and sums of one step along k."""

    @property
    def sums(self) -> Scalar:
        """Scalar type of the sums."""
        ...

    @property
    def group(self) -> int:
        """Number of elements of each side that one step takes."""
        ...

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """Return a row's elements of the step, in every lane."""
        ...

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """Return the step's elements of ``lanes`` columns, of which ``count`` are valid."""
        ...

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """Return the sums plus the products."""
        ...


@dataclass(frozen=True, slots=True)
class FloatSteps:
    """Steps of one product of floats; either side may be stored in fewer bits."""

    sums: Scalar = Scalar.F32
    group: int = 1

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """Return the row's element in every lane."""
        return builder.splat(builder.cast(builder.load(buffer, index), self.sums), lanes)

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """Return a vector of the panel."""
        return builder.cast(builder.load(buffer, index, lanes, count), self.sums)

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """Return a fused product and sum."""
        return builder.fma(left, right, sums)


@dataclass(frozen=True, slots=True)
class DotSteps:
    """Steps of several products, of elements that together fill 32 bits."""

    sums: Scalar
    group: int

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """Return the row's group in every lane; bytes as u8."""
        groups = _group_in_every_lane(builder, buffer, index, self.group, lanes)
        return groups if buffer.scalar.is_float else as_unsigned(builder, groups)

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """Return the group of each column."""
        number = None if count is None else builder.mul(builder.index(count), self.group)
        return builder.load(buffer, index, self.group * lanes, number)

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """Return the sums plus the products of each lane."""
        return builder.dot(sums, left, right)


#: Steps of two products of bf16, summed in f32.
BFLOAT_STEPS = DotSteps(Scalar.F32, 2)
#: Steps of four products of bytes: left ones as u8 (i8 shifted by 128), right ones as i8.
BYTE_STEPS = DotSteps(Scalar.I32, 4)


def _group_in_every_lane(
    builder: KernelBuilder, buffer: Buffer, index: Operand, group: int, lanes: int
) -> Value:
    """Return neighbours that fill 32 bits, repeated in every lane."""
    word = builder.bitcast(builder.load(buffer, index, group), I32)
    return builder.bitcast(builder.splat(word, lanes), LoopType(buffer.scalar, group * lanes))


def as_unsigned(builder: KernelBuilder, value: Value) -> Value:
    """Return bytes as u8; i8 are shifted by 128."""
    if value.type.scalar is Scalar.U8:
        return value
    made = builder.bitcast(value, value.type.with_scalar(Scalar.U8))
    return builder.compute(Op.XOR, made, BYTE_SHIFT)


def has_byte_dots(model: MachineModel) -> bool:
    """Return True if one instruction multiplies four u8 by four i8 and sums the products."""
    return not model.features.isdisjoint(_DOT_FEATURES)


def steps_of(packed: Scalar) -> ProductSteps:
    """Return the steps of a convolution with packed weights of this type."""
    return BYTE_STEPS if packed is Scalar.I8 else FloatSteps(sums=packed)
