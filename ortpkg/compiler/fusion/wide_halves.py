"""Keeps float16 values in float32 between the operations of a program, as the numpy engine does.

Operators of float16 compute in float32, and values are rounded to float16 only where they leave the
program. So intermediate values may exceed float16's range (docs/guide.md). Inputs, constants and
operations that only move their elements stay float16, since moving rounds nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ortpkg.compiler.fusion.inlining import is_move
from ortpkg.compiler.fusion.substitution import replace_reads
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
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
from ortpkg.compiler.tensor_ir.operations import (
    Alias,
    Attention,
    Convolution,
    Map,
    Operation,
    Pool,
    Recurrence,
    RowNormalize,
)
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, with_elements, writes_of

_HALVES = frozenset({Scalar.F16})


def widen_halves(program: TensorProgram) -> TensorProgram:
    """Return the program with its intermediate float16 tensors replaced by float32 ones."""
    wide = _wide_tensors(program)
    operations: list[Operation] = [_widened(operation, wide) for operation in program.operations]
    for output in dict.fromkeys(program.outputs):
        if output in wide:
            coordinates = tuple(along(axis) for axis in range(len(output.shape)))
            value = Convert(Read(wide[output], coordinates), output.scalar)
            operations.append(
                Map(output=output, axes=output.shape, value=value, coordinates=coordinates)
            )
    origins = dict(program.origins)
    for narrow, twin in wide.items():
        origins[twin] = origins.get(narrow, ())
    return replace(program, operations=tuple(operations), origins=origins)


def _wide_tensors(program: TensorProgram) -> dict[Tensor, Tensor]:
    """Return each computed float16 tensor with the float32 tensor that replaces it.

    Left out are outputs that also receive moved float16 elements, such as a growing cache: they are
    rounded where they are written, since a float32 copy would move all elements twice.
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
    rounded_outputs = moved.intersection(program.outputs)
    return {
        narrow: Tensor(f"{narrow.name} in f32", Scalar.F32, narrow.shape)
        for narrow in computed
        if narrow not in rounded_outputs
    }


def _moves_halves(operation: Operation, computed: Collection[Tensor]) -> bool:
    """Return True if the operation writes only constants, or elements that nothing computed."""
    if isinstance(operation, Alias):
        return operation.source not in computed
    if not isinstance(operation, Map) or not _is_choice(operation.value):
        return False
    return not any(tensor in computed for tensor in tensors_read(operation.value))


def _is_choice(value: Element) -> bool:
    """Return True if a float16 element is a read or number, or a selection among such."""
    if isinstance(value, Call):
        return value.function is Function.SELECT and all(map(_is_choice, value.operands[1:]))
    return is_move(value) and not isinstance(value, Convert)


def _widened(operation: Operation, wide: dict[Tensor, Tensor]) -> Operation:
    """Return the operation, reading and writing the float32 tensors."""
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
                statistic and wide.get(statistic, statistic) for statistic in (mean, deviation)
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
    """Return the expression, reading the float32 tensors; selections become float32 too."""

    def change(read: Read) -> Element:
        return Read(wide.get(read.tensor, read.tensor), read.coordinates)

    return _with_one_kind(replace_reads(element, change))


def _with_one_kind(element: Element) -> Element:
    """Return the expression with equal scalar types within each call, and no needless Convert."""
    match element:
        case Convert(operand, scalar):
            return _of_kind(_with_one_kind(operand), scalar)
        case Call(function, operands):
            changed = list(map(_with_one_kind, operands))
            first = 1 if function is Function.SELECT else 0
            kinds = {scalar_of(part) for part in changed[first:]}
            if kinds == {Scalar.F16, Scalar.F32}:
                changed[first:] = [_of_kind(part, Scalar.F32) for part in changed[first:]]
            return Call(function, tuple(changed))
        case _:
            return element


def _of_kind(element: Element, scalar: Scalar) -> Element:
    """Return the element converted to a scalar type; float32 is reached without a float16 step."""
    if scalar is Scalar.F32 and isinstance(element, Convert) and element.scalar in _HALVES:
        element = element.operand
    return element if scalar_of(element) is scalar else Convert(element, scalar)


def _epilogue(element: Element, scalar: Scalar) -> Element | None:
    """Return the epilogue with a result of this scalar type; None if it would change nothing."""
    converted = _of_kind(element, scalar)
    return None if isinstance(converted, Made) else converted
