"""What a run raises for what a node raised."""

from __future__ import annotations

from ortpkg.engine.instructions import Instruction
from ortpkg.errors import (
    CancelledError,
    LimitExceededError,
    OrtpkgError,
    RunError,
    printable,
    quoted,
)


def run_error(error: BaseException, instruction: Instruction) -> OrtpkgError:
    """A kernel's failure as the caller sees it: node, operator, and the kernel's own text."""
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
    said = printable(error) or type(error).__name__
    if not isinstance(error, Exception) or isinstance(
        error, KeyError
    ):  # whose texts alone say nothing
        said = f"{type(error).__name__}: {said}"
    return RunError(f"{where} failed: {said}", node_name=instruction.node_name)
