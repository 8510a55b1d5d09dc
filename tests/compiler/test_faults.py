"""A fault of the compiler leaves a node to the next provider with a warning; tests see it."""

from __future__ import annotations

import logging

import numpy as np
import onnx.parser
import pytest

from ortpkg.compiler.lowering import operator_lowerings
from ortpkg.compiler.lowering.lowering_scope import LoweringScope
from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.graph.graph import Node
from ortpkg.graph.shapes.inference import STRICT_VARIABLE
from ortpkg.runtime.session.inference_session import InferenceSession

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

_HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'


def _session(text: str) -> InferenceSession:
    model = onnx.parser.parse_model(_HEADER + text).SerializeToString()
    return InferenceSession(model, providers=["llvm", "cpu"])


@pytest.fixture
def _fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(scope: LoweringScope, node: Node) -> None:
        raise IndexError(f"a fault at {node.op_type} of {len(scope.operations)}")

    broken = {**operator_lowerings.LOWERINGS, ("", "Relu"): lower}
    monkeypatch.setattr(operator_lowerings, "LOWERINGS", broken)


@pytest.mark.usefixtures("_fault")
def test_a_fault_costs_no_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(STRICT_VARIABLE)
    with (
        caplog.at_level(logging.WARNING),
        _session("g (float[n] x) => (float[n] y) { y = Relu(x) }") as session,
    ):
        x = np.array([-1, 2], np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], [0, 2])
        used = [each.ep_name for each in session.get_placement().entries if each.node_count]
    assert used == [CPU_EP]
    assert any("IndexError" in each and "Relu" in each for each in caplog.messages)


@pytest.mark.usefixtures("_fault")
def test_a_fault_is_raised_where_tests_run() -> None:
    with pytest.raises(Exception, match="a fault at Relu"):
        _session("g (float[n] x) => (float[n] y) { y = Relu(x) }")


@pytest.mark.parametrize("positions", ["int64[b] p", "int64[k] p", "int64 p", "int64[1] p"])
def test_a_rotary_embedding_takes_the_position_of_its_first_token(positions: str) -> None:
    text = f"""g (float[b, n, 8] x, {positions}, float[8, 4] c) => (float[b, n, 8] y)
        {{ y = com.microsoft.RotaryEmbedding(x, p, c, c) }}"""
    generator = np.random.default_rng(0)
    at = np.array(2) if positions == "int64 p" else np.array([2])
    feeds = {
        "x": generator.standard_normal((1, 3, 8)).astype(np.float32),
        "p": at,
        "c": generator.standard_normal((8, 4)).astype(np.float32),
    }
    model = onnx.parser.parse_model(_HEADER + text).SerializeToString()
    with _session(text) as session, InferenceSession(model, providers=["cpu"]) as engine:
        made, wanted = (each.run(None, feeds)[0] for each in (session, engine))
    np.testing.assert_allclose(made, wanted, rtol=1e-6, atol=1e-6)
