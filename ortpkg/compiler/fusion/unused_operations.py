"""Removes operations whose outputs are never read."""

from __future__ import annotations

from dataclasses import replace

from ortpkg.compiler.tensor_ir.operations import Operation
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, reads_of, writes_of


def remove_unused(program: TensorProgram) -> TensorProgram:
    """Return the program with only the operations and constants that an output or report needs."""
    needed = {*program.outputs, *program.reports}
    used: list[Operation] = []
    for operation in reversed(program.operations):
        if needed.intersection(writes_of(operation)):
            used.append(operation)
            needed.update(reads_of(operation))
    return replace(
        program,
        operations=tuple(reversed(used)),
        constants={
            tensor: value for tensor, value in program.constants.items() if tensor in needed
        },
    )
