"""Before/after pairs: a pass turns one program's text into the other, and both compute the same."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser

from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.compiler.tensor_ir.tensor_text import operations_text
from ortpkg.compiler.tensor_ir.tensor_verifier import verify_operations
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.reference_elements import DTYPES
from tests.compiler.reference_program import run_program
from tests.engine.transformers.transformation import HEADER

Pass = Callable[[TensorProgram], TensorProgram]
#: What every symbolic size is when both programs are run.
_OPEN_SIZE = 3


def lowered(graph: str) -> TensorProgram:
    """The program of a graph in onnx's text form, before any pass."""
    model = load_model(onnx.parser.parse_model(HEADER + graph).SerializeToString())
    return lower_graph(model.graph, infer_sizes(model), "program")


def assert_becomes(
    program: TensorProgram, change: Pass, *, before: str, after: str, rtol: float = 1e-6
) -> None:
    """The program's text is ``before``, the pass makes ``after`` of it, and both give the same."""
    assert operations_text(program.operations) == textwrap.dedent(before).lstrip("\n")
    changed = change(program)
    assert operations_text(changed.operations) == textwrap.dedent(after).lstrip("\n")
    verify_operations(changed.operations)
    feeds = [random_array(tensor, seed) for seed, tensor in enumerate(program.inputs)]
    for one, other in zip(run_program(changed, feeds), run_program(program, feeds), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def assert_stays(program: TensorProgram, change: Pass) -> None:
    """The pass leaves the program's operations as they are."""
    before = operations_text(program.operations)
    assert operations_text(change(program).operations) == before


def random_array(tensor: Tensor, seed: int) -> npt.NDArray[Any]:
    generator = np.random.default_rng(seed)
    shape = [size if isinstance(size, int) else _OPEN_SIZE for size in tensor.shape]
    dtype = np.dtype(DTYPES[tensor.scalar])
    if dtype.kind in "iu":
        return generator.integers(0, 50, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)
