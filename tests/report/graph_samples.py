"""Graphs that reports show: facts from names, and models from text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx.parser

from ortpkg.report.graph_facts import GraphFacts, NodeFact, graph_facts
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

#: One partition of a provider that compiles, a node that optimizations fold, and one that they fuse.
MIXED = """g (float[N, 4] x) => (float[N, 4] y)
<float[4, 4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}, float[4] a = {1, 2, 3, 4}> {
    [folded] b = Neg(a)
    [first] e = Exp(x)
    [product] m = MatMul(e, w)
    [sum] s = Add(m, b)
    [places] p = Abs(s)
    [last] y = Neg(p)
}"""
#: Branches with enough work for a provider that compiles.
BRANCHES = """g (bool p, float[65536] x) => (float[65536] y) {
    [choice] y = If(p) <
        then_branch = t () => (float[65536] a) { [one] b = Exp(x) [two] a = Neg(b) },
        else_branch = e () => (float[65536] c) { [three] c = Neg(x) }
    >
}"""


def named_nodes(names: Sequence[str]) -> list[NodeFact]:
    """Nodes of these names; an operator is what follows the last separator of its name."""
    return [NodeFact(name=name, op_type=name.rpartition("/")[2] or "Add") for name in names]


def model_file(folder: Path, text: str, *, opset: int = 21) -> Path:
    """A model file of the text of a graph."""
    path = folder / "model.onnx"
    header = f'<ir_version: 10, opset_import: ["" : {opset}]>'
    onnx.save(onnx.parser.parse_model(f"{header}\n{text}"), path)
    return path


def facts_of(path: Path, *, backend: str = "embedded") -> tuple[GraphFacts, ...]:
    """The facts of a model file as a session plans it on that backend."""
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.backend", backend)
    with InferenceSession(path, options) as session:
        return graph_facts(session, path)
