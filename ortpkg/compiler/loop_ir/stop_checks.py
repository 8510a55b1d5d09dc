"""Makes the outer loops of a kernel check whether the run must end, so that long tiles stop too.

A check is a load and a branch that is never taken: almost free in a loop that runs an inner loop in
each iteration. Innermost loops have no check, except those known to run more than a million times
(:meth:`~ortpkg.compiler.loop_ir.kernel_builder.KernelBuilder.loop`) and those that a schedule marks
with ``may_stop``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortpkg.compiler.loop_ir.kernel import For, If, Statement

#: Number of nested loops that check, from the outermost inwards.
_DEPTH = 3


def with_stop_checks(statements: Sequence[Statement], depth: int = _DEPTH) -> tuple[Statement, ...]:
    """Return the statements, with checks in the outer ``depth`` levels of loops."""
    return tuple(_checked(statement, depth) for statement in statements)


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
    for statement in statements:
        if isinstance(statement, For) and (not statement.unroll or _has_loop(statement.body)):
            return True
        if isinstance(statement, If) and (
            _has_loop(statement.then) or _has_loop(statement.otherwise)
        ):
            return True
    return False
