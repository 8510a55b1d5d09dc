"""Global passes, the order of all transformers, and graphs of ten thousand nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.graph_checks import check_consistency
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.runtime.engine.transformers import TransformContext, TransformLevel, apply_transformers
from ortpkg.runtime.engine.transformers.common_subexpression_elimination import (
    COMMON_SUBEXPRESSION_ELIMINATION,
)
from ortpkg.runtime.engine.transformers.constant_folding import CONSTANT_FOLDING
from ortpkg.runtime.engine.transformers.order import TRANSFORMERS
from ortpkg.runtime.engine.transformers.unused_removal import UNUSED_REMOVAL
from tests.engine.transformers.transformation import (
    apply,
    assert_becomes,
    assert_unchanged,
    describe,
    evaluate,
    feeds_for,
    parse,
    run_reference,
)


def test_folds_what_depends_on_constants_only() -> None:
    graph = assert_becomes(
        CONSTANT_FOLDING,
        before="""g (float[3] x) => (float[3] y) <float[3] p = {1, 2, 3}>
                  { a = Neg(p) b = Mul(a, p) y = Add(x, b) }""",
        after="g (float[3] x) => (float[3] y) { y = Add(x, b) }",
    )

    np.testing.assert_array_equal(
        graph.initializers["b"].numpy(), np.array([-1, -4, -9], np.float32)
    )


@pytest.mark.parametrize(
    "text",
    [
        "g (float[3] x, float[3] p = {1, 2, 3}) => (float[3] y) { a = Neg(p) y = Add(x, a) }",
        "g () => (float[3] y) <float[3] p = {1, 2, 3}> { y = Neg(p) }",
        """g (float[3] x) => (float[3] y) <int8[3] p = {1, 2, 3}, float s = {2}>
           { a = DequantizeLinear(p, s) y = Add(x, a) }""",
    ],
    ids=["a caller may override it", "it is an output", "quantized weights stay quantized"],
)
def test_does_not_fold(text: str) -> None:
    assert_unchanged(CONSTANT_FOLDING, text)


def fold(text: str, **options: Any) -> Graph:
    model = load_model(parse(text))
    infer_types(model)
    CONSTANT_FOLDING.apply(model.graph, TransformContext(**{"evaluate": evaluate, **options}))
    return model.graph


def test_does_not_fold_random_numbers() -> None:
    assert len(fold("g () => (float[3] y) { a = RandomNormal <shape = [3]> () y = Neg(a) }")) == 2


def test_does_not_compute_what_would_become_too_large() -> None:
    def never(_graph: Graph, node: Node, _inputs: Sequence[Any]) -> None:
        raise AssertionError(f"{node} was computed")

    graph = fold(
        "g () => (float[1000000, 1000000] y) <int64[2] s = {1000000, 1000000}> { a ="
        " ConstantOfShape(s) y = Neg(a) }",
        evaluate=never,
    )

    assert len(graph) == 2


def test_does_not_keep_what_became_too_large() -> None:
    text = "g () => (y) <int64[1] n = {300000}, float[1] v = {1}> { a = Expand(v, n) y = Neg(a) }"
    model = load_model(parse(text))
    model.graph.types.clear()

    CONSTANT_FOLDING.apply(model.graph, TransformContext(evaluate=evaluate))

    assert len(model.graph) == 2


def test_leaves_a_node_that_fails_to_the_run() -> None:
    def fails(_graph: Graph, _node: Node, _inputs: Sequence[Any]) -> None:
        raise InvalidGraphError("no")

    text = "g (float[3] x) => (float[3] y) <float[3] p = {1, 2, 3}> { a = Neg(p) y = Add(x, a) }"
    assert len(fold(text, evaluate=fails)) == 2


def test_folding_inside_a_sub_graph_keeps_implicit_inputs_right() -> None:
    model = load_model(
        parse("""g (bool c, float[3] x) => (float[3] y) <float[3] p = {1, 2, 3}> {
               y = If (c) <then_branch = t () => (float[3] u) { n = Neg(p) u = Add(x, n) },
                           else_branch = e () => (float[3] v) { v = Identity(x) }> }""")
    )
    infer_types(model)

    apply_transformers(model, TransformLevel.BASIC, TransformContext(evaluate=evaluate))

    assert check_consistency(model.graph) == []
    (node,) = model.graph.nodes
    assert node.implicit_inputs == ("x",)
    assert "p" not in model.graph.initializers


def test_equal_nodes_become_one() -> None:
    assert_becomes(
        COMMON_SUBEXPRESSION_ELIMINATION,
        before="""g (float[3] x) => (float[3] y) <float p = {2}, float q = {2}>
                  { a = Mul(x, p) b = Mul(x, q) c = Relu(a) d = Relu(b) y = Add(c, d) }""",
        after="g (float[3] x) => (float[3] y) { a = Mul(x, p) c = Relu(a) y = Add(c, c) }",
    )


@pytest.mark.parametrize(
    "text",
    [
        "g (float[3] x) => (float[3] y, float[3] z) { y = Relu(x) z = Relu(x) }",
        (
            "g (float[3] x) => (float[3] y) { a = LeakyRelu(x) b = LeakyRelu <alpha = 0.5> (x) y ="
            " Add(a, b) }"
        ),
        "g (float[3] x, float[3] z) => (float[3] y) { a = Sub(x, z) b = Sub(z, x) y = Add(a, b) }",
        """g (float[3] x) => (float[3] y) <float p = {0}, float q = {-0.0}>
           { a = Mul(x, p) b = Mul(x, q) y = Max(a, b) }""",
    ],
    ids=["both are outputs", "other attributes", "other order", "zeros of other sign"],
)
def test_different_nodes_stay_apart(text: str) -> None:
    assert_unchanged(COMMON_SUBEXPRESSION_ELIMINATION, text)


def test_random_nodes_stay_apart() -> None:
    text = """g () => (float[3] y) { a = RandomNormal <shape = [3], seed = 1.0> ()
              b = RandomNormal <shape = [3], seed = 1.0> () y = Sub(a, b) }"""
    model = load_model(parse(text))

    assert COMMON_SUBEXPRESSION_ELIMINATION.apply(model.graph, TransformContext()) == 0


def test_unused_nodes_and_constants_go() -> None:
    graph = assert_becomes(
        UNUSED_REMOVAL,
        before="""g (float[3] x) => (float[3] y) <float[3] p = {1, 2, 3}, float[3] q = {1, 2, 3}>
                  { a = Neg(p) b = Add(a, x) y = Add(x, q) }""",
        after="g (float[3] x) => (float[3] y) { y = Add(x, q) }",
    )

    assert list(graph.initializers) == ["q"]


def test_nodes_without_outputs_stay() -> None:
    model = load_model(parse("g (float[3] x) => (float[3] y) { y = Neg(x) }"))
    model.graph.add_node("Assert", ["x"], [], domain="com.example")

    assert UNUSED_REMOVAL.apply(model.graph, TransformContext()) == 0


def test_equal_nodes_of_other_domains_stay_apart() -> None:
    text = """g (float[3] x) => (float[3] y) { a = com.microsoft.Sampling(x) b = com.microsoft.Sampling(x)
              y = Sub(a, b) }"""

    assert (
        COMMON_SUBEXPRESSION_ELIMINATION.apply(load_model(parse(text)).graph, TransformContext())
        == 0
    )


def test_unused_defaults_of_inputs_stay() -> None:
    graph = apply(UNUSED_REMOVAL, "g (float[3] x, float[1] d = {1}) => (float[3] y) { y = Neg(x) }")

    assert list(graph.initializers) == ["d"]


def test_every_level_has_its_transformers() -> None:
    assert list(TRANSFORMERS) == list(TransformLevel)
    names = [
        transformer.name for transformers in TRANSFORMERS.values() for transformer in transformers
    ]
    assert "insert-cast" in names
    assert TRANSFORMERS[TransformLevel.BASIC][-1] is UNUSED_REMOVAL


@pytest.mark.requirement("D03")
def test_all_basic_transformers_together_make_one_convolution() -> None:
    generator = np.random.default_rng(5)
    weights = {
        "w": generator.standard_normal((4, 2, 3, 3)).astype(np.float32),
        **{name: generator.uniform(0.5, 1, 4).astype(np.float32) for name in ("s", "t", "m", "v")},
    }
    before = parse(
        """g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y) {
             i = Identity(w) a = Conv(x, i) d, mask = Dropout(a) n = BatchNormalization(d, s, t, m, v)
             one = Constant <value_float = 1.0> () e = Mul(n, one) two = Constant <value_float = 2.0> ()
             k = Add(one, two) f = Add(e, k) y = Identity(f) }""",
        weights,
    )
    model = load_model(before)
    infer_types(model)

    changes = apply_transformers(model, TransformLevel.BASIC, TransformContext(evaluate=evaluate))

    assert [line.split("(")[0].split(" {")[0] for line in describe(model.graph)] == ["y = .Conv"]
    assert changes > 5
    feeds = feeds_for(before)
    np.testing.assert_allclose(
        run_reference(to_model_proto(model), feeds)[0],
        run_reference(before, feeds)[0],
        rtol=1e-4,
        atol=1e-4,
    )


def long_model(count: int) -> Model:
    """A chain of transpose pairs and neutral additions, each with an unused side branch."""
    model = load_model(
        parse("g (float[2, 3] x) => (float[2, 3] y) <float z = {0}> { y = Relu(x) }")
    )
    graph = model.graph
    (relu,) = graph.nodes
    value = "x"
    for number in range(count // 4):
        names = [f"{stem}{number}" for stem in "abcd"]
        graph.add_node("Transpose", [value], [names[0]], since_version=21)
        graph.add_node("Transpose", [names[0]], [names[1]], since_version=21)
        graph.add_node("Add", [names[1], "z"], [names[2]], since_version=14)
        graph.add_node("Exp", [names[2]], [names[3]], since_version=13)
        value = names[2]
    graph.replace_input(relu, 0, value)
    return model


@pytest.mark.timeout(60)
def test_ten_thousand_nodes_take_no_quadratic_time() -> None:
    """Under a second here; quadratic would take minutes."""
    model = long_model(10_000)
    infer_types(model)

    apply_transformers(model, TransformLevel.BASIC, TransformContext(evaluate=evaluate))

    assert describe(model.graph) == ["y = .Relu {} (x)"]


@pytest.mark.parametrize(
    "operation",
    ["Identity(x)", "Relu(x)", "Dropout(x)", "Cast <to = 1> (x)", "Add(x, zero)"],
    ids=lambda text: text,
)
def test_the_inputs_of_a_node_are_put_together_a_few_times_whatever_replaces_them(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    count, copied = 100, 0
    inputs = Node.inputs

    def counted(node: Node) -> Any:
        nonlocal copied
        copied += isinstance(node._inputs, list) and len(node._inputs) == count
        return inputs.__get__(node)

    values = [f"a{number}" for number in range(count)]
    nodes = " ".join(f"{value} = {operation}" for value in values)
    text = (
        f"g (float[4] x) => (float[4] y) <float zero = {{0}}> {{ {nodes} y ="
        f" Sum({', '.join(values)}) }}"
    )
    model = load_model(parse(text))
    infer_types(model)
    monkeypatch.setattr(Node, "inputs", property(counted))

    assert apply_transformers(model, TransformLevel.BASIC, TransformContext()) >= count - 1
    assert copied < 10
