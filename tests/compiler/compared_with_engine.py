"""Holds what a graph is lowered to against the engine's kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser

from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.compiler.tensor_ir.tensor_verifier import verify_operations
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.reference_program import run_program
from tests.engine.transformers.transformation import HEADER, run_engine

Array = npt.NDArray[Any]


def assert_as_engine(text: str, feeds: Mapping[str, Array], *, rtol: float = 0.0) -> TensorProgram:
    """The program of a graph, fused or not, gives what the numpy kernels give; integers exactly.

    Returns the fused program.
    """
    proto = onnx.parser.parse_model(HEADER + text)
    wanted = run_engine(proto, dict(feeds))
    model = load_model(proto.SerializeToString())
    program = lower_graph(model.graph, infer_sizes(model), "program")
    fused = optimized(program)
    for stage in (program, fused):
        verify_operations(stage.operations)
        made = run_program(stage, [feeds[name] for name in model.graph.inputs])
        for one, other in zip(made, wanted, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, rtol=rtol if one.dtype.kind == "f" else 0)
    return fused
