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


def elements_of(operation: Operation) -> Iterator[Element]:
    """Every expression of an operation."""
    match operation:
        case Map():
            found: tuple[Element | None, ...] = (operation.value,)
        case Reduce() | RowNormalize():
            found = (operation.value, operation.epilogue)
        case Product():
            found = (
                operation.left,
                operation.right,
                operation.left_zero,
                operation.right_zero,
                operation.epilogue,
            )
        case Convolution():
            found = (operation.source_zero, operation.weights_zero, operation.epilogue)
        case Pool():
            found = (operation.epilogue,)
        case Attention():
            found = (operation.query, operation.key, operation.value, operation.score)
        case Recurrence():
            found = (
                operation.recurrence,
                operation.late_bias,
                operation.initial,
                operation.initial_cell,
                *operation.peepholes,
                operation.lengths,
            )
        case Alias():
            found = ()
    yield from (each for each in found if each is not None)


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

    def changed(element: Element | None) -> Element | None:
        return None if element is None else change(element)

    match operation:
        case Map():
            return replace(operation, value=change(operation.value))
        case Reduce() | RowNormalize():
            return replace(
                operation, value=change(operation.value), epilogue=changed(operation.epilogue)
            )
        case Product():
            return replace(
                operation,
                left=change(operation.left),
                right=change(operation.right),
                left_zero=changed(operation.left_zero),
                right_zero=changed(operation.right_zero),
                epilogue=changed(operation.epilogue),
            )
        case Convolution():
            return replace(
                operation,
                source_zero=changed(operation.source_zero),
                weights_zero=changed(operation.weights_zero),
                epilogue=changed(operation.epilogue),
            )
        case Pool():
            return replace(operation, epilogue=changed(operation.epilogue))
        case Attention():
            return replace(
                operation,
                query=change(operation.query),
                key=change(operation.key),
                value=change(operation.value),
                score=changed(operation.score),
            )
        case Recurrence():
            return replace(
                operation,
                recurrence=change(operation.recurrence),
                late_bias=changed(operation.late_bias),
                initial=changed(operation.initial),
                initial_cell=changed(operation.initial_cell),
                peepholes=tuple(map(change, operation.peepholes)),
                lengths=changed(operation.lengths),
            )
        case Alias():
            return operation
