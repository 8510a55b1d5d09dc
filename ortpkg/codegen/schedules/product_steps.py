"""How the micro-kernel of a matrix product multiplies and sums in one step along k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ortpkg.codegen.loop_ir.kernel import Buffer, Value
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.codegen.loop_ir.loop_types import I32, LoopType, Scalar


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
    """One product of f32 a step; panels may be stored as f16."""

    sums: Scalar = Scalar.F32
    group: int = 1

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """The row's number in every lane."""
        return builder.splat(builder.load(buffer, index), lanes)

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """A vector of the panel."""
        return builder.cast(builder.load(buffer, index, lanes, count), Scalar.F32)

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """A fused product and sum."""
        return builder.fma(left, right, sums)


@dataclass(frozen=True, slots=True)
class BfloatSteps:
    """Two products of bf16 a step, summed in f32."""

    sums: Scalar = Scalar.F32
    group: int = 2

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """The row's pair in every lane."""
        return _group_in_every_lane(builder, buffer, index, self.group, lanes)

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """A pair of each column."""
        return _groups_of_columns(builder, buffer, index, self.group, lanes, count)

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """The sums with the two products of each lane added."""
        return builder.dot(sums, left, right)


@dataclass(frozen=True, slots=True)
class ByteSteps:
    """Four products of bytes a step, u8 of the left side with i8 of the right side."""

    sums: Scalar = Scalar.I32
    group: int = 4

    def left(self, builder: KernelBuilder, buffer: Buffer, index: Operand, lanes: int) -> Value:
        """The row's four bytes in every lane."""
        return _group_in_every_lane(builder, buffer, index, self.group, lanes)

    def right(
        self,
        builder: KernelBuilder,
        buffer: Buffer,
        index: Operand,
        lanes: int,
        count: Operand | None,
    ) -> Value:
        """Four bytes of each column."""
        return _groups_of_columns(builder, buffer, index, self.group, lanes, count)

    def add(self, builder: KernelBuilder, sums: Value, left: Value, right: Value) -> Value:
        """The sums with the four products of each lane added."""
        return builder.dot(sums, left, right)


def _group_in_every_lane(
    builder: KernelBuilder, buffer: Buffer, index: Operand, group: int, lanes: int
) -> Value:
    """Neighbours that fill 32 bits, in every lane of as many."""
    word = builder.bitcast(builder.load(buffer, index, group), I32)
    return builder.bitcast(builder.splat(word, lanes), LoopType(buffer.scalar, group * lanes))


def _groups_of_columns(
    builder: KernelBuilder,
    buffer: Buffer,
    index: Operand,
    group: int,
    lanes: int,
    count: Operand | None,
) -> Value:
    """The neighbours of each of ``lanes`` columns, of which ``count`` are there."""
    number = None if count is None else builder.mul(builder.index(count), group)
    return builder.load(buffer, index, group * lanes, number)
