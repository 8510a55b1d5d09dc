"""Makes few long axes of many short ones, where all that is read and written lies so.

Reads become reads along the last dimension alone: of a place that says how many elements lie
before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortpkg.codegen.fusion.substitution import moved, replace_reads
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.linear_reads import LinearPlace, linear_place
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Number,
    Place,
    Position,
    Read,
    SizeValue,
    along,
    parts_of,
)
from ortpkg.shapes.expressions import Size, TooLargeError


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapsedAxes:
    """Expressions over fewer axes.

    Attributes:
        axes: their sizes.
        values: over them, in the order in which they were given.
        places: over them too.
        borders: what the borders that were given became.
    """

    axes: tuple[Size, ...]
    values: tuple[Element, ...]
    places: tuple[LinearPlace, ...]
    borders: tuple[int, ...]


def collapsed(
    axes: Sequence[Size],
    values: Sequence[Element],
    places: Sequence[LinearPlace],
    *,
    borders: Sequence[int] = (),
) -> CollapsedAxes:
    """Leaves out axes of size 1, and joins neighbours that all places walk through as one.

    Args:
        axes: sizes.
        values: expressions over the axes.
        places: without values.
        borders: axes that are kept, and begin anew: not joined with the one before them.
    """
    linear = [replace_reads(each, _linear_read) for each in values]
    all_places = [*places, *(linear_place(each) for each in _reads(linear))]
    fixed = {part.axis for each in linear for part in parts_of(each) if isinstance(part, Position)}
    groups: list[list[int]] = []
    for axis, size in enumerate(axes):
        if size == 1 and axis not in borders:
            continue
        is_free = axis not in borders and groups and not fixed & {axis, groups[-1][-1]}
        if is_free and all(_continues(each, groups[-1][-1], axis, size) for each in all_places):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return _joined(axes, groups, linear, places, borders)


def _joined(
    axes: Sequence[Size],
    groups: Sequence[Sequence[int]],
    values: Sequence[Element],
    places: Sequence[LinearPlace],
    borders: Sequence[int],
) -> CollapsedAxes:
    new_places = [Place()] * len(axes)
    new_axes: list[Size] = []
    number_of_axis: dict[int, int] = {}
    for number, group in enumerate(groups):
        new_places[group[-1]] = along(number)  # the last one's steps are the joined axis' steps
        number_of_axis[group[-1]] = number
        size: Size = 1
        for axis in group:
            size = size * axes[axis]
        new_axes.append(size)
    kept = [
        LinearPlace(
            terms=tuple(
                (number_of_axis[axis], number)
                for axis, number in each.terms
                if axis in number_of_axis
            ),
            offset=each.offset,
            values=each.values,
        )
        for each in places
    ]
    return CollapsedAxes(
        axes=tuple(new_axes),
        values=tuple(moved(each, new_places) for each in values),
        places=tuple(kept),
        borders=tuple(number for number, group in enumerate(groups) if group[0] in borders),
    )


def _continues(place: LinearPlace, outer: int, inner: int, size: Size) -> bool:
    """Whether a step along the outer axis goes where the inner axis ends."""
    try:
        return place.stride(inner) * size == place.stride(outer)
    except TooLargeError:
        return False


def _reads(values: Sequence[Element]) -> list[Read]:
    return [part for each in values for part in parts_of(each) if isinstance(part, Read)]


def _linear_read(read: Read) -> Element:
    if len(read.places) < 2:
        return read
    place = linear_place(read)
    value: Element | None = None
    for element, number in place.values:
        whole: Element = Convert(element, Scalar.I64)
        if number != 1:
            times = Number(number, Scalar.I64) if isinstance(number, int) else SizeValue(number)
            whole = Call(Function.MUL, (whole, times))
        value = whole if value is None else Call(Function.ADD, (value, whole))
    start = [Place()] * (len(read.places) - 1)
    return Read(read.tensor, (*start, Place(place.terms, place.offset, value)))
