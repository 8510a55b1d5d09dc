"""Makes kernels of the loop IR, statement by statement.

Numbers may stand for values wherever another operand says of which type; a scalar next to a vector
is splatted. What is known while the kernel is made, is computed at once: sums and products of
constants, additions of 0, multiplications by 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ortpkg.codegen.loop_ir.kernel import (
    COMPARISONS,
    Buffer,
    Compute,
    Constant,
    For,
    Gather,
    If,
    Kernel,
    Load,
    Op,
    Prefetch,
    Role,
    Statement,
    Store,
    Value,
)
from ortpkg.codegen.loop_ir.loop_types import BOOL, I64, LoopType, Scalar
from ortpkg.codegen.loop_ir.stop_checks import with_stop_checks

Operand = Value | int | float
#: Passes of which a loop takes long though it runs no other: a millisecond at the least.
_LONG_LOOP = 1 << 20
_FOLDED: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda left, right: left + right,
    Op.SUB: lambda left, right: left - right,
    Op.MUL: lambda left, right: left * right,
    Op.MIN: min,
    Op.MAX: max,
}
#: Of a number that is not negative by one above 0, where rounding down is rounding to zero.
_DIVISIONS: dict[Op, Callable[[int, int], int]] = {
    Op.DIV: lambda left, right: left // right,
    Op.REM: lambda left, right: left % right,
}


class Loop:
    """A loop that is being made.

    Attributes:
        index: the value that counts.
        carried: what the pass got.
        results: what the loop leaves, for use after it; as many as are carried.
    """

    def __init__(self, index: Value, carried: tuple[Value, ...]) -> None:
        self.index = index
        self.carried = carried
        self.results = tuple(Value(each.type, each.hint) for each in carried)
        self._yielded: tuple[Value, ...] | None = None if carried else ()

    def hand_on(self, *values: Value) -> None:
        """Names what the next pass gets, at the end of the body."""
        self._yielded = values

    @property
    def yielded(self) -> tuple[Value, ...]:
        """What was handed on; ValueError where nothing was that had to be."""
        if self._yielded is None:
            raise ValueError("a loop carries values, and its body hands none on")
        return self._yielded


class KernelBuilder:
    """One kernel in the making."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._buffers: list[Buffer] = []
        self._scratch: list[Buffer] = []
        self._sizes: list[Value] = []
        self._blocks: list[list[Statement]] = [[]]
        self._numbers: dict[Value, int | float] = {}
        self.tile = Value(I64, "tile")

    # --- parameters -------------------------------------------------------------------------------

    def input(self, name: str, scalar: Scalar) -> Buffer:
        """The next buffer of the call, which is read."""
        return self._buffer(name, scalar, Role.INPUT)

    def output(self, name: str, scalar: Scalar) -> Buffer:
        """The next buffer of the call, which is written."""
        return self._buffer(name, scalar, Role.OUTPUT)

    def scratch(self, name: str, scalar: Scalar, count: int) -> Buffer:
        """Memory of the thread's own."""
        made = Buffer(name, scalar, Role.SCRATCH, count)
        self._scratch.append(made)
        return made

    def size(self, name: str) -> Value:
        """The next number of the call."""
        made = Value(I64, name)
        self._sizes.append(made)
        return made

    # --- values -----------------------------------------------------------------------------------

    def constant(self, number: float, value_type: LoopType) -> Value:
        """A known number, in every lane of the type."""
        result = Value(value_type)
        if value_type.scalar is Scalar.BOOL:
            number = int(bool(number))
        self._add(Constant(result, number if value_type.scalar.is_float else int(number)))
        if value_type.lanes == 1:
            self._numbers[result] = number
        return result

    def number_of(self, value: Operand) -> int | float | None:
        """The number that a value is known to be."""
        return self._numbers.get(value) if isinstance(value, Value) else value

    def compute(self, op: Op, *operands: Operand) -> Value:
        """An operation, of which at least one operand is a value."""
        if len(operands) == 2 and (known := self._known(op, *operands)) is not None:
            return known
        values = self._alike(operands, first_is_bool=op is Op.SELECT)
        if op in COMPARISONS:
            made = LoopType(Scalar.BOOL, values[0].type.lanes)
        elif op in {Op.SUM, Op.LARGEST, Op.SMALLEST, Op.ANY}:
            made = values[0].type.with_lanes(1)
        else:
            made = values[-1].type
        return self._computed(op, values, made)

    def add(self, left: Operand, right: Operand) -> Value:
        """The sum."""
        return self.compute(Op.ADD, left, right)

    def sub(self, left: Operand, right: Operand) -> Value:
        """The difference."""
        return self.compute(Op.SUB, left, right)

    def mul(self, left: Operand, right: Operand) -> Value:
        """The product."""
        return self.compute(Op.MUL, left, right)

    def fma(self, left: Operand, right: Operand, addend: Operand) -> Value:
        """``left * right + addend``, rounded once."""
        return self.compute(Op.FMA, left, right, addend)

    def div(self, left: Operand, right: Operand) -> Value:
        """The quotient."""
        return self.compute(Op.DIV, left, right)

    def rem(self, left: Operand, right: Operand) -> Value:
        """The remainder."""
        return self.compute(Op.REM, left, right)

    def least(self, left: Operand, right: Operand) -> Value:
        """The lesser of two."""
        return self.compute(Op.MIN, left, right)

    def most(self, left: Operand, right: Operand) -> Value:
        """The greater of two."""
        return self.compute(Op.MAX, left, right)

    def select(self, condition: Value, then: Operand, otherwise: Operand) -> Value:
        """``then`` where the condition is true."""
        return self.compute(Op.SELECT, condition, then, otherwise)

    def cast(self, value: Value, scalar: Scalar) -> Value:
        """The value as another kind of number."""
        if value.type.scalar is scalar:
            return value
        return self._computed(Op.CAST, (value,), value.type.with_scalar(scalar))

    def bitcast(self, value: Value, value_type: LoopType) -> Value:
        """The value's bits as another type of the same size."""
        return self._computed(Op.BITCAST, (value,), value_type)

    def splat(self, value: Value, lanes: int) -> Value:
        """A vector of one number."""
        if lanes == value.type.lanes:
            return value
        return self._computed(Op.SPLAT, (value,), value.type.with_lanes(lanes))

    def shuffle(self, left: Value, right: Value, lanes: Sequence[int]) -> Value:
        """Lanes of both vectors, by position."""
        made = left.type.with_lanes(len(lanes))
        result = Value(made)
        self._add(Compute(result, Op.SHUFFLE, (left, right), tuple(lanes)))
        return result

    def extract(self, value: Value, lane: int) -> Value:
        """One lane."""
        result = Value(value.type.with_lanes(1))
        self._add(Compute(result, Op.EXTRACT, (value,), (lane,)))
        return result

    def dot(self, sums: Value, left: Value, right: Value) -> Value:
        """``sums`` with products added: 4 of u8 and i8 to each i32, 2 of bf16 to each f32."""
        return self._computed(Op.DOT, (sums, left, right), sums.type)

    # --- memory -----------------------------------------------------------------------------------

    def load(
        self, buffer: Buffer, index: Operand, lanes: int = 1, count: Operand | None = None
    ) -> Value:
        """``lanes`` consecutive elements; only ``count`` of them where that is given."""
        result = Value(LoopType(buffer.scalar, lanes))
        self._add(Load(result, buffer, self.index(index), self._count(count, lanes)))
        return result

    def gather(self, buffer: Buffer, indices: Value) -> Value:
        """One element for each lane of ``indices``."""
        result = Value(LoopType(buffer.scalar, indices.type.lanes))
        self._add(Gather(result, buffer, indices))
        return result

    def store(
        self, buffer: Buffer, index: Operand, value: Value, count: Operand | None = None
    ) -> None:
        """Writes a value's lanes one after the other; only ``count`` of them where given."""
        lanes = value.type.lanes
        self._add(Store(buffer, self.index(index), value, self._count(count, lanes)))

    def prefetch(self, buffer: Buffer, index: Operand) -> None:
        """Has a line of memory fetched that is read soon."""
        self._add(Prefetch(buffer, self.index(index)))

    def index(self, index: Operand) -> Value:
        """The operand as an i64 value."""
        return index if isinstance(index, Value) else self.constant(index, I64)

    # --- control flow -----------------------------------------------------------------------------

    @contextmanager
    def loop(
        self,
        start: Operand,
        stop: Operand,
        step: int = 1,
        *,
        carried: Sequence[Value] = (),
        hint: str = "",
        unroll: bool = False,
        may_stop: bool = False,
    ) -> Iterator[Loop]:
        """A loop; its body is what is made inside of the ``with`` block.

        One that is known to make a million passes looks whether the run is to end.
        """
        first, last = self.index(start), self.index(stop)
        least, most = self.number_of(first), self.number_of(last)
        is_long = least is not None and most is not None and most - least > _LONG_LOOP * step
        made = Loop(Value(I64, hint), tuple(Value(each.type, each.hint) for each in carried))
        self._blocks.append([])
        yield made
        body = self._blocks.pop()
        self._add(
            For(
                variable=made.index,
                start=first,
                stop=last,
                step=step,
                carried=made.carried,
                initial=tuple(carried),
                yielded=made.yielded,
                results=made.results,
                body=tuple(body),
                unroll=unroll,
                may_stop=may_stop or is_long,
            )
        )

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """What is made inside of the ``with`` block runs where the condition is true."""
        self._blocks.append([])
        yield
        self._add(If(condition, tuple(self._blocks.pop())))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What runs where the condition of the ``when`` right before it is false."""
        before = self._blocks[-1].pop()
        if not isinstance(before, If):
            raise TypeError("nothing was asked before")
        self._blocks.append([])
        yield
        self._add(If(before.condition, before.then, tuple(self._blocks.pop())))

    def kernel(self) -> Kernel:
        """The kernel that was made; its outer loops look whether the run is to end."""
        (body,) = self._blocks
        return Kernel(
            name=self._name,
            buffers=tuple(self._buffers),
            scratch=tuple(self._scratch),
            sizes=tuple(self._sizes),
            tile=self.tile,
            body=with_stop_checks(body),
        )

    # --- inner ------------------------------------------------------------------------------------

    def _buffer(self, name: str, scalar: Scalar, role: Role) -> Buffer:
        made = Buffer(name, scalar, role)
        self._buffers.append(made)
        return made

    def _add(self, statement: Statement) -> None:
        self._blocks[-1].append(statement)

    def _computed(self, op: Op, operands: Sequence[Value], value_type: LoopType) -> Value:
        result = Value(value_type)
        self._add(Compute(result, op, tuple(operands)))
        return result

    def _count(self, count: Operand | None, lanes: int) -> Value | None:
        if count is None or self.number_of(count) == lanes:
            return None
        return self.index(count)

    def _known(self, op: Op, left: Operand, right: Operand) -> Value | None:
        """The result of an operation over scalar integers, as far as it is known now."""
        value_type = next(each.type for each in (left, right) if isinstance(each, Value))
        if value_type != I64:
            return None
        first, second = self.number_of(left), self.number_of(right)
        if isinstance(first, int) and isinstance(second, int):
            if op in _FOLDED:
                return self.constant(_FOLDED[op](first, second), I64)
            if op in _DIVISIONS and first >= 0 and second > 0:
                return self.constant(_DIVISIONS[op](first, second), I64)
        if op in _DIVISIONS and second == 1:
            return self.index(left) if op is Op.DIV else self.constant(0, I64)
        if op is Op.MUL and 0 in {first, second}:
            return self.constant(0, I64)
        neutral = 1 if op is Op.MUL else 0
        if second == neutral and op in {Op.ADD, Op.SUB, Op.MUL}:
            return self.index(left)
        if first == neutral and op in {Op.ADD, Op.MUL}:
            return self.index(right)
        return None

    def _alike(self, operands: Sequence[Operand], *, first_is_bool: bool) -> list[Value]:
        """The operands as values of the same number of lanes; numbers take the others' type."""
        values = [each for each in operands[first_is_bool:] if isinstance(each, Value)]
        lanes = max(each.type.lanes for each in operands if isinstance(each, Value))
        scalar = values[0].type.scalar if values else Scalar.F32
        made = []
        for place, each in enumerate(operands):
            if isinstance(each, Value):
                made.append(self.splat(each, lanes))
            else:
                kind = BOOL.scalar if first_is_bool and place == 0 else scalar
                made.append(self.constant(each, LoopType(kind, lanes)))
        return made
