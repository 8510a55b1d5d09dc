"""Removes operations whose outputs nobody reads."""

from __future__ import annotations

from dataclasses import replace

from ortpkg.codegen.tensor_ir.operations import Operation
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram, reads_of, writes_of


def remove_unused(program: TensorProgram) -> TensorProgram:
    """The operations that an output or a report needs, and the constants that they read."""
    needed = {*program.outputs, *program.reports}
    kept: list[Operation] = []
    for operation in reversed(program.operations):
        if needed.intersection(writes_of(operation)):
            kept.append(operation)
            needed.update(reads_of(operation))
    return replace(
        program,
        operations=tuple(reversed(kept)),
        constants={each: value for each, value in program.constants.items() if each in needed},
    )
