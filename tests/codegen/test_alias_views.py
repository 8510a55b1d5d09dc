"""Reads of a tensor under another shape become reads of the tensor itself."""

from __future__ import annotations

from ortpkg.codegen.fusion.alias_views import read_through_aliases
from tests.codegen.rewritten_programs import assert_becomes, assert_stays, lowered


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
            places: (a0, a1)
        """,
        after="""
        r: f32[2, 3] = alias
            source: x: f32[6]
        y: f32[2, 3] = map
            axes: (2, 3)
            value: (x[(3)*a0 + a1] + b[a0, a1])
            places: (a0, a1)
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
            places: (a0, a1, a2)
        """,
        after="""
        r: f32[2, 1, 3] = alias
            source: x: f32[2, 3]
        y: f32[2, 1, 3] = map
            axes: (2, 1, 3)
            value: (x[a0, a2] + b[a0, 0, a2])
            places: (a0, a1, a2)
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
            places: (a0, a1, a2, a3)
        """,
        after="""
        r: f32[n, 2, 3] = alias
            source: x: f32[n, 6]
        u: f32[n, 2, 3, 1] = alias
            source: r: f32[n, 2, 3]
        y: f32[n, 2, 3, 1] = map
            axes: (n, 2, 3, 1)
            value: (x[a0, (3)*a1 + a2] + b[a0, a1, a2, 0])
            places: (a0, a1, a2, a3)
        """,
    )


def test_joined_dimensions_are_read_as_the_alias() -> None:
    graph = """
        g (float[2, 3] x, float[6] b) => (float[6] y) <int64[1] shape = {6}> {
            r = Reshape(x, shape)  y = Add(r, b) }
        """
    assert_stays(lowered(graph), read_through_aliases)
