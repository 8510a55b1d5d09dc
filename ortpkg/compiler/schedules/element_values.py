"""Turns the expression of an element into values of the loop IR, at given positions of the axes.

Neighbours along one *vector axis* are computed at once, as the lanes of a vector. Subexpressions
that are equal for all of them stay scalars until a vector is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import I64, LoopType, Scalar
from ortpkg.compiler.schedules.integer_division import guarded_quotient, guarded_remainder
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.linear_reads import LinearIndex, linear_index
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.math_functions import MATH_FUNCTIONS, power, power_of_number
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Position,
    Read,
    SizeValue,
)

_SMALL_FLOATS = frozenset({Scalar.F16, Scalar.BF16})
#: Functions of bools as bit operations.
_BOOL_OPS = {Function.MIN: Op.AND, Function.MAX: Op.OR, Function.MUL: Op.AND, Function.ADD: Op.OR}


class ElementValues:
    """Turns elements into values of one kernel."""

    def __init__(
        self, maker: KernelMaker, model: MachineModel, *, takes_pieces: bool = False
    ) -> None:
        """Create values for one kernel; ``takes_pieces`` makes offsets of reads its parameters."""
        self._maker, self._model = maker, model
        self._takes_pieces = takes_pieces

    def value_of(
        self,
        element: Element,
        axes: Sequence[Operand],
        *,
        vector_axis: int | None,
        lanes: int,
        count: Operand | None = None,
        made: Value | None = None,
    ) -> Value:
        """Return the element as a value of ``lanes`` lanes.

        Equal parts are computed once. The caller ensures that reads stay within their tensors.
        Floats of 16 bits are computed as f32, and the result of each function is rounded to 16
        bits.

        Args:
            element: the expression.
            axes: the i64 position of each axis; for the vector axis, that of the first lane.
            vector_axis: the axis along which the lanes are neighbours; None if all lanes are equal.
            lanes: number of lanes.
            count: number of valid lanes, 1 or more; the others are not read and undefined. None for
                all.
            made: value of ``Made``, with 1 or ``lanes`` lanes.
        """
        if lanes == 1:
            vector_axis = None
        builder = self._maker.builder
        if count is not None and builder.number_of(count) == lanes:
            count = None
        evaluation = _Evaluation(
            self._maker, axes, vector_axis, lanes, count, made, self._takes_pieces
        )
        return builder.splat(evaluation.value(element), lanes)


@dataclass
class _Evaluation:
    """One call of ``value_of``; values with 1 lane are equal for all lanes."""

    maker: KernelMaker
    axes: Sequence[Operand]
    vector_axis: int | None
    lanes: int
    count: Operand | None
    made: Value | None
    takes_pieces: bool
    _element_values: dict[int, tuple[Element, Value]] = field(default_factory=dict)
    _part_values: dict[tuple[object, ...], Value] = field(default_factory=dict)

    @property
    def builder(self) -> KernelBuilder:
        """Builder of the kernel."""
        return self.maker.builder

    def value(self, element: Element) -> Value:
        """Return the element's value, computed once."""
        entry = self._element_values.get(id(element))
        if entry is None:
            entry = self._element_values[id(element)] = (element, self._value(element))
        return entry[1]

    def _value(self, element: Element) -> Value:
        match element:
            case Read():
                return self._read(element)
            case Number(number, scalar):
                return self._number(number, scalar)
            case SizeValue(size):
                return self.maker.value(size)
            case Position(axis):
                return self._position(axis)
            case Made():
                return self._made(element)
            case Convert(operand, scalar):
                return self._convert(self.value(operand), scalar)
            case Call():
                return self._call(element)

    def _number(self, number: float, scalar: Scalar) -> Value:
        key = ("number", repr(number), scalar)
        if key not in self._part_values:
            self._part_values[key] = self.builder.constant(number, LoopType(scalar))
        return self._part_values[key]

    def _position(self, axis: int) -> Value:
        position = self.builder.index(self.axes[axis])
        if axis != self.vector_axis:
            return position
        return self.builder.add(position, self._lane_numbers())

    def _made(self, element: Made) -> Value:
        if self.made is None or self.made.type.scalar is not element.scalar:
            raise ValueError(f"an expression takes a made {element.scalar} where there is none")
        return self.made

    # --- reads ------------------------------------------------------------------------------------

    def _read(self, read: Read) -> Value:
        linear = linear_index(read)
        values = [(self.value(element), number) for element, number in linear.values]
        shape = (linear.terms, linear.offset, tuple(values))
        key = ("read", read.tensor, *shape)
        if key not in self._part_values:
            self._part_values[key] = self._loaded(read, linear, values)
        return self._part_values[key]

    def _loaded(
        self, read: Read, linear: LinearIndex, values: Sequence[tuple[Value, object]]
    ) -> Value:
        b, buffer = self.builder, self.maker.read(read.tensor)
        stride = linear.stride(self.vector_axis)
        begins = self.maker.beginning if self.takes_pieces else self.maker.value
        index: Value = begins(linear.offset)
        for axis, number in linear.terms:
            index = b.add(index, b.mul(b.index(self.axes[axis]), self.maker.size(number)))
        is_gather = stride not in {0, 1}
        if is_gather:
            steps = b.mul(self._lane_numbers(), b.splat(self.maker.value(stride), self.lanes))
            index = b.add(index, steps)
        for (_, number), (value, _) in zip(linear.values, values, strict=True):
            whole = self._convert(value, Scalar.I64)
            is_gather |= whole.type.lanes > 1
            index = b.add(index, b.mul(whole, self.maker.size(number)))
        if is_gather:
            if stride == 1:
                index = b.add(index, self._lane_numbers())
            return b.gather(buffer, self._inside(index))
        if stride == 0:
            return b.load(buffer, index)
        return b.load(buffer, index, self.lanes, self.count)

    def _inside(self, indices: Value) -> Value:
        """Return the indices, with the first one in place of those of invalid lanes."""
        if self.count is None:
            return indices
        b = self.builder
        is_there = b.compute(Op.LT, self._lane_numbers(), b.index(self.count))
        return b.select(is_there, indices, b.extract(indices, 0))

    def _lane_numbers(self) -> Value:
        """Return 0, 1, 2, ..., one for each lane."""
        key = ("lanes",)
        if key not in self._part_values:
            self._part_values[key] = lane_numbers(self.builder, self.lanes)
        return self._part_values[key]

    # --- functions --------------------------------------------------------------------------------

    def _convert(self, value: Value, scalar: Scalar) -> Value:
        """Return the value converted; 16-bit floats via f32, since LLVM would call a library."""
        b, source = self.builder, value.type.scalar
        if source is scalar:
            return value
        key = ("convert", value, scalar)
        if key not in self._part_values:
            if source in _SMALL_FLOATS or scalar in _SMALL_FLOATS:
                value = b.cast(value, Scalar.F32)
            self._part_values[key] = b.cast(value, scalar)
        return self._part_values[key]

    def _call(self, call: Call) -> Value:
        exponent = call.operands[-1]
        if call.function is Function.POW and isinstance(exponent, Number):
            return self._power(call, exponent)
        operands = [self.value(operand) for operand in call.operands]
        key = ("call", call.function, *operands)
        if key not in self._part_values:
            self._part_values[key] = self._computed(call.function, operands)
        return self._part_values[key]

    def _computed(self, function: Function, operands: Sequence[Value]) -> Value:
        scalar = operands[-1].type.scalar
        if scalar not in _SMALL_FLOATS or function is Function.SELECT:
            return self._computed_natively(function, operands)
        wide = [self._convert(operand, Scalar.F32) for operand in operands]
        made = self._computed_natively(function, wide)
        return made if made.type.scalar is Scalar.BOOL else self._convert(made, scalar)

    def _computed_natively(self, function: Function, operands: Sequence[Value]) -> Value:
        b, scalar = self.builder, operands[-1].type.scalar
        if function is Function.POW:
            lanes = max(operand.type.lanes for operand in operands)
            base, exponent = (b.splat(operand, lanes) for operand in operands)
            return power(b, base, exponent)
        if function in MATH_FUNCTIONS:
            return MATH_FUNCTIONS[function](b, operands[0])
        if scalar.is_integer and function is Function.DIV:
            return guarded_quotient(b, *operands)
        if scalar.is_integer and function is Function.REM:
            return guarded_remainder(b, *operands)
        if scalar is Scalar.BOOL and function in _BOOL_OPS:
            return b.compute(_BOOL_OPS[function], *operands)
        return b.compute(Op(function.value), *operands)

    def _power(self, call: Call, exponent: Number) -> Value:
        base = self.value(call.operands[0])
        scalar = base.type.scalar
        wide = self._convert(base, Scalar.F32) if scalar in _SMALL_FLOATS else base
        return self._convert(power_of_number(self.builder, wide, exponent.number), scalar)


def lane_numbers(builder: KernelBuilder, lanes: int) -> Value:
    """Return 0, 1, 2, ... as i64 lanes; ``lanes`` is a power of two."""
    if lanes == 1:
        return builder.constant(0, I64)
    wide = I64.with_lanes(lanes)
    numbers = zeros = builder.constant(0, wide)
    bit = 1
    while bit < lanes:
        bits = builder.constant(bit, wide)
        has_bit = [lanes if lane & bit else 0 for lane in range(lanes)]
        numbers = builder.add(numbers, builder.shuffle(zeros, bits, has_bit))
        bit *= 2
    return numbers
