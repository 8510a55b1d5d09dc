"""How the micro-kernel of a matrix product multiplies and sums in one step along k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ortpkg.codegen.loop_ir.kernel import Buffer, Op, Value
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.codegen.loop_ir.loop_types import I32, LoopType, Scalar
from ortpkg.codegen.schedules.machine_model import MachineModel

#: Bytes are moved by so much to become u8 on the left side and i8 on the right side.
BYTE_SHIFT = 128
#: Those with one instruction for four products of bytes, in LLVM's words.
_DOT_FEATURES = frozenset({"avx512vnni", "avxvnni", "i8mm"})


class Steps(Protocol):
    """How products are made and summed in a step along k."""

    @property
    def sums(self) -> Scalar:
        """Kind of the sums."""
        ...

    @property
    def group(self) -> int:
        """How many numbers of each side one step takes."""
        ...

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """A row's numbers of the step, in every lane."""
        ...

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """The step's numbers of ``lanes`` columns, of which ``count`` are there."""
        ...

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """The sums with the products added."""
        ...


@dataclass(frozen=True, slots=True)
class FloatSteps:
    """One product of floats a step; either side may be stored in fewer bits."""

    sums: Scalar = Scalar.F32
    group: int = 1

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """The row's number in every lane."""
        return builder.splat(builder.cast(builder.load(buffer, index), self.sums), lanes)

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """A vector of the panel."""
        return builder.cast(builder.load(buffer, index, lanes, count), self.sums)

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """A fused product and sum."""
        return builder.fma(left, right, sums)


@dataclass(frozen=True, slots=True)
class DotSteps:
    """Several products a step, of numbers that fill 32 bits together: see the two below."""

    sums: Scalar
    group: int

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """The row's group in every lane; bytes as u8."""
        given = _group_in_every_lane(builder, buffer, index, self.group, lanes)
        return given if buffer.scalar.is_float else as_unsigned(builder, given)

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """The group of each column."""
        number = None if count is None else builder.mul(builder.index(count), self.group)
        return builder.load(buffer, index, self.group * lanes, number)

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """The sums with the products of each lane added."""
        return builder.dot(sums, left, right)


#: Two products of bf16 a step, summed in f32.
BFLOAT_STEPS = DotSteps(Scalar.F32, 2)
#: Four products of bytes a step, u8 of the left side (i8 are moved by 128) with i8 of the right.
BYTE_STEPS = DotSteps(Scalar.I32, 4)


def _group_in_every_lane(
    builder: KernelBuilder, buffer: Buffer, index: Operand, group: int, lanes: int
) -> Value:
    """Neighbours that fill 32 bits, in every lane of as many."""
    word = builder.bitcast(builder.load(buffer, index, group), I32)
    return builder.bitcast(builder.splat(word, lanes), LoopType(buffer.scalar, group * lanes))


def as_unsigned(builder: KernelBuilder, value: Value) -> Value:
    """Bytes as u8; i8 are moved by 128."""
    if value.type.scalar is Scalar.U8:
        return value
    made = builder.bitcast(value, value.type.with_scalar(Scalar.U8))
    return builder.compute(Op.XOR, made, BYTE_SHIFT)


def has_byte_dots(model: MachineModel) -> bool:
    """Whether the CPU multiplies four u8 by four i8 and sums them in one instruction."""
    return not model.features.isdisjoint(_DOT_FEATURES)


def steps_of(packed: Scalar) -> Steps:
    """The steps of a convolution whose packed weights are of a kind."""
    return BYTE_STEPS if packed is Scalar.I8 else FloatSteps(sums=packed)
