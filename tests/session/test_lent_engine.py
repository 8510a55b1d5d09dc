"""The session's engine, lent to a provider: a graph of kernels that it runs by itself."""

from __future__ import annotations

import numpy as np
import onnx.parser

from ortpkg.engine.plain_context import PlainContext
from ortpkg.engine.run_control import RunControl
from ortpkg.graph.onnx_reader import load_model
from ortpkg.kernels.op_kernel_info import NodeKernelInfo
from ortpkg.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.session.lent_engine import SessionGraphEngine
from ortpkg.session.options import SessionOptions

_TEXT = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Neg(x) }'


def test_a_planned_graph_runs_in_the_trial_of_a_context_as_well() -> None:
    graph = load_model(onnx.parser.parse_model(_TEXT).SerializeToString()).graph
    planned = SessionGraphEngine(SessionOptions()).plan(
        graph, CPUExecutionProvider(), NodeKernelInfo
    )
    (y,) = planned.run([np.ones(2, np.float32)], PlainContext(RunControl()))
    assert y.tolist() == [-1.0, -1.0]
