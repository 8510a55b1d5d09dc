"""Builds kernels of the loop IR, statement by statement.

A number may stand for a value if another operand determines its type; a scalar next to a vector is
splatted. Constants are folded: sums and products of constants, additions of 0, multiplications by
1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ortpkg.compiler.loop_ir.kernel import (
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
from ortpkg.compiler.loop_ir.loop_types import BOOL, I64, LoopType, Scalar
from ortpkg.compiler.loop_ir.stop_checks import with_stop_checks

Operand = Value | int | float
#: Iterations with which a loop takes long, a millisecond or more, though it has no inner loop.
_LONG_LOOP = 1 << 20
_FOLDED: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda left, right: left + right,
    Op.SUB: lambda left, right: left - right,
    Op.MUL: lambda left, right: left * right,
    Op.MIN: min,
    Op.MAX: max,
}
#: Folded only for a dividend >= 0 and a divisor > 0, where rounding down is rounding to zero.
_DIVISIONS: dict[Op, Callable[[int, int], int]] = {
    Op.DIV: lambda left, right: left // right,
    Op.REM: lambda left, right: left % right,
}


class Loop:
    """A loop under construction.

    Attributes:
        index: the loop's variable.
        carried: values that an iteration receives.
        results: values after the loop; as many as are carried.
    """

    def __init__(self, index: Value, carried: tuple[Value, ...]) -> None:
        self.index = index
        self.carried = carried
        self.results = tuple(Value(value.type, value.hint) for value in carried)
        self._yielded: tuple[Value, ...] | None = None if carried else ()

    def hand_on(self, *values: Value) -> None:
        """Set the values for the next iteration, at the end of the body."""
        self._yielded = values

    @property
    def yielded(self) -> tuple[Value, ...]:
        """Values set by :meth:`hand_on`; ValueError if they are missing."""
        if self._yielded is None:
            raise ValueError("a loop carries values, and its body hands none on")
        return self._yielded


class KernelBuilder:
    """Builder of one kernel."""

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
        """Add the next buffer of the call, which the kernel reads."""
        return self._buffer(name, scalar, Role.INPUT)

    def output(self, name: str, scalar: Scalar) -> Buffer:
        """Add the next buffer of the call, which the kernel writes."""
        return self._buffer(name, scalar, Role.OUTPUT)

    def scratch(self, name: str, scalar: Scalar, count: int) -> Buffer:
        """Add a buffer of ``count`` elements that belongs to each thread."""
        made = Buffer(name, scalar, Role.SCRATCH, count)
        self._scratch.append(made)
        return made

    def size(self, name: str) -> Value:
        """Add the next size of the call."""
        made = Value(I64, name)
        self._sizes.append(made)
        return made

    # --- values -----------------------------------------------------------------------------------

    def constant(self, number: float, value_type: LoopType) -> Value:
        """Return a constant with this number in every lane."""
        result = Value(value_type)
        if value_type.scalar is Scalar.BOOL:
            number = int(bool(number))
        self._add(Constant(result, number if value_type.scalar.is_float else int(number)))
        if value_type.lanes == 1:
            self._numbers[result] = number
        return result

    def number_of(self, value: Operand) -> int | float | None:
        """Return the number that a value is known to be, else None."""
        return self._numbers.get(value) if isinstance(value, Value) else value

    def compute(self, op: Op, *operands: Operand) -> Value:
        """Return the result of an operation; at least one operand must be a value."""
        if len(operands) == 2 and (folded := self._folded(op, *operands)) is not None:
            return folded
        values = self._alike(operands, first_is_bool=op is Op.SELECT)
        if op in COMPARISONS:
            made = LoopType(Scalar.BOOL, values[0].type.lanes)
        elif op in {Op.SUM, Op.LARGEST, Op.SMALLEST, Op.ANY}:
            made = values[0].type.with_lanes(1)
        else:
            made = values[-1].type
        return self._computed(op, values, made)

    def add(self, left: Operand, right: Operand) -> Value:
        """Return ``left + right``."""
        return self.compute(Op.ADD, left, right)

    def sub(self, left: Operand, right: Operand) -> Value:
        """Return ``left - right``."""
        return self.compute(Op.SUB, left, right)

    def mul(self, left: Operand, right: Operand) -> Value:
        """Return ``left * right``."""
        return self.compute(Op.MUL, left, right)

    def fma(self, left: Operand, right: Operand, addend: Operand) -> Value:
        """Return ``left * right + addend``, rounded once."""
        return self.compute(Op.FMA, left, right, addend)

    def div(self, left: Operand, right: Operand) -> Value:
        """Return the quotient ``left / right``."""
        return self.compute(Op.DIV, left, right)

    def rem(self, left: Operand, right: Operand) -> Value:
        """Return the remainder of ``left / right``."""
        return self.compute(Op.REM, left, right)

    def least(self, left: Operand, right: Operand) -> Value:
        """Return the lesser of two values."""
        return self.compute(Op.MIN, left, right)

    def most(self, left: Operand, right: Operand) -> Value:
        """Return the greater of two values."""
        return self.compute(Op.MAX, left, right)

    def select(self, condition: Value, then: Operand, otherwise: Operand) -> Value:
        """Return ``then`` where the condition is true, else ``otherwise``."""
        return self.compute(Op.SELECT, condition, then, otherwise)

    def cast(self, value: Value, scalar: Scalar) -> Value:
        """Return the value converted to another scalar type."""
        if value.type.scalar is scalar:
            return value
        return self._computed(Op.CAST, (value,), value.type.with_scalar(scalar))

    def bitcast(self, value: Value, value_type: LoopType) -> Value:
        """Return the value's bits as another type of the same size."""
        return self._computed(Op.BITCAST, (value,), value_type)

    def splat(self, value: Value, lanes: int) -> Value:
        """Return a vector with the value in each lane."""
        if lanes == value.type.lanes:
            return value
        return self._computed(Op.SPLAT, (value,), value.type.with_lanes(lanes))

    def shuffle(self, left: Value, right: Value, lanes: Sequence[int]) -> Value:
        """Return the lanes at these positions of the two concatenated vectors."""
        made = left.type.with_lanes(len(lanes))
        result = Value(made)
        self._add(Compute(result, Op.SHUFFLE, (left, right), tuple(lanes)))
        return result

    def extract(self, value: Value, lane: int) -> Value:
        """Return one lane of a vector."""
        result = Value(value.type.with_lanes(1))
        self._add(Compute(result, Op.EXTRACT, (value,), (lane,)))
        return result

    def dot(self, sums: Value, left: Value, right: Value) -> Value:
        """Return ``sums`` plus products: 4 of u8 and i8 for each i32, 2 of bf16 for each f32."""
        return self._computed(Op.DOT, (sums, left, right), sums.type)

    # --- memory -----------------------------------------------------------------------------------

    def load(
        self, buffer: Buffer, index: Operand, lanes: int = 1, count: Operand | None = None
    ) -> Value:
        """Return ``lanes`` consecutive elements; only the first ``count`` of them if given."""
        result = Value(LoopType(buffer.scalar, lanes))
        self._add(Load(result, buffer, self.index(index), self._count(count, lanes)))
        return result

    def gather(self, buffer: Buffer, indices: Value) -> Value:
        """Return one element for each lane of ``indices``."""
        result = Value(LoopType(buffer.scalar, indices.type.lanes))
        self._add(Gather(result, buffer, indices))
        return result

    def store(
        self, buffer: Buffer, index: Operand, value: Value, count: Operand | None = None
    ) -> None:
        """Write a value's lanes to consecutive elements; only the first ``count`` if given."""
        lanes = value.type.lanes
        self._add(Store(buffer, self.index(index), value, self._count(count, lanes)))

    def prefetch(self, buffer: Buffer, index: Operand) -> None:
        """Prefetch a line of memory that is read soon."""
        self._add(Prefetch(buffer, self.index(index)))

    def index(self, index: Operand) -> Value:
        """Return the operand as an i64 value."""
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
        """Add a loop whose body is built inside the ``with`` block.

        A loop known to run more than a million times checks whether the run must end.
        """
        first, last = self.index(start), self.index(stop)
        least, most = self.number_of(first), self.number_of(last)
        is_long = least is not None and most is not None and most - least > _LONG_LOOP * step
        made = Loop(Value(I64, hint), tuple(Value(value.type, value.hint) for value in carried))
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
        """Add statements, built inside the ``with`` block, that run if the condition is true."""
        self._blocks.append([])
        yield
        self._add(If(condition, tuple(self._blocks.pop())))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Add statements that run if the condition of the preceding ``when`` is false."""
        before = self._blocks[-1].pop()
        if not isinstance(before, If):
            raise TypeError("otherwise() must follow when()")
        self._blocks.append([])
        yield
        self._add(If(before.condition, before.then, tuple(self._blocks.pop())))

    def kernel(self) -> Kernel:
        """Return the kernel; its outer loops check whether the run must end."""
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

    def _folded(self, op: Op, left: Operand, right: Operand) -> Value | None:
        """Return the result of an operation over scalar integers if it is known, else None."""
        value_type = next(operand.type for operand in (left, right) if isinstance(operand, Value))
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
        """Return the operands as values with equal lanes; numbers take the others' type."""
        values = [value for value in operands[first_is_bool:] if isinstance(value, Value)]
        lanes = max(operand.type.lanes for operand in operands if isinstance(operand, Value))
        scalar = values[0].type.scalar if values else Scalar.F32
        made = []
        for position, operand in enumerate(operands):
            if isinstance(operand, Value):
                made.append(self.splat(operand, lanes))
            else:
                kind = BOOL.scalar if first_is_bool and position == 0 else scalar
                made.append(self.constant(operand, LoopType(kind, lanes)))
        return made
