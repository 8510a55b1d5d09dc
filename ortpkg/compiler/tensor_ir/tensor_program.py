"""Programs of the tensor IR: a partition's computation, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt

from ortpkg.compiler.machine_code.program import IndexReport
from ortpkg.compiler.tensor_ir.elements import Element, Tensor, tensors_read
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
from ortpkg.graph.shapes.expressions import Size

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorProgram:
    """A partition as operations over tensors, in an order in which they can run.

    Attributes:
        name: name of the partition.
        inputs, outputs: tensors in the partition's order; an operation makes each output.
        constants: constant tensors and their values, C-contiguous.
        operations: operations, each after those whose outputs it reads.
        origins: an operation's output → names of the nodes that it computes, for people.
        equal_sizes: pairs of sizes that must be equal for the program to be right.
        reports: tensors of one i64 that count indices out of range, and which indices.
        margins: numbers that must not be negative for the program to be right.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: Mapping[Tensor, Array]
    operations: tuple[Operation, ...]
    origins: Mapping[Tensor, tuple[str, ...]] = field(default_factory=dict)
    equal_sizes: tuple[tuple[Size, Size], ...] = ()
    reports: Mapping[Tensor, IndexReport] = field(default_factory=dict)
    margins: tuple[Size, ...] = ()


#: Attributes of an operation that are expressions which may read tensors: one, a tuple, or None.
EXPRESSION_ATTRIBUTES: Mapping[type[Operation], tuple[str, ...]] = {
    Map: ("value",),
    Reduce: ("value", "epilogue"),
    RowNormalize: ("value", "epilogue"),
    Product: ("left", "right", "left_zero", "right_zero", "epilogue"),
    Convolution: ("source_zero", "weights_zero", "epilogue"),
    Pool: ("epilogue",),
    Attention: ("query", "key", "value", "score"),
    Recurrence: (
        "recurrence", "late_bias", "initial", "initial_cell", "peepholes", "lengths",
    ),
    Alias: (),
}  # fmt: skip


def elements_of(operation: Operation) -> Iterator[Element]:
    """Yield every expression of an operation."""
    for name in EXPRESSION_ATTRIBUTES[type(operation)]:
        expression: Element | tuple[Element, ...] | None = getattr(operation, name)
        if isinstance(expression, tuple):
            yield from expression
        elif expression is not None:
            yield expression


def reads_of(operation: Operation) -> list[Tensor]:
    """Return the tensors that an operation reads, each once."""
    read = [tensor for element in elements_of(operation) for tensor in tensors_read(element)]
    match operation:
        case Convolution():
            read = [operation.source, operation.weights, *read]
        case Pool() | Alias():
            read = [operation.source, *read]
        case Recurrence():
            read = [operation.inputs, *read]
        case _:
            pass
    return list(dict.fromkeys(read))


def writes_of(operation: Operation) -> list[Tensor]:
    """Return the tensors that an operation writes."""
    more: tuple[Tensor | None, ...] = ()
    if isinstance(operation, RowNormalize):
        more = operation.statistics
    elif isinstance(operation, Recurrence):
        more = (operation.last, operation.last_cell)
    return [operation.output, *(tensor for tensor in more if tensor is not None)]


def with_elements(operation: Operation, change: Callable[[Element], Element]) -> Operation:
    """Return the operation with each of its expressions changed by a function."""
    changed: dict[str, Any] = {}
    for name in EXPRESSION_ATTRIBUTES[type(operation)]:
        expression: Element | tuple[Element, ...] | None = getattr(operation, name)
        if isinstance(expression, tuple):
            changed[name] = tuple(map(change, expression))
        elif expression is not None:
            changed[name] = change(expression)
    return replace(operation, **changed)
