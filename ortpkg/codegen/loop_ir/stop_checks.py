"""Has the outer loops of a kernel look whether the run is to end: however long a tile is, it stops.

A look is a load and a branch that is never taken, next to nothing for a loop that runs another one
in each pass. Loops that run none are left alone, but for those that are known to make a million
passes (:meth:`~ortpkg.codegen.loop_ir.kernel_builder.KernelBuilder.loop`), and those of which a
schedule says that they may stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortpkg.codegen.loop_ir.kernel import For, If, Statement

#: How many loops within each other look, the outermost first.
_DEPTH = 3


def with_stop_checks(statements: Sequence[Statement], depth: int = _DEPTH) -> tuple[Statement, ...]:
    """The same statements, where the outer loops may stop."""
    return tuple(_checked(each, depth) for each in statements)


def _checked(statement: Statement, depth: int) -> Statement:
    if isinstance(statement, If):
        return replace(
            statement,
            then=with_stop_checks(statement.then, depth),
            otherwise=with_stop_checks(statement.otherwise, depth),
        )
    if not isinstance(statement, For) or depth == 0 or not _has_loop(statement.body):
        return statement
    if statement.unroll:
        return replace(statement, body=with_stop_checks(statement.body, depth))
    return replace(statement, may_stop=True, body=with_stop_checks(statement.body, depth - 1))


def _has_loop(statements: Sequence[Statement]) -> bool:
    for each in statements:
        if isinstance(each, For) and (not each.unroll or _has_loop(each.body)):
            return True
        if isinstance(each, If) and (_has_loop(each.then) or _has_loop(each.otherwise)):
            return True
    return False
