"""Outer loops of kernels look whether the run is to end."""

from __future__ import annotations

from ortpkg.compiler.loop_ir.kernel import For, If, Op, Statement
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder


def _flags(statements: tuple[Statement, ...]) -> list[object]:
    """Of each loop whether it may stop, and the same of those inside of it."""
    found: list[object] = []
    for each in statements:
        if isinstance(each, For):
            found += [each.may_stop, _flags(each.body)]
        elif isinstance(each, If):
            found += _flags(each.then)
    return found


def test_the_three_outermost_loops_look_and_innermost_ones_do_not() -> None:
    b = KernelBuilder("nest")
    count = b.size("count")
    with b.loop(0, count), b.loop(0, count), b.loop(0, count), b.loop(0, count), b.loop(0, count):
        pass
    with b.loop(0, count):
        pass
    assert _flags(b.kernel().body) == [
        True, [True, [True, [False, [False, []]]]],
        False, [],
    ]  # fmt: skip


def test_loops_that_are_written_out_and_conditions_are_looked_through() -> None:
    b = KernelBuilder("nest")
    count = b.size("count")
    with (
        b.loop(0, 4, unroll=True),
        b.when(b.compute(Op.GT, count, 0)),
        b.loop(0, count),
        b.loop(0, count),
    ):
        pass
    with b.loop(0, count), b.loop(0, 4, unroll=True):
        pass
    assert _flags(b.kernel().body) == [False, [True, [False, []]], False, [False, []]]


def test_an_innermost_loop_looks_where_it_is_known_to_make_a_million_passes() -> None:
    b = KernelBuilder("long")
    with b.loop(0, 1 << 21):
        pass
    with b.loop(0, 1 << 21, step=16):
        pass
    with b.loop(5, 1000):
        pass
    assert _flags(b.kernel().body) == [True, [], False, [], False, []]
