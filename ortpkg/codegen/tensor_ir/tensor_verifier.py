"""Checks operations of the tensor IR: whoever makes a wrong one hears of it before schedules do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Number,
    Place,
    Position,
    Read,
    SizeValue,
    Tensor,
    scalar_of,
)
from ortpkg.codegen.tensor_ir.operations import (
    Alias,
    Attention,
    Map,
    Operation,
    Product,
    Reduce,
    RowNormalize,
)
from ortpkg.codegen.tensor_ir.tensor_program import elements_of, reads_of, writes_of
from ortpkg.shapes.expressions import Size

_UNARY = frozenset({
    Function.NEG, Function.ABS, Function.SQRT, Function.FLOOR, Function.CEIL, Function.ROUND,
    Function.TRUNC, Function.NOT, Function.EXP, Function.LOG, Function.TANH, Function.ERF,
    Function.SIGMOID, Function.SIN, Function.COS,
})  # fmt: skip
_FLOAT_ONLY = frozenset({
    Function.SQRT, Function.FLOOR, Function.CEIL, Function.ROUND, Function.TRUNC, Function.FMA,
    Function.EXP, Function.LOG, Function.TANH, Function.ERF, Function.SIGMOID, Function.SIN,
    Function.COS, Function.POW,
})  # fmt: skip


class OperationFaultError(ValueError):
    """An operation that breaks a rule of the tensor IR: a bug in the compiler."""


def verify_operations(operations: Sequence[Operation]) -> None:
    """Raises OperationFaultError, which names the operation's output and the fault.

    Checked are ranks, kinds, axes, that places lie within their tensors as far as sizes are known,
    and that what an operation writes is read after it only.
    """
    made = {tensor for each in operations for tensor in writes_of(each)}
    for operation in operations:
        written = set(writes_of(operation))
        for tensor in reads_of(operation):
            _check(tensor not in made, operation, f"reads {tensor.name}, which is made later")
        _verify_shapes(operation)
        for expression in expressions_of(operation):
            _Verifier(operation, expression).verify(expression.element)
        made -= written


@dataclass(frozen=True, slots=True)
class Expression:
    """An element with what it may refer to; ``axes`` None: they are not known."""

    element: Element
    axes: tuple[Size, ...] | None
    made: Scalar | None
    wanted: Scalar | None


def _check(is_right: bool, operation: Operation, fault: str) -> None:
    if not is_right:
        kind = type(operation).__name__
        raise OperationFaultError(f"{kind} that makes {operation.output.name}: {fault}")


def expressions_of(operation: Operation) -> Iterator[Expression]:
    """Every expression of an operation, with its axes."""
    output = operation.output
    match operation:
        case Map(axes=axes, value=value):
            yield Expression(value, axes, None, output.scalar)
        case Reduce(axes=axes, reduced=reduced, value=value, epilogue=epilogue):
            yield Expression(value, (*axes, *reduced), None, None)
            made = scalar_of(value)
            yield Expression(epilogue or Made(made), axes, made, output.scalar)
        case RowNormalize(axes=axes, value=value, epilogue=epilogue):
            yield Expression(value, axes, None, Scalar.F32)
            yield Expression(epilogue or Made(Scalar.F32), axes, Scalar.F32, output.scalar)
        case Product(batch=batch, m=m, n=n, k=k, epilogue=epilogue):
            for each, axes in (
                (operation.left, (*batch, m, k)), (operation.right, (*batch, k, n)),
                (operation.left_zero, (*batch, m, k)), (operation.right_zero, (*batch, k, n)),
            ):  # fmt: skip
                if each is not None:
                    yield Expression(each, axes, None, None)
            made = Scalar.F32 if scalar_of(operation.left).is_float else Scalar.I32
            yield Expression(epilogue or Made(made), (*batch, m, n), made, output.scalar)
        case Attention(batch=batch, queries=queries, keys=keys, width=width):
            yield Expression(operation.query, (*batch, queries, width), None, None)
            yield Expression(operation.key, (*batch, keys, width), None, None)
            yield Expression(operation.value, (*batch, keys, operation.value_width), None, None)
            if operation.score is not None:
                axes = (*batch, queries, keys)
                yield Expression(operation.score, axes, Scalar.F32, Scalar.F32)
        case _:
            for each in elements_of(operation):
                yield Expression(each, None, _made_in(each), None)


def _made_in(element: Element) -> Scalar | None:
    """The kind of what an expression takes as made."""
    match element:
        case Made(scalar):
            return scalar
        case Call(_, operands):
            return next((made for each in operands if (made := _made_in(each))), None)
        case Convert(operand, _):
            return _made_in(operand)
        case _:
            return None


def _verify_shapes(operation: Operation) -> None:
    output = operation.output
    match operation:
        case Map(axes=axes, places=places):
            _verify_output_places(operation, axes, places)
        case Reduce(axes=axes) | RowNormalize(axes=axes):
            fits = output.shape == axes
            _check(fits, operation, f"its output has the shape {output.shape}, its axes are {axes}")
        case Product(batch=batch, m=m, n=n):
            fits = output.shape == (*batch, m, n)
            _check(fits, operation, f"its output has the shape {output.shape}, not batch, m, n")
        case Attention(batch=batch, queries=queries, value_width=width, places=places):
            axes = (*batch, queries, width)
            _verify_output_places(operation, axes, places)
        case Alias(source=source):
            sizes = [prod(each.shape, start=1) for each in (output, source)]
            is_known = all(isinstance(each, int) for each in sizes)
            fits = source.scalar is output.scalar and (not is_known or sizes[0] == sizes[1])
            _check(fits, operation, f"{source.name} is of another kind or number of elements")
        case _:
            pass


def _verify_output_places(
    operation: Operation, axes: tuple[Size, ...], places: Sequence[Place]
) -> None:
    output = operation.output
    at = Expression(Number(0, output.scalar), axes, None, None)
    _Verifier(operation, at).verify_places(output, places)


class _Verifier:
    """Checks one expression; parts that stand in it several times once."""

    def __init__(self, operation: Operation, expression: Expression) -> None:
        self._operation, self._expression = operation, expression
        self._seen: dict[int, Element] = {}

    def verify(self, element: Element) -> None:
        """Checks the whole expression."""
        wanted = self._expression.wanted
        self._check(
            wanted is None or scalar_of(element) is wanted,
            f"its expression is {scalar_of(element)}, not {wanted}",
        )
        self._verify(element)

    def verify_places(self, tensor: Tensor, places: Sequence[Place]) -> None:
        """Checks places along the dimensions of a tensor."""
        rank = len(tensor.shape)
        self._check(len(places) == rank, f"{len(places)} places in {tensor.name} of rank {rank}")
        for dimension, (place, size) in enumerate(zip(places, tensor.shape, strict=True)):
            for axis, _ in place.terms:
                self._check_axis(axis)
            if place.value is not None:
                is_integer = scalar_of(place.value).is_integer
                self._check(is_integer, f"a place in {tensor.name} is no integer")
                self._verify(place.value)
                continue
            bounds = self._bounds(place)
            fits = bounds is None or not isinstance(size, int) or 0 <= bounds[0] <= bounds[1] < size
            self._check(
                fits, f"places {bounds} in dimension {dimension} of {tensor.name}, of size {size}"
            )

    def _verify(self, element: Element) -> None:
        if id(element) in self._seen:
            return
        self._seen[id(element)] = element
        match element:
            case Read(tensor, places):
                self.verify_places(tensor, places)
            case Position(axis):
                self._check_axis(axis)
            case Made(scalar):
                made = self._expression.made
                self._check(scalar is made, f"it takes a made {scalar}, and there is {made}")
            case Convert(operand, _):
                self._verify(operand)
            case Call():
                for operand in element.operands:
                    self._verify(operand)
                self._verify_call(element)
            case Number() | SizeValue():
                pass

    def _verify_call(self, call: Call) -> None:
        function, kinds = call.function, [scalar_of(each) for each in call.operands]
        three = {Function.FMA, Function.SELECT}
        wanted = 3 if function in three else 1 if function in _UNARY else 2
        self._check(len(kinds) == wanted, f"{function} of {len(kinds)} operands")
        if function is Function.SELECT:
            self._check(kinds[0] is Scalar.BOOL, f"{function} by {kinds[0]}")
            kinds = kinds[1:]
        self._check(len(set(kinds)) == 1, f"{function} of {', '.join(kinds)}")
        is_right = kinds[0].is_float or function not in _FLOAT_ONLY
        self._check(is_right, f"{function} of {kinds[0]}")

    def _bounds(self, place: Place) -> tuple[int, int] | None:
        """The least and the greatest place, where they are known and there is any."""
        axes = self._expression.axes
        if axes is None or not isinstance(place.offset, int):
            return None
        if any(size == 0 for size in axes):
            return None
        least = most = place.offset
        for axis, number in place.terms:
            size = axes[axis]
            if not isinstance(number, int) or not isinstance(size, int):
                return None
            far = number * (size - 1)
            least, most = least + min(far, 0), most + max(far, 0)
        return least, most

    def _check_axis(self, axis: int) -> None:
        axes = self._expression.axes
        count = "" if axes is None else f" of {len(axes)}"
        self._check(
            axis >= 0 and (axes is None or axis < len(axes)), f"it has no axis {axis}{count}"
        )

    def _check(self, is_right: bool, fault: str) -> None:
        _check(is_right, self._operation, fault)
