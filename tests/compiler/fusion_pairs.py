"""Pairs of programs that differ in one condition of a pass: it changes one, and not the other."""

from __future__ import annotations

import numpy as np

from ortpkg.compiler.passes import optimized
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.compiler.tensor_ir.tensor_text import operations_text
from ortpkg.compiler.tensor_ir.tensor_verifier import verify_operations
from tests.compiler.reference_program import run_program
from tests.compiler.rewritten_programs import Pass, random_array


def is_changed(program: TensorProgram, change: Pass) -> bool:
    """Return True if the pass changes a program, which must be a valid one."""
    verify_operations(program.operations)
    changed = change(program)
    verify_operations(changed.operations)
    return operations_text(changed.operations) != operations_text(program.operations)


def assert_same_values(program: TensorProgram, *, rtol: float = 1e-5) -> None:
    """Check that all passes together leave a program's values as they are."""
    feeds = [random_array(tensor, seed) for seed, tensor in enumerate(program.inputs)]
    changed = optimized(program)
    verify_operations(changed.operations)
    for one, other in zip(run_program(changed, feeds), run_program(program, feeds), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)
