"""Keeps float16 values in float32 between the operations of a program, as the numpy engine does.

Operators of float16 compute in float32, and what they make is rounded where it leaves the program
alone: what exceeds float16's range on the way stays finite (docs/guide.md). Inputs, constants and
what only moves elements of them stay float16, since that rounds nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ortpkg.codegen.fusion.inlining import is_move
from ortpkg.codegen.fusion.substitution import replace_reads
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Made,
    Read,
    Tensor,
    along,
    scalar_of,
    tensors_read,
)
from ortpkg.codegen.tensor_ir.operations import (
    Alias,
    Attention,
    Convolution,
    Map,
    Operation,
    Pool,
    Recurrence,
    RowNormalize,
)
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram, with_elements, writes_of

_HALVES = frozenset({Scalar.F16})


def widen_halves(program: TensorProgram) -> TensorProgram:
    """The program with float32 in the place of float16 that operations make for one another."""
    wide = _wide_tensors(program)
    if not wide:
        return program
    operations: list[Operation] = [_widened(each, wide) for each in program.operations]
    for output in dict.fromkeys(program.outputs):
        if output in wide:
            places = tuple(along(axis) for axis in range(len(output.shape)))
            value = Convert(Read(wide[output], places), output.scalar)
            operations.append(Map(output=output, axes=output.shape, value=value, places=places))
    origins = dict(program.origins)
    for narrow, twin in wide.items():
        origins[twin] = origins.get(narrow, ())
    return replace(program, operations=tuple(operations), origins=origins)


def _wide_tensors(program: TensorProgram) -> dict[Tensor, Tensor]:
    """The tensors of float16 that are computed, with what takes their place.

    An output into which elements of float16 are moved beside others, as a cache is that grows, is
    rounded where it is written: its elements would be copied twice.
    """
    computed: dict[Tensor, None] = {}
    moved: set[Tensor] = set()
    for operation in program.operations:
        for tensor in writes_of(operation):
            if tensor.scalar not in _HALVES:
                continue
            if _moves_halves(operation, computed):
                moved.add(tensor)
            else:
                computed[tensor] = None
    kept = moved.intersection(program.outputs)
    return {
        each: Tensor(f"{each.name} in f32", Scalar.F32, each.shape)
        for each in computed
        if each not in kept
    }


def _moves_halves(operation: Operation, computed: Collection[Tensor]) -> bool:
    """Whether an operation only moves elements that no operation computed, or writes numbers."""
    if isinstance(operation, Alias):
        return operation.source not in computed
    if not isinstance(operation, Map) or not _is_choice(operation.value):
        return False
    return not any(tensor in computed for tensor in tensors_read(operation.value))


def _is_choice(value: Element) -> bool:
    """Whether an element is one of float16, or chosen among such."""
    if scalar_of(value) not in _HALVES:
        return False
    if isinstance(value, Call):
        return value.function is Function.SELECT and all(map(_is_choice, value.operands[1:]))
    return is_move(value) and not isinstance(value, Convert)


def _widened(operation: Operation, wide: dict[Tensor, Tensor]) -> Operation:
    """The operation with reads and writes of tensors in float32."""
    changed = with_elements(operation, lambda element: _read_wide(element, wide))
    written: dict[str, Any] = {"output": wide.get(operation.output, operation.output)}
    match changed:
        case Alias(source=source) | Pool(source=source):
            written["source"] = wide.get(source, source)
        case Convolution(source=source, weights=weights):
            written["source"] = wide.get(source, source)
            written["weights"] = wide.get(weights, weights)
        case RowNormalize(statistics=(mean, deviation)):
            written["statistics"] = tuple(
                each and wide.get(each, each) for each in (mean, deviation)
            )
        case Recurrence(last=last, last_cell=cell):
            written["last"] = last and wide.get(last, last)
            written["last_cell"] = cell and wide.get(cell, cell)
        case _:
            pass
    scalar = written["output"].scalar
    if isinstance(changed, Map):
        written["value"] = _of_kind(changed.value, scalar)
    elif not isinstance(changed, Alias | Attention | Recurrence) and changed.epilogue is not None:
        written["epilogue"] = _epilogue(changed.epilogue, scalar)
    return replace(changed, **written)


def _read_wide(element: Element, wide: dict[Tensor, Tensor]) -> Element:
    """The expression over the tensors in float32; what it chose of float16 is float32 too."""

    def change(read: Read) -> Element:
        return Read(wide.get(read.tensor, read.tensor), read.places)

    return _with_one_kind(replace_reads(element, change))


def _with_one_kind(element: Element) -> Element:
    """The expression with operands of calls of one kind again, none converted to its own kind."""
    match element:
        case Convert(operand, scalar):
            return _of_kind(_with_one_kind(operand), scalar)
        case Call(function, operands):
            changed = list(map(_with_one_kind, operands))
            first = 1 if function is Function.SELECT else 0
            kinds = {scalar_of(each) for each in changed[first:]}
            if kinds == {Scalar.F16, Scalar.F32}:
                changed[first:] = [_of_kind(each, Scalar.F32) for each in changed[first:]]
            return Call(function, tuple(changed))
        case _:
            return element


def _of_kind(element: Element, scalar: Scalar) -> Element:
    """The element as a kind of number; not rounded to float16 on the way to float32."""
    if scalar is Scalar.F32 and isinstance(element, Convert) and element.scalar in _HALVES:
        element = element.operand
    return element if scalar_of(element) is scalar else Convert(element, scalar)


def _epilogue(element: Element, scalar: Scalar) -> Element | None:
    """The epilogue that makes a kind of number; None where that is what was made."""
    made = _of_kind(element, scalar)
    return None if isinstance(made, Made) else made
