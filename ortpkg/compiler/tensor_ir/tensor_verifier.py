"""Checks operations of the tensor IR, so that a bug shows before schedules use them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    FUNCTION_ROWS,
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Made,
    Number,
    Position,
    Read,
    SizeValue,
    Tensor,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operation_expressions import Expression, expressions_of
from ortpkg.compiler.tensor_ir.operations import (
    Alias,
    Attention,
    Convolution,
    Map,
    Operation,
    Pool,
    Product,
    Recurrence,
    Reduce,
    RowNormalize,
)
from ortpkg.compiler.tensor_ir.tensor_program import reads_of, writes_of
from ortpkg.graph.shapes.expressions import Size


class OperationFaultError(ValueError):
    """An operation that breaks a rule of the tensor IR: a bug in the compiler."""


def verify_operations(
    operations: Sequence[Operation], verified: Collection[int] = frozenset()
) -> None:
    """Check ranks, scalar types, axes, coordinates within their tensors, and the order.

    Coordinates are checked as far as sizes are known. An operation may read only what an earlier
    one wrote.

    Args:
        operations: operations in the order in which they run.
        verified: identities of operations that are checked only for their order.

    Raises:
        OperationFaultError: names the operation's output and the fault.
    """
    unwritten = {tensor for operation in operations for tensor in writes_of(operation)}
    for operation in operations:
        written = set(writes_of(operation))
        for tensor in reads_of(operation):
            _check(tensor not in unwritten, operation, f"reads {tensor.name}, which is made later")
        unwritten -= written
        if id(operation) in verified:
            continue
        _verify_shapes(operation)
        for expression in expressions_of(operation):
            _Verifier(operation, expression).verify(expression.element)


def _check(is_right: bool, operation: Operation, fault: str) -> None:
    if not is_right:
        kind = type(operation).__name__
        raise OperationFaultError(f"{kind} that makes {operation.output.name}: {fault}")


def _verify_shapes(operation: Operation) -> None:
    output = operation.output
    match operation:
        case Map(axes=axes, coordinates=coordinates):
            _verify_output_coordinates(operation, axes, coordinates)
        case Reduce(axes=axes) | RowNormalize(axes=axes):
            fits = output.shape == axes
            _check(fits, operation, f"its output has the shape {output.shape}, its axes are {axes}")
            for made in writes_of(operation)[1:]:
                fits = prod(made.shape, start=1) == prod(axes[:-1], start=1)
                _check(fits, operation, f"{made.name} has not one element for each row")
        case Product(batch=batch, m=m, n=n):
            fits = output.shape == (*batch, m, n)
            _check(fits, operation, f"its output has the shape {output.shape}, not batch, m, n")
        case Attention(batch=batch, queries=queries, value_width=width, coordinates=coordinates):
            axes = (*batch, queries, width)
            _verify_output_coordinates(operation, axes, coordinates)
        case Alias(source=source):
            sizes = [prod(tensor.shape, start=1) for tensor in (output, source)]
            is_known = all(isinstance(size, int) for size in sizes)
            fits = source.scalar is output.scalar and (not is_known or sizes[0] == sizes[1])
            _check(fits, operation, f"{source.name} is of another kind or number of elements")
        case Convolution() | Pool():
            _verify_window_shapes(operation)
        case Recurrence():
            _verify_recurrence_shapes(operation)


def _verify_window_shapes(operation: Convolution | Pool) -> None:
    rank, output, source = len(operation.window.kernel), operation.output, operation.source
    ranks = {len(output.shape), len(source.shape)}
    _check(ranks <= {rank + 2, rank + 3}, operation, f"its windows have {rank} spatial axes")
    fits = output.shape[0] == source.shape[0]
    _check(fits, operation, f"{source.name} has another batch")
    if isinstance(operation, Convolution):
        weights = operation.weights.shape
        fits = weights[2:] == operation.window.kernel and len(weights) == rank + 2
        _check(fits, operation, f"its weights have the shape {weights}")
        if len(output.shape) == rank + 2:
            _check(output.shape[1] == weights[0], operation, "its weights are for other channels")
        if len(source.shape) == rank + 2:
            fits = source.shape[1] == weights[1] * operation.groups
            _check(fits, operation, f"its weights are for other channels than {source.name} has")


def _verify_recurrence_shapes(operation: Recurrence) -> None:
    directions, batch, hidden = len(operation.backward), operation.batch, operation.hidden
    states = (directions, batch, hidden)
    rows = (directions, operation.steps * batch, operation.cell.gate_count * hidden)
    for tensor, shape in (
        (operation.output, (operation.steps, *states)), (operation.last, states),
        (operation.last_cell, states), (operation.inputs, rows),
    ):  # fmt: skip
        fits = tensor is None or tensor.shape == shape
        _check(fits, operation, f"{tensor and tensor.name} has not the shape {shape}")


def _verify_output_coordinates(
    operation: Operation, axes: tuple[Size, ...], coordinates: Sequence[Coordinate]
) -> None:
    output = operation.output
    at = Expression(Number(0, output.scalar), axes, None, None)
    _Verifier(operation, at).verify_coordinates(output, coordinates)


class _Verifier:
    """Checks one expression; parts that occur several times are checked once."""

    def __init__(self, operation: Operation, expression: Expression) -> None:
        self._operation, self._expression = operation, expression
        self._verified: dict[int, Element] = {}

    def verify(self, element: Element) -> None:
        """Check the whole expression."""
        wanted = self._expression.wanted
        self._check(
            wanted is None or scalar_of(element) is wanted,
            f"its expression is {scalar_of(element)}, not {wanted}",
        )
        self._verify(element)

    def verify_coordinates(self, tensor: Tensor, coordinates: Sequence[Coordinate]) -> None:
        """Check coordinates along the dimensions of a tensor."""
        rank = len(tensor.shape)
        self._check(
            len(coordinates) == rank,
            f"{len(coordinates)} coordinates in {tensor.name} of rank {rank}",
        )
        for dimension, (coordinate, size) in enumerate(zip(coordinates, tensor.shape, strict=True)):
            for axis, _ in coordinate.terms:
                self._check_axis(axis)
            if coordinate.value is not None:
                is_integer = scalar_of(coordinate.value).is_integer
                self._check(is_integer, f"a coordinate in {tensor.name} is no integer")
                self._verify(coordinate.value)
                continue
            bounds = self._bounds(coordinate)
            fits = bounds is None or not isinstance(size, int) or 0 <= bounds[0] <= bounds[1] < size
            self._check(
                fits,
                f"coordinates {bounds} in dimension {dimension} of {tensor.name}, of size {size}",
            )

    def _verify(self, element: Element) -> None:
        if id(element) in self._verified:
            return
        self._verified[id(element)] = element
        match element:
            case Read(tensor, coordinates):
                self.verify_coordinates(tensor, coordinates)
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
        function, kinds = call.function, [scalar_of(operand) for operand in call.operands]
        row = FUNCTION_ROWS[function]
        self._check(len(kinds) == row.operands, f"{function} of {len(kinds)} operands")
        if function is Function.SELECT:
            self._check(kinds[0] is Scalar.BOOL, f"{function} by {kinds[0]}")
            kinds = kinds[1:]
        self._check(len(set(kinds)) == 1, f"{function} of {', '.join(kinds)}")
        is_right = kinds[0].is_float or not row.is_for_floats
        self._check(is_right, f"{function} of {kinds[0]}")

    def _bounds(self, coordinate: Coordinate) -> tuple[int, int] | None:
        """Return the least and the greatest value of a coordinate; None if unknown or empty."""
        axes = self._expression.axes
        if axes is None or not isinstance(coordinate.offset, int):
            return None
        if any(size == 0 for size in axes):
            return None
        least = most = coordinate.offset
        for axis, number in coordinate.terms:
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
