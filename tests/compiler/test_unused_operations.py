"""Operations whose outputs nobody reads are removed, and their constants with them."""

from __future__ import annotations

from ortpkg.compiler.fusion.unused_operations import remove_unused
from tests.compiler.rewritten_programs import assert_becomes, lowered


def test_what_no_output_needs_is_gone_with_its_constants() -> None:
    graph = """
        g (float[3] x) => (float[3] y)
        <float[3] k = {1, 2, 3}, float[3] l = {4, 5, 6}> {
            a = Neg(x)  b = Add(a, l)  y = Add(x, k) }
        """
    assert_becomes(
        lowered(graph),
        remove_unused,
        before="""
        a: f32[3] = map
            axes: (3)
            value: neg(x[a0])
            coordinates: (a0)
        b: f32[3] = map
            axes: (3)
            value: (a[a0] + l[a0])
            coordinates: (a0)
        y: f32[3] = map
            axes: (3)
            value: (x[a0] + k[a0])
            coordinates: (a0)
        """,
        after="""
        y: f32[3] = map
            axes: (3)
            value: (x[a0] + k[a0])
            coordinates: (a0)
        """,
    )


def test_what_counts_wrong_indices_is_kept() -> None:
    program = lowered("g (float[5] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }")
    assert program.reports
    assert remove_unused(program).operations == program.operations


def test_constants_that_nobody_reads_are_gone() -> None:
    graph = """
        g (float[3] x) => (float[3] y)
        <float[3] k = {1, 2, 3}, float[3] l = {4, 5, 6}> { a = Add(x, l)  y = Add(x, k) }
        """
    assert [each.name for each in remove_unused(lowered(graph)).constants] == ["k"]
