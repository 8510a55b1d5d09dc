"""Tests that an element moved to other places equals one that is read there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ortpkg.compiler.fusion.substitution import is_identity, moved, position_at, replace_reads
from ortpkg.compiler.loop_ir.loop_types import Scalar
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
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Map
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.shapes.expressions import Size, symbol
from tests.compiler.attention_parts import read_of, tensor_of
from tests.compiler.reference_program import run_program

_N = symbol("n")
_OPEN = Tensor("open", Scalar.F32, (_N, 4))
_TABLE = tensor_of("table", 9, 4)
_INDICES = tensor_of("indices", 3, scalar=Scalar.I64)
_FEEDS: Mapping[Tensor, npt.NDArray[Any]] = {
    _OPEN: np.arange(12, dtype=np.float32).reshape(3, 4),
    _TABLE: np.arange(36, dtype=np.float32).reshape(9, 4) * 7,
    _INDICES: np.array([2, 0, 1]),
}


def _sum(*elements: Element) -> Element:
    first, *others = elements
    for other in others:
        first = Call(Function.ADD, (first, other))
    return first


def _float(element: Element) -> Element:
    return Convert(element, Scalar.F32)


#: Elements of 3 by 4 places.
_ELEMENTS: Mapping[str, Element] = {
    "a read": read_of(_OPEN, 0, 1),
    "a read of every second row": Read(_TABLE, (Coordinate(((0, 2),), 1), along(1))),
    "a read along a diagonal": Read(_TABLE, (Coordinate(((0, 1), (1, 1)), 2), along(1))),
    "a row picked by an index": Read(_TABLE, (Coordinate(value=read_of(_INDICES, 0)), along(1))),
    "a row picked by an index and counted": Read(
        _TABLE, (Coordinate(((0, 2),), 1, read_of(_INDICES, 0)), along(1))
    ),
    "a row picked by a position": Read(_TABLE, (Coordinate(value=Position(0)), along(1))),
    "positions": _float(Call(Function.SUB, (Position(0), Position(1)))),
    "a size and a number": _float(_sum(SizeValue(_N), Number(2, Scalar.I64), Position(1))),
}


@dataclass(frozen=True)
class _Places:
    """Two axes with the places that they map to, over the axes of another operation."""

    axes: Sequence[Size]
    coordinates: tuple[Coordinate, Coordinate]


_PLACES: Mapping[str, _Places] = {
    "as they are": _Places((_N, 4), (along(0), along(1))),
    "turned": _Places((3, 3), (along(1), along(0))),
    "at a row": _Places((4,), (Coordinate(offset=2), along(0))),
    "at the first row": _Places((4,), (Coordinate(), along(0))),
    "from the last on": _Places((3, 4), (Coordinate(((0, -1),), 2), Coordinate(((1, -1),), 3))),
    "at the last row of an open size": _Places((4,), (Coordinate(offset=_N - 1), along(0))),
    "one axis split": _Places((2, 2), (Coordinate(((0, 1),)), Coordinate(((0, 2), (1, 1))))),
    "axes that meet": _Places((3,), (along(0), along(0))),
    "axes that cancel": _Places((3,), (along(0), Coordinate(((0, -1),), 3))),
    "at indices": _Places((3, 4), (Coordinate(value=read_of(_INDICES, 0)), along(1))),
    "at indices from one on": _Places(
        (2, 2), (Coordinate(((0, 1),), 1), Coordinate(((1, 1),), 0, read_of(_INDICES, 0)))
    ),
    "at a position": _Places((3, 4), (Coordinate(value=Position(0)), along(1))),
}


def _computed(*maps: Map) -> npt.NDArray[Any]:
    program = TensorProgram(
        name="program", inputs=tuple(_FEEDS), outputs=(maps[-1].output,), constants={},
        operations=maps,
    )  # fmt: skip
    (result,) = run_program(program, list(_FEEDS.values()))
    return result


def _map(name: str, axes: Sequence[Size], value: Element) -> Map:
    output = Tensor(name, Scalar.F32, tuple(axes))
    coordinates = tuple(map(along, range(len(axes))))
    return Map(output=output, axes=tuple(axes), value=value, coordinates=coordinates)


@pytest.mark.parametrize("name", _PLACES)
@pytest.mark.parametrize("element", _ELEMENTS)
def test_a_moved_element_is_what_stands_at_its_places(element: str, name: str) -> None:
    there = _PLACES[name]
    first = _map("first", (3, 4), _ELEMENTS[element])
    read = _map("read", there.axes, Read(first.output, there.coordinates))
    put = _map("put", there.axes, moved(_ELEMENTS[element], there.coordinates))
    np.testing.assert_array_equal(_computed(first, put), _computed(first, read))


def test_axes_that_cancel_leave_a_number() -> None:
    diagonal = Read(_TABLE, (Coordinate(((0, 1), (1, 1))), along(1)))
    coordinates = (along(0), Coordinate(((0, -1),), 3))
    assert moved(diagonal, coordinates) == Read(_TABLE, (Coordinate(offset=3), coordinates[1]))


def test_an_axis_at_itself_is_its_position_alone() -> None:
    assert position_at(along(1)) == Position(1)
    assert position_at(Coordinate()) == Number(0, Scalar.I64)
    assert position_at(Coordinate(value=Position(0))) == Position(0)
    assert position_at(Coordinate(offset=_N)) == SizeValue(_N)


def test_reads_inside_of_places_are_replaced_too() -> None:
    """Check that a place without a value stays the same object."""
    picked = Read(_TABLE, (Coordinate(value=read_of(_INDICES, 0)), along(1)))
    number = Number(1, Scalar.I64)
    changed = replace_reads(picked, lambda read: number if read.tensor is _INDICES else read)
    assert changed == Read(_TABLE, (Coordinate(value=number), along(1)))


@pytest.mark.parametrize(
    ("coordinates", "shape", "is_whole"),
    [
        ((along(0), along(1)), (2, 3), True),
        ((along(0), Coordinate()), (2, 1), True),
        ((along(1), along(0)), (2, 2), False),
        ((along(0), Coordinate()), (2, 3), False),
        ((along(0), Coordinate(offset=1)), (2, 1), False),
        ((along(0),), (2, 3), False),
        ((along(0), along(1)), (2,), False),
    ],
)
def test_only_places_of_all_elements_in_order_are_the_identity(
    coordinates: tuple[Coordinate, ...], shape: tuple[int, ...], is_whole: bool
) -> None:
    assert is_identity(coordinates, shape) is is_whole
