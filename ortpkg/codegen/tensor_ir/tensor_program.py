"""A program of the tensor IR: what a partition computes, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt

from ortpkg.codegen.tensor_ir.elements import Element, Tensor, tensors_read
from ortpkg.codegen.tensor_ir.operations import (
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
from ortpkg.machine_code.program import IndexReport
from ortpkg.shapes.expressions import Size

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorProgram:
    """A partition as operations over tensors, in an order in which they can run.

    Attributes:
        name: of the partition.
        inputs, outputs: in the partition's order; an output is made by an operation.
        constants: what is known, and its value, C-contiguous.
        operations: each after those whose outputs it reads.
        origins: an operation's output → the nodes that it computes, for people.
        equal_sizes: pairs of sizes that must be the same number for the program to be right.
        reports: tensors of one i64 that count the indices which are out of range, and which.
        margins: numbers that must not be below 0 for it to be right.
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


#: Which attributes of an operation are expressions that may read tensors, some of them None or
#: several.
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
    """Every expression of an operation."""
    for name in EXPRESSION_ATTRIBUTES[type(operation)]:
        found: Element | tuple[Element, ...] | None = getattr(operation, name)
        if isinstance(found, tuple):
            yield from found
        elif found is not None:
            yield found


def reads_of(operation: Operation) -> list[Tensor]:
    """The tensors that an operation reads, each once."""
    read = [tensor for each in elements_of(operation) for tensor in tensors_read(each)]
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
    """The tensors that an operation writes."""
    more: tuple[Tensor | None, ...] = ()
    if isinstance(operation, RowNormalize):
        more = operation.statistics
    elif isinstance(operation, Recurrence):
        more = (operation.last, operation.last_cell)
    return [operation.output, *(each for each in more if each is not None)]


def with_elements(operation: Operation, change: Callable[[Element], Element]) -> Operation:
    """The operation with each of its expressions changed."""
    changed: dict[str, Any] = {}
    for name in EXPRESSION_ATTRIBUTES[type(operation)]:
        found: Element | tuple[Element, ...] | None = getattr(operation, name)
        if isinstance(found, tuple):
            changed[name] = tuple(map(change, found))
        elif found is not None:
            changed[name] = change(found)
    return replace(operation, **changed)
