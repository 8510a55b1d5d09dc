"""Joins axes that are contiguous in all tensors read and written, so that few long ones remain.

Reads then use only the last dimension, at a coordinate that counts the elements before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortpkg.compiler.fusion.substitution import moved, replace_reads
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.linear_reads import LinearIndex, linear_index
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Number,
    Position,
    Read,
    SizeValue,
    along,
    parts_of,
)
from ortpkg.graph.shapes.expressions import Size, TooLargeError


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapsedAxes:
    """Expressions over fewer axes.

    Attributes:
        axes: sizes of the axes.
        values: expressions over them, in the given order.
        indices: linear indices over them, in the given order.
        borders: numbers of the axes that begin at the given borders.
    """

    axes: tuple[Size, ...]
    values: tuple[Element, ...]
    indices: tuple[LinearIndex, ...]
    borders: tuple[int, ...]


def collapsed(
    axes: Sequence[Size],
    values: Sequence[Element],
    linear_outputs: Sequence[LinearIndex],
    *,
    borders: Sequence[int] = (),
) -> CollapsedAxes:
    """Drop axes of size 1, and join neighbours that all linear indices walk through as one.

    Args:
        axes: sizes of the axes.
        values: expressions over the axes.
        linear_outputs: linear indices without values.
        borders: axes that are kept and not joined with the one before them.
    """
    linear = [replace_reads(value, _linear_read) for value in values]
    linear_indices = [*linear_outputs, *(linear_index(index) for index in _reads(linear))]
    fixed = {
        part.axis for value in linear for part in parts_of(value) if isinstance(part, Position)
    }
    groups: list[list[int]] = []
    for axis, size in enumerate(axes):
        if size == 1 and axis not in borders:
            continue
        is_free = axis not in borders and groups and not fixed & {axis, groups[-1][-1]}
        if is_free and all(
            _continues(index, groups[-1][-1], axis, size) for index in linear_indices
        ):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return _joined(axes, groups, linear, linear_outputs, borders)


def _joined(
    axes: Sequence[Size],
    groups: Sequence[Sequence[int]],
    values: Sequence[Element],
    linear_outputs: Sequence[LinearIndex],
    borders: Sequence[int],
) -> CollapsedAxes:
    new_coordinates = [Coordinate()] * len(axes)
    new_axes: list[Size] = []
    number_of_axis: dict[int, int] = {}
    for number, group in enumerate(groups):
        new_coordinates[group[-1]] = along(
            number
        )  # the joined axis has the stride of its last axis
        number_of_axis[group[-1]] = number
        size: Size = 1
        for axis in group:
            size = size * axes[axis]
        new_axes.append(size)
    joined_indices = [
        LinearIndex(
            terms=tuple(
                (number_of_axis[axis], number)
                for axis, number in index.terms
                if axis in number_of_axis
            ),
            offset=index.offset,
            values=index.values,
        )
        for index in linear_outputs
    ]
    return CollapsedAxes(
        axes=tuple(new_axes),
        values=tuple(moved(value, new_coordinates) for value in values),
        indices=tuple(joined_indices),
        borders=tuple(number for number, group in enumerate(groups) if group[0] in borders),
    )


def _continues(linear: LinearIndex, outer: int, inner: int, size: Size) -> bool:
    """Return True if a step along the outer axis continues where the inner axis ends."""
    try:
        return linear.stride(inner) * size == linear.stride(outer)
    except TooLargeError:
        return False


def _reads(values: Sequence[Element]) -> list[Read]:
    return [part for value in values for part in parts_of(value) if isinstance(part, Read)]


def _linear_read(read: Read) -> Element:
    if len(read.coordinates) < 2:
        return read
    linear = linear_index(read)
    value: Element | None = None
    for element, number in linear.values:
        whole: Element = Convert(element, Scalar.I64)
        if number != 1:
            times = Number(number, Scalar.I64) if isinstance(number, int) else SizeValue(number)
            whole = Call(Function.MUL, (whole, times))
        value = whole if value is None else Call(Function.ADD, (value, whole))
    start = [Coordinate()] * (len(read.coordinates) - 1)
    return Read(read.tensor, (*start, Coordinate(linear.terms, linear.offset, value)))
