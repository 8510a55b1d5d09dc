"""Reads of a tensor under another shape become reads of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ortpkg.compiler.fusion.alias_views import coordinates_in_source, read_through_aliases, root_of
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import Coordinate, Tensor, along
from tests.compiler.rewritten_programs import assert_becomes, assert_stays, lowered


def test_a_split_dimension_is_read_at_a_sum_of_axes() -> None:
    graph = """
        g (float[6] x, float[2, 3] b) => (float[2, 3] y) <int64[2] shape = {2, 3}> {
            r = Reshape(x, shape)  y = Add(r, b) }
        """
    assert_becomes(
        lowered(graph),
        read_through_aliases,
        before="""
        r: f32[2, 3] = alias
            source: x: f32[6]
        y: f32[2, 3] = map
            axes: (2, 3)
            value: (r[a0, a1] + b[a0, a1])
            coordinates: (a0, a1)
        """,
        after="""
        r: f32[2, 3] = alias
            source: x: f32[6]
        y: f32[2, 3] = map
            axes: (2, 3)
            value: (x[(3)*a0 + a1] + b[a0, a1])
            coordinates: (a0, a1)
        """,
    )


def test_a_dimension_of_one_is_not_read() -> None:
    graph = """
        g (float[2, 3] x, float[2, 1, 3] b) => (float[2, 1, 3] y) <int64[1] axis = {1}> {
            r = Unsqueeze(x, axis)  y = Add(r, b) }
        """
    assert_becomes(
        lowered(graph),
        read_through_aliases,
        before="""
        r: f32[2, 1, 3] = alias
            source: x: f32[2, 3]
        y: f32[2, 1, 3] = map
            axes: (2, 1, 3)
            value: (r[a0, 0, a2] + b[a0, 0, a2])
            coordinates: (a0, a1, a2)
        """,
        after="""
        r: f32[2, 1, 3] = alias
            source: x: f32[2, 3]
        y: f32[2, 1, 3] = map
            axes: (2, 1, 3)
            value: (x[a0, a2] + b[a0, 0, a2])
            coordinates: (a0, a1, a2)
        """,
    )


def test_an_alias_of_an_alias_is_read_as_the_first_tensor() -> None:
    graph = """
        g (float[n, 6] x, float[n, 2, 3, 1] b) => (float[n, 2, 3, 1] y)
        <int64[3] shape = {0, 2, 3}, int64[1] last = {-1}> {
            r = Reshape(x, shape)  u = Unsqueeze(r, last)  y = Add(u, b) }
        """
    assert_becomes(
        lowered(graph),
        read_through_aliases,
        before="""
        r: f32[n, 2, 3] = alias
            source: x: f32[n, 6]
        u: f32[n, 2, 3, 1] = alias
            source: r: f32[n, 2, 3]
        y: f32[n, 2, 3, 1] = map
            axes: (n, 2, 3, 1)
            value: (u[a0, a1, a2, 0] + b[a0, a1, a2, 0])
            coordinates: (a0, a1, a2, a3)
        """,
        after="""
        r: f32[n, 2, 3] = alias
            source: x: f32[n, 6]
        u: f32[n, 2, 3, 1] = alias
            source: r: f32[n, 2, 3]
        y: f32[n, 2, 3, 1] = map
            axes: (n, 2, 3, 1)
            value: (x[a0, (3)*a1 + a2] + b[a0, a1, a2, 0])
            coordinates: (a0, a1, a2, a3)
        """,
    )


def test_joined_dimensions_are_read_as_the_alias() -> None:
    graph = """
        g (float[2, 3] x, float[6] b) => (float[6] y) <int64[1] shape = {6}> {
            r = Reshape(x, shape)  y = Add(r, b) }
        """
    assert_stays(lowered(graph), read_through_aliases)


_SPLITS: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (6,)),
    ((2, 3), (2, 3)),
    ((2, 3, 4), (6, 4)),
    ((2, 3, 4), (2, 12)),
    ((2, 3, 4, 5), (6, 20)),
    ((2, 3), (2, 1, 3)),
    ((2, 1, 3), (2, 3)),
    ((2, 1, 3, 1), (6,)),
    ((6, 1, 1), (6,)),
    ((6,), (6, 1, 1)),
    ((1, 6), (6, 1)),
    ((1, 1), (1,)),
    ((1,), ()),
    ((), (1, 1)),
    ((2, 1, 3, 4), (2, 3, 1, 4)),
]


def _sum_of(coordinate: Coordinate, index: Sequence[int]) -> int:
    assert isinstance(coordinate.offset, int)
    return coordinate.offset + sum(
        index[axis] * int(str(times)) for axis, times in coordinate.terms
    )


@pytest.mark.parametrize(("shape", "source"), _SPLITS)
def test_places_of_an_alias_are_sums_in_its_source(
    shape: tuple[int, ...], source: tuple[int, ...]
) -> None:
    coordinates = coordinates_in_source(shape, source, [along(axis) for axis in range(len(shape))])
    assert coordinates is not None
    elements = np.arange(np.prod(shape, dtype=int)).reshape(source)
    for index in np.ndindex(shape):
        element = elements[tuple(_sum_of(coordinate, index) for coordinate in coordinates)]
        assert element == np.ravel_multi_index(index, shape) if shape else element == 0


@pytest.mark.parametrize(
    ("shape", "source"),
    [
        ((6,), (2, 3)),
        ((4, 3), (2, 6)),
        ((3, 2), (2, 3)),
        ((2, 2), (2, 2, 2)),
        ((2, 3, 2), (2, 3)),
        ((2, 3, 2), (6,)),
        ((4, 2), (6,)),
    ],
)
def test_places_that_are_no_sums_are_none(shape: tuple[int, ...], source: tuple[int, ...]) -> None:
    axes = [along(axis) for axis in range(len(shape))]
    assert coordinates_in_source(shape, source, axes) is None


def test_a_dimension_of_one_adds_nothing_to_a_place() -> None:
    coordinates = coordinates_in_source((2, 1, 3), (6,), [along(0), along(7), along(2)])
    assert coordinates == (Coordinate(((0, 3), (2, 1))),)


def test_an_alias_lies_in_the_memory_of_what_the_first_is_of() -> None:
    first, second, third = (Tensor(name, Scalar.F32, (6,)) for name in "abc")
    sources = {third: second, second: first}
    assert [root_of(tensor, sources) for tensor in (first, second, third)] == [first] * 3
