"""Nodes that do nothing are removed, and only those."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.engine.transformers.cast_elimination import CAST_ELIMINATION
from ortpkg.runtime.engine.transformers.constant_node_to_initializer import (
    CONSTANT_NODE_TO_INITIALIZER,
)
from ortpkg.runtime.engine.transformers.dropout_elimination import DROPOUT_ELIMINATION
from ortpkg.runtime.engine.transformers.identity_elimination import IDENTITY_ELIMINATION
from ortpkg.runtime.engine.transformers.neutral_element_elimination import (
    NEUTRAL_ELEMENT_ELIMINATION,
)
from ortpkg.runtime.engine.transformers.reshape_fusion import RESHAPE_ELIMINATION, RESHAPE_FUSION
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver
from ortpkg.runtime.engine.transformers.shape_folding import SHAPE_FOLDING
from ortpkg.runtime.engine.transformers.transform_context import RewriteRule, TransformContext
from ortpkg.runtime.engine.transformers.transpose_fusion import (
    TRANSPOSE_ELIMINATION,
    TRANSPOSE_FUSION,
)
from tests.engine.transformers.transformation import (
    apply,
    assert_becomes,
    assert_unchanged,
    parse,
)


def driver(*rules: RewriteRule) -> RuleDriver:
    return RuleDriver("test", rules)


PAIRS = {
    "identity": (
        [IDENTITY_ELIMINATION],
        "g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }",
        "g (float[2] x) => (float[2] y) { y = Relu(x) }",
    ),
    "identity before the graph's output": (
        [IDENTITY_ELIMINATION],
        "g (float[2] x) => (float[2] y) { a = Relu(x) y = Identity(a) }",
        "g (float[2] x) => (float[2] y) { y = Relu(x) }",
    ),
    "identity before the graph's output, with another consumer": (
        [IDENTITY_ELIMINATION],
        "g (float[2] x) => (float[2] y, float[2] z) { a = Relu(x) y = Identity(a) z = Neg(a) }",
        "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(y) }",
    ),
    "identity whose value a sub-graph takes": (
        [IDENTITY_ELIMINATION],
        """g (bool c, float[2] x) => (float[2] y) { a = Identity(x)
           y = If (c) <then_branch = t () => (float[2] p) { p = Relu(a) },
                       else_branch = e () => (float[2] q) { q = Neg(a) }> }""",
        """g (bool c, float[2] x) => (float[2] y) {
           y = If (c) <then_branch = t () => (float[2] p) { p = Relu(x) },
                       else_branch = e () => (float[2] q) { q = Neg(x) }> }""",
    ),
    "dropout": (
        [DROPOUT_ELIMINATION],
        "g (float[2] x) => (float[2] y) { a, m = Dropout(x) y = Relu(a) }",
        "g (float[2] x) => (float[2] y) { y = Relu(x) }",
    ),
    "cast to the same type": (
        [CAST_ELIMINATION],
        "g (float[2] x) => (float[2] y) { a = Cast <to = 1> (x) y = Relu(a) }",
        "g (float[2] x) => (float[2] y) { y = Relu(x) }",
    ),
    "transpose that keeps the order": (
        [TRANSPOSE_ELIMINATION],
        "g (float[2, 3] x) => (float[2, 3] y) { a = Transpose <perm = [0, 1]> (x) y = Relu(a) }",
        "g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }",
    ),
    "two transposes": (
        [TRANSPOSE_FUSION],
        """g (float[2, 3, 4] x) => (float[3, 4, 2] y, float[4, 2, 3] a) {
           a = Transpose <perm = [2, 0, 1]> (x) y = Transpose <perm = [2, 0, 1]> (a) }""",
        """g (float[2, 3, 4] x) => (float[3, 4, 2] y, float[4, 2, 3] a) {
           a = Transpose <perm = [2, 0, 1]> (x) y = Transpose <perm = [1, 2, 0]> (x) }""",
    ),
    "two transposes whose order matters": (
        [TRANSPOSE_FUSION],
        """g (float[2, 3, 4] x) => (float[3, 4, 2] y, float[3, 2, 4] a) {
           a = Transpose <perm = [1, 0, 2]> (x) y = Transpose <perm = [0, 2, 1]> (a) }""",
        """g (float[2, 3, 4] x) => (float[3, 4, 2] y, float[3, 2, 4] a) {
           a = Transpose <perm = [1, 0, 2]> (x) y = Transpose <perm = [1, 2, 0]> (x) }""",
    ),
    "two transposes without a stated order": (
        [TRANSPOSE_ELIMINATION, TRANSPOSE_FUSION],
        (
            "g (float[2, 3] x) => (float[2, 3] y, float[3, 2] a) { a = Transpose(x) b ="
            " Transpose(a) y = Relu(b) }"
        ),
        "g (float[2, 3] x) => (float[2, 3] y, float[3, 2] a) { a = Transpose(x) y = Relu(x) }",
    ),
    "reshape to the same shape": (
        [RESHAPE_ELIMINATION],
        (
            "g (float[2, 3] x) => (float[2, 3] y) <int64[2] s = {2, -1}> { a = Reshape(x, s) y ="
            " Relu(a) }"
        ),
        "g (float[2, 3] x) => (float[2, 3] y) <int64[2] s = {2, -1}> { y = Relu(x) }",
    ),
    "two reshapes": (
        [RESHAPE_FUSION],
        """g (float[2, 6] x) => (float[4, 3] y) <int64[1] s = {-1}, int64[2] t = {4, 3}>
           { a = Reshape(x, s) y = Reshape(a, t) }""",
        """g (float[2, 6] x) => (float[4, 3] y) <int64[1] s = {-1}, int64[2] t = {4, 3}> { y = Reshape(x, t) }""",
    ),
    "plus zero": (
        [NEUTRAL_ELEMENT_ELIMINATION],
        (
            "g (float[N, 3] x) => (float[N, 3] y) <float[1, 3] z = {0, 0, 0}> { a = Add(z, x) y ="
            " Relu(a) }"
        ),
        "g (float[N, 3] x) => (float[N, 3] y) <float[1, 3] z = {0, 0, 0}> { y = Relu(x) }",
    ),
    "divided by one": (
        [NEUTRAL_ELEMENT_ELIMINATION],
        "g (float[N, 3] x) => (float[N, 3] y) <float o = {1}> { a = Div(x, o) y = Relu(a) }",
        "g (float[N, 3] x) => (float[N, 3] y) <float o = {1}> { y = Relu(x) }",
    ),
    "constant nodes": (
        [CONSTANT_NODE_TO_INITIALIZER],
        """g (float[2] x) => (float[2] y) { a = Constant <value_floats = [1.0, 2.0]> ()
           b = Constant <value = float[2] {3, 4}> () c = Add(a, b) y = Add(x, c) }""",
        (
            "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> { c = Add(a,"
            " b) y = Add(x, c) }"
        ),
    ),
    "shape of a known shape": (
        [SHAPE_FOLDING],
        """g (float[2, 6] x, float[N] q) => (int64[2] r, int64[1] n)
           { s = Shape <start = -1> (x) r = Concat <axis = 0> (s, s) n = Shape(q) }""",
        """g (float[2, 6] x, float[N] q) => (int64[2] r, int64[1] n)
           { r = Concat <axis = 0> (s__0, s__0) n = Shape(q) }""",
    ),
}

UNCHANGED = {
    "identity between input and output": (
        [IDENTITY_ELIMINATION],
        "g (float[2] x) => (float[2] y) { y = Identity(x) }",
    ),
    "identity between two outputs": (
        [IDENTITY_ELIMINATION],
        "g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) y = Identity(a) }",
    ),
    "dropout whose mask is used": (
        [DROPOUT_ELIMINATION],
        "g (float[2] x) => (float[2] y, bool[2] m) { y, m = Dropout(x) }",
    ),
    "dropout that trains": (
        [DROPOUT_ELIMINATION],
        (
            "g (float[2] x) => (float[2] y) <float r = {0}, bool t = {1}> { a = Dropout(x, r, t) y"
            " = Relu(a) }"
        ),
    ),
    "dropout of unknown mode": (
        [DROPOUT_ELIMINATION],
        (
            "g (float[2] x, bool t) => (float[2] y) <float r = {0}> { a = Dropout(x, r, t) y ="
            " Relu(a) }"
        ),
    ),
    "cast to another type": (
        [CAST_ELIMINATION],
        "g (float[2] x) => (double[2] y) { a = Cast <to = 11> (x) y = Relu(a) }",
    ),
    "transpose that moves axes": (
        [TRANSPOSE_ELIMINATION],
        "g (float[2, 2] x) => (float[2, 2] y) { a = Transpose <perm = [1, 0]> (x) y = Relu(a) }",
    ),
    "reshape to another shape of as many dimensions": (
        [RESHAPE_ELIMINATION],
        (
            "g (float[2, 3] x) => (float[3, 2] y) <int64[2] s = {3, 2}> { a = Reshape(x, s) y ="
            " Relu(a) }"
        ),
    ),
    "reshape of a symbolic shape": (
        [RESHAPE_ELIMINATION],
        (
            "g (float[N, 3] x) => (float[M, 3] y) <int64[2] s = {-1, 3}> { a = Reshape(x, s) y ="
            " Relu(a) }"
        ),
    ),
    "reshape that copies a dimension of the shape between": (
        [RESHAPE_FUSION],
        """g (float[2, 6] x) => (float[3, 4] y) <int64[2] s = {3, 4}, int64[2] t = {0, -1}>
           { a = Reshape(x, s) y = Reshape(a, t) }""",
    ),
    "two reshapes, the first an output": (
        [RESHAPE_FUSION],
        """g (float[2, 6] x) => (float[4, 3] y, float[12] a) <int64[1] s = {-1}, int64[2] t = {4, 3}>
           { a = Reshape(x, s) y = Reshape(a, t) }""",
    ),
    "two reshapes, the first used twice": (
        [RESHAPE_FUSION],
        """g (float[2, 6] x) => (float[4, 3] y, float[12] z) <int64[1] s = {-1}, int64[2] t = {4, 3}>
           { a = Reshape(x, s) y = Reshape(a, t) z = Relu(a) }""",
    ),
    "plus zero that broadcasts": (
        [NEUTRAL_ELEMENT_ELIMINATION],
        (
            "g (float[1, 3] x) => (float[2, 3] y) <float[2, 1] z = {0, 0}> { a = Add(x, z) y ="
            " Relu(a) }"
        ),
    ),
    "plus zero of higher rank": (
        [NEUTRAL_ELEMENT_ELIMINATION],
        (
            "g (float[3] x) => (float[1, 3] y) <float[1, 3] z = {0, 0, 0}> { a = Add(x, z) y ="
            " Relu(a) }"
        ),
    ),
    "zero minus x": (
        [NEUTRAL_ELEMENT_ELIMINATION],
        "g (float[3] x) => (float[3] y) <float z = {0}> { a = Sub(z, x) y = Relu(a) }",
    ),
    "zero that a caller may override": (
        [NEUTRAL_ELEMENT_ELIMINATION],
        "g (float[3] x, float z = {0}) => (float[3] y) { a = Add(x, z) y = Relu(a) }",
    ),
    "shape of an unknown shape": (
        [SHAPE_FOLDING],
        "g (float[N, 2] x) => (int64[2] y) { s = Shape(x) y = Neg(s) }",
    ),
    "constant that is an output": (
        [CONSTANT_NODE_TO_INITIALIZER],
        (
            "g (float[2] x) => (float[1] y, float[2] z) { y = Constant <value_floats = [1.0]> () z"
            " = Add(x, y) }"
        ),
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_rewrites(case: str) -> None:
    rules, before, after = PAIRS[case]

    assert_becomes(driver(*rules), before=before, after=after)


@pytest.mark.parametrize("case", UNCHANGED)
def test_leaves_alone(case: str) -> None:
    rules, text = UNCHANGED[case]

    assert_unchanged(driver(*rules), text)


def test_a_transpose_of_another_domain_is_no_transpose() -> None:
    model = parse(
        "g (float[2, 3] x) => (float[2, 3] y)"
        " { a = other.Transpose <perm = [1, 0]> (x) y = Transpose <perm = [1, 0]> (a) }"
    )
    model.opset_import.append(onnx.helper.make_opsetid("other", 1))
    graph = load_model(model).graph

    assert not driver(TRANSPOSE_FUSION).apply(graph, TransformContext())


def test_leaves_nodes_of_other_providers_alone() -> None:
    def assign(graph: Graph) -> None:
        for node in graph.nodes:
            graph.assign(node, "OtherExecutionProvider")

    graph = apply(
        driver(IDENTITY_ELIMINATION),
        "g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }",
        context=TransformContext(execution_providers=frozenset({"CPUExecutionProvider"})),
        prepare=assign,
    )

    assert len(graph) == 2


def test_constants_that_are_mapped_stay_mapped() -> None:
    graph = apply(
        driver(CONSTANT_NODE_TO_INITIALIZER),
        "g (float[2] x) => (float[2] y) { b = Constant <value = float[2] {3, 4}> () y = Add(x,"
        " b) }",
    )

    np.testing.assert_array_equal(graph.initializers["b"].numpy(), np.array([3, 4], np.float32))
    assert graph.initializers["b"].name == "b"
