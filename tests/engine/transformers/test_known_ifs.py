"""An If whose condition is known is its branch; one whose condition a run tells stays."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.graph.graph_checks import check_consistency
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.runtime.engine.transformers import TransformContext, TransformLevel, apply_transformers
from ortpkg.runtime.engine.transformers.known_if_inlining import KNOWN_IF_INLINING
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel, SessionOptions
from tests.engine.transformers.transformation import (
    assert_becomes,
    assert_unchanged,
    evaluate,
    parse,
)

DRIVER = RuleDriver("known-ifs", [KNOWN_IF_INLINING])
_OTHER = "else_branch = d () => (r) { r = Abs(x) }"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            """g (float[2] x) => (float[2] y) <bool c = {0}> { y = If (c) <
               then_branch = b () => (r) { r = Abs(x) },
               else_branch = d () => (p) <float[2] w = {1, 2}> { p = Mul(x, w) }> }""",
            "g (float[2] x) => (float[2] y) <float[2] w__0 = {1, 2}> { y = Mul(x, w__0) }",
        ),
        (
            f"""g (float[2] x) => (float[2] z) <bool[1] c = {{1}}> {{ a = Neg(x)
               y = If (c) <then_branch = b () => (a) {{ }}, {_OTHER}> z = Exp(y) }}""",
            "g (float[2] x) => (float[2] z) { a = Neg(x) y = Identity(a) z = Exp(y) }",
        ),
        (
            f"""g (float[2] x) => (float[2] y) <bool c = {{1}}> {{
               y = If (c) <then_branch = b () => (w) <float[2] w = {{1, 2}}> {{ }}, {_OTHER}> }}""",
            "g (float[2] x) => (float[2] y) <float[2] w__0 = {1, 2}> { y = Identity(w__0) }",
        ),
        (
            """g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}> { y, z = If (c) <
               then_branch = b () => (p, p) { p = Neg(x) },
               else_branch = d () => (r, s) { r = Abs(x) s = Exp(x) }> }""",
            "g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Identity(y) }",
        ),
    ],
    ids=["weights in it", "a value from outside", "a weight of it", "one value twice"],
)
def test_becomes_its_branch(before: str, after: str) -> None:
    assert_becomes(DRIVER, before=before, after=after)


@pytest.mark.parametrize(
    "graph",
    [
        f"""g (bool c, float[2] x) => (float[2] y) {{
            y = If (c) <then_branch = b () => (p) {{ p = Neg(x) }}, {_OTHER}> }}""",
        f"""g (bool[2] c, float[2] x) => (float[2] y) {{ k = ReduceMax <keepdims = 0> (c)
            y = If (k) <then_branch = b () => (p) {{ p = Neg(x) }}, {_OTHER}> }}""",
    ],
    ids=["an input", "what a run computes"],
)
def test_stays_where_a_run_tells_the_condition(graph: str) -> None:
    assert_unchanged(DRIVER, graph)


_NESTED = """g (float[N, 1, 4] x) => (float[k, m] y) <int64 one = {1}, int64[1] ax = {1}> {
    s = Shape(x)  n = Gather(s, one)  isOne = Equal(n, one)
    y = If (isOne) <
        then_branch = b () => (v) { q = Squeeze(x, ax)  t = Neg(q)  w = Not(isOne)
            v = If (w) <then_branch = b2 () => (t2) { t2 = Abs(t) },
                        else_branch = d2 () => (t3) { u = Exp(t)  t3 = Add(u, q) }> },
        else_branch = d () => (r) { q = Squeeze(x, ax)  u = Abs(q)  r = Neg(u) }> }"""


def test_conditions_on_shapes_are_known_and_names_of_inner_values_do_not_meet() -> None:
    model = load_model(parse(_NESTED).SerializeToString())
    infer_types(model)
    apply_transformers(model, TransformLevel.BASIC, TransformContext(evaluate=evaluate))
    check_consistency(model.graph)

    assert sorted(node.op_type for node in model.graph.nodes) == ["Add", "Exp", "Neg", "Squeeze"]


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_the_outputs_are_those_of_the_branch(level: str) -> None:
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel[level]
    x = np.arange(8, dtype=np.float32).reshape(2, 1, 4)
    with InferenceSession(parse(_NESTED).SerializeToString(), options, providers=["cpu"]) as ours:
        (made,) = ours.run(None, {"x": x})

    np.testing.assert_allclose(made, np.exp(-x[:, 0]) + x[:, 0], rtol=1e-6)


def test_a_loop_in_the_branch_reads_the_values_that_moved() -> None:
    text = """g (float[2] x) => (float[2] y) <bool c = {1}, int64 three = {3}> {
        y = If (c) <then_branch = b () => (z) { p = Neg(x)
            z = Loop (three, , p) <body = l (int64 i, bool g0, float[2] s) => (bool g1, float[2] t)
                { g1 = Identity(g0)  e = Exp(p)  t = Add(s, e) }> },
        else_branch = d () => (r) { r = Abs(x) }> }"""
    x = np.array([0.5, -1], np.float32)
    with InferenceSession(parse(text).SerializeToString(), providers=["cpu"]) as ours:
        (made,) = ours.run(None, {"x": x})
        names = [node.op_type for node in ours.get_plan().graph.nodes]

    assert "If" not in names
    np.testing.assert_allclose(made, -x + 3 * np.exp(-x), rtol=1e-6)
