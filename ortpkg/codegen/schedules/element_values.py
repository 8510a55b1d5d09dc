"""Makes the loop-IR values of an element: what an expression is at a place of the axes.

Neighbours along one *vector axis* are computed at once, as the lanes of a vector; what is the same
for all of them stays a single number until a vector is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ortpkg.codegen.loop_ir.kernel import Op, Value
from ortpkg.codegen.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.codegen.loop_ir.loop_types import I64, LoopType, Scalar
from ortpkg.codegen.schedules.integer_division import guarded_quotient, guarded_remainder
from ortpkg.codegen.schedules.kernel_maker import KernelMaker
from ortpkg.codegen.schedules.linear_reads import LinearPlace, linear_place
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.math_functions import MATH_FUNCTIONS, power, power_of_number
from ortpkg.codegen.tensor_ir.elements import (
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
#: What MIN, MAX and MUL are of bools.
_OF_BOOLS = {Function.MIN: Op.AND, Function.MAX: Op.OR, Function.MUL: Op.AND, Function.ADD: Op.OR}


class ElementValues:
    """Turns elements into values of one kernel."""

    def __init__(
        self, maker: KernelMaker, model: MachineModel, *, takes_pieces: bool = False
    ) -> None:
        """Make values for one kernel.

        ``takes_pieces``: whether the offsets of reads are parameters of the kernel.
        """
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
        """What the element is, as a value of ``lanes`` lanes.

        Equal parts are computed once. Whoever calls sees to it that places are within their
        tensors. Floats of 16 bits are computed as f32, each function's result rounded to them.

        Args:
            element: what is computed.
            axes: the i64 position of each axis; that of the first lane for the vector axis.
            vector_axis: the axis that the lanes are neighbours along; None: all lanes are alike.
            lanes: how many there are.
            count: how many of them are there, 1 or more: nothing is read for those beyond it, whose
                value is any; None: all.
            made: what ``Made`` stands for, of 1 or ``lanes`` lanes.
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
    """One call of ``value_of``: values of 1 lane are the same for all lanes."""

    maker: KernelMaker
    axes: Sequence[Operand]
    vector_axis: int | None
    lanes: int
    count: Operand | None
    made: Value | None
    takes_pieces: bool
    _of_element: dict[int, tuple[Element, Value]] = field(default_factory=dict)
    _of_parts: dict[tuple[object, ...], Value] = field(default_factory=dict)

    @property
    def builder(self) -> KernelBuilder:
        """What makes the kernel's statements."""
        return self.maker.builder

    def value(self, element: Element) -> Value:
        """The element's value, made once."""
        known = self._of_element.get(id(element))
        if known is None:
            known = self._of_element[id(element)] = (element, self._value(element))
        return known[1]

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
        if key not in self._of_parts:
            self._of_parts[key] = self.builder.constant(number, LoopType(scalar))
        return self._of_parts[key]

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
        place = linear_place(read)
        values = [(self.value(element), number) for element, number in place.values]
        shape = (place.terms, place.offset, tuple(values))
        key = ("read", read.tensor, *shape)
        if key not in self._of_parts:
            self._of_parts[key] = self._loaded(read, place, values)
        return self._of_parts[key]

    def _loaded(
        self, read: Read, place: LinearPlace, values: Sequence[tuple[Value, object]]
    ) -> Value:
        b, buffer = self.builder, self.maker.read(read.tensor)
        stride = place.stride(self.vector_axis)
        begins = self.maker.beginning if self.takes_pieces else self.maker.value
        index: Value = begins(place.offset)
        for axis, number in place.terms:
            index = b.add(index, b.mul(b.index(self.axes[axis]), self.maker.size(number)))
        is_gather = stride not in {0, 1}
        if is_gather:
            steps = b.mul(self._lane_numbers(), b.splat(self.maker.value(stride), self.lanes))
            index = b.add(index, steps)
        for (_, number), (value, _) in zip(place.values, values, strict=True):
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
        """The indices, the first one in the place of those that are not there."""
        if self.count is None:
            return indices
        b = self.builder
        is_there = b.compute(Op.LT, self._lane_numbers(), b.index(self.count))
        return b.select(is_there, indices, b.extract(indices, 0))

    def _lane_numbers(self) -> Value:
        """0, 1, 2, ... one for each lane."""
        key = ("lanes",)
        if key not in self._of_parts:
            self._of_parts[key] = lane_numbers(self.builder, self.lanes)
        return self._of_parts[key]

    # --- functions --------------------------------------------------------------------------------

    def _convert(self, value: Value, scalar: Scalar) -> Value:
        """The value as another kind; 16-bit floats by way of f32, as LLVM needs a library else."""
        b, source = self.builder, value.type.scalar
        if source is scalar:
            return value
        key = ("convert", value, scalar)
        if key not in self._of_parts:
            if source in _SMALL_FLOATS or scalar in _SMALL_FLOATS:
                value = b.cast(value, Scalar.F32)
            self._of_parts[key] = b.cast(value, scalar)
        return self._of_parts[key]

    def _call(self, call: Call) -> Value:
        exponent = call.operands[-1]
        if call.function is Function.POW and isinstance(exponent, Number):
            return self._power(call, exponent)
        operands = [self.value(each) for each in call.operands]
        key = ("call", call.function, *operands)
        if key not in self._of_parts:
            self._of_parts[key] = self._computed(call.function, operands)
        return self._of_parts[key]

    def _computed(self, function: Function, operands: Sequence[Value]) -> Value:
        scalar = operands[-1].type.scalar
        if scalar not in _SMALL_FLOATS or function is Function.SELECT:
            return self._exactly(function, operands)
        wide = [self._convert(each, Scalar.F32) for each in operands]
        made = self._exactly(function, wide)
        return made if made.type.scalar is Scalar.BOOL else self._convert(made, scalar)

    def _exactly(self, function: Function, operands: Sequence[Value]) -> Value:
        b, scalar = self.builder, operands[-1].type.scalar
        if function is Function.POW:
            lanes = max(each.type.lanes for each in operands)
            base, exponent = (b.splat(each, lanes) for each in operands)
            return power(b, base, exponent)
        if function in MATH_FUNCTIONS:
            return MATH_FUNCTIONS[function](b, operands[0])
        if scalar.is_integer and function is Function.DIV:
            return guarded_quotient(b, *operands)
        if scalar.is_integer and function is Function.REM:
            return guarded_remainder(b, *operands)
        if scalar is Scalar.BOOL and function in _OF_BOOLS:
            return b.compute(_OF_BOOLS[function], *operands)
        return b.compute(Op(function.value), *operands)

    def _power(self, call: Call, exponent: Number) -> Value:
        base = self.value(call.operands[0])
        scalar = base.type.scalar
        wide = self._convert(base, Scalar.F32) if scalar in _SMALL_FLOATS else base
        return self._convert(power_of_number(self.builder, wide, exponent.number), scalar)


def lane_numbers(builder: KernelBuilder, lanes: int) -> Value:
    """0, 1, 2, ... as i64 lanes; ``lanes`` is a power of two."""
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
