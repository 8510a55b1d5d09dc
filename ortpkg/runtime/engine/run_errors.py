"""Errors of runs, made from the errors of nodes."""

from __future__ import annotations

from ortpkg.foundations.errors import (
    CancelledError,
    LimitExceededError,
    OrtpkgError,
    RunError,
    printable,
    quoted,
)
from ortpkg.runtime.engine.instructions import Instruction


def run_error(error: BaseException, instruction: Instruction) -> OrtpkgError:
    """Return the error that a run raises for a kernel's failure, with node, operator and text."""
    where = f"node {quoted(instruction.node_name)} ({instruction.op_type})"
    if isinstance(error, LimitExceededError):
        if error.node_name is not None:
            return error
        return LimitExceededError(
            f"{where}: {error}", limit=error.limit, node_name=instruction.node_name
        )
    if isinstance(error, CancelledError | OrtpkgError):
        return error
    if isinstance(error, MemoryError):
        return LimitExceededError(
            f"{where} failed: out of memory: {printable(error)}",
            limit="memory",
            node_name=instruction.node_name,
        )
    text = printable(error) or type(error).__name__
    if not isinstance(error, Exception) or isinstance(
        error, KeyError
    ):  # their texts alone are not clear
        text = f"{type(error).__name__}: {text}"
    return RunError(f"{where} failed: {text}", node_name=instruction.node_name)
