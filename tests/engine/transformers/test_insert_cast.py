"""Where float32 begins and ends in float16 models; both sides agree but for rounding."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.transformers.cast_like_to_cast import CAST_LIKE_TO_CAST
from ortpkg.runtime.engine.transformers.insert_cast import INSERT_CAST
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver
from ortpkg.runtime.engine.transformers.transform_context import TransformContext
from tests.engine.transformers.transformation import EVERY_KERNEL, assert_becomes, assert_unchanged

CAST_LIKE = RuleDriver("test", [CAST_LIKE_TO_CAST])


def has_no_float16_kernel(_node: Node, types: Mapping[str, ElementType]) -> bool:
    return ElementType.FLOAT16 not in types.values()


@pytest.mark.requirement("D04")
def test_float16_nodes_without_kernel_run_in_float32_between_casts() -> None:
    assert_becomes(
        INSERT_CAST,
        before="g (float16[2, 3] x) => (float16[3, 2] y) { a = Transpose(x) y = Identity(a) }",
        after="""g (float16[2, 3] x) => (float16[3, 2] y) {
            x_float__0 = Cast <to = 1> (x)
            a_float__0 = Transpose(x_float__0)
            y_float__0 = Identity(a_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        context=TransformContext(kernel_exists=has_no_float16_kernel),
    )


def test_float16_nodes_that_compute_run_in_float32_though_there_is_a_kernel() -> None:
    assert_becomes(
        INSERT_CAST,
        before=(
            "g (float16[2] x, float16[2] z) => (float16[2] y) { a = Floor(x) b = Add(a, z) y ="
            " Mul(a, b) }"
        ),
        after="""g (float16[2] x, float16[2] z) => (float16[2] y) {
            x_float__0 = Cast <to = 1> (x)
            a_float__0 = Floor(x_float__0)
            z_float__0 = Cast <to = 1> (z)
            b_float__0 = Add(a_float__0, z_float__0)
            y_float__0 = Mul(a_float__0, b_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        context=EVERY_KERNEL,
    )


def test_float16_nodes_without_a_float32_kernel_stay() -> None:
    assert_unchanged(
        INSERT_CAST, "g (float16[2] x) => (float16[2] y) { y = Exp(x) }", context=TransformContext()
    )


@pytest.mark.parametrize(
    "text",
    [
        "g (float16[2, 3] x) => (float16[3, 2] y) { y = Transpose(x) }",
        "g (float16[2] x) => (bfloat16[2] y) { y = Cast <to = 16> (x) }",
        "g (float[2] x, float16 s) => (uint8[2] y) { a = CastLike(x, s) y = QuantizeLinear(a, s) }",
        "g (uint8[2] x, float16 s) => (float16[2] y) { y = DequantizeLinear(x, s) }",
        """g (float16[2] x) => (float16[4] y)
           { s = SequenceConstruct(x, x) y = ConcatFromSequence <axis = 0> (s) }""",
        "g (bfloat16[2] x) => (bfloat16[2] y) { a = Neg(x) y = Abs(a) }",
        (
            "g (float[2] x) => (float[2] y) { a = Cast <to = 10> (x) b = Cast <to = 1> (a) y ="
            " Exp(b) }"
        ),
    ],
    ids=[
        "moves values",
        "converts",
        "quantizes",
        "dequantizes",
        "sequences",
        "bfloat16",
        "rounding asked for",
    ],
)
def test_nodes_that_are_about_their_type_or_only_move_values_stay(text: str) -> None:
    assert_unchanged(INSERT_CAST, text, context=EVERY_KERNEL)


def test_nodes_that_move_values_between_float32_nodes_take_float32() -> None:
    assert_becomes(
        INSERT_CAST,
        before="""g (float16[2, 2] x) => (float16[4, 1] y) <int64[2] s = {4, 1}>
            { a = Exp(x) b = Transpose(a) c = Reshape(b, s) y = Neg(c) }""",
        after="""g (float16[2, 2] x) => (float16[4, 1] y) {
            x_float__0 = Cast <to = 1> (x)
            a_float__0 = Exp(x_float__0)
            b_float__0 = Transpose(a_float__0)
            c_float__0 = Reshape(b_float__0, s)
            y_float__0 = Neg(c_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        context=EVERY_KERNEL,
    )


def test_nodes_that_move_values_elsewhere_keep_float16() -> None:
    """What one of a row cannot do, none of the row does."""
    assert_becomes(
        INSERT_CAST,
        before="""g (float16[2, 2] x) => (float16[2, 2] y, float16[2, 2] z)
            { a = Exp(x) b = Transpose(a) c = Identity(b) z = Transpose(c) y = Neg(b) }""",
        after="""g (float16[2, 2] x) => (float16[2, 2] y, float16[2, 2] z) {
            x_float__0 = Cast <to = 1> (x)
            a_float__0 = Exp(x_float__0)
            a = Cast <to = 10> (a_float__0)
            b = Transpose(a)
            c = Identity(b)
            z = Transpose(c)
            b_float__0 = Cast <to = 1> (b)
            y_float__0 = Neg(b_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        context=EVERY_KERNEL,
    )


def test_what_is_asked_about_a_float32_value_asks_no_cast() -> None:
    assert_becomes(
        INSERT_CAST,
        before=(
            "g (float16[N] x) => (float16[N] y, int64[1] n) { a = Exp(x) n = Shape(a) y = Neg(a) }"
        ),
        after="""g (float16[N] x) => (float16[N] y, int64[1] n) {
            x_float__0 = Cast <to = 1> (x)
            a_float__0 = Exp(x_float__0)
            n = Shape(a_float__0)
            y_float__0 = Neg(a_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        context=EVERY_KERNEL,
    )


def test_float16_constants_are_converted_once() -> None:
    graph = assert_becomes(
        INSERT_CAST,
        before="g (float16[2] x) => (float16[2] y) { a = Add(x, w) y = Mul(a, w) }",
        after="""g (float16[2] x) => (float16[2] y) {
            x_float__0 = Cast <to = 1> (x)
            a_float__0 = Add(x_float__0, w_float__0)
            y_float__0 = Mul(a_float__0, w_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        weights={"w": np.ones(2, np.float16)},
        context=EVERY_KERNEL,
    )

    assert {name: tensor.element_type for name, tensor in graph.initializers.items()} == {
        "w_float__0": ElementType.FLOAT
    }


def test_a_constant_that_a_caller_may_override_is_cast_in_each_run() -> None:
    assert_becomes(
        INSERT_CAST,
        before="g (float16[2] x, float16[2] w = {1, 2}) => (float16[2] y) { y = Add(x, w) }",
        after="""g (float16[2] x, float16[2] w = {1, 2}) => (float16[2] y) {
            x_float__0 = Cast <to = 1> (x)
            w_float__0 = Cast <to = 1> (w)
            y_float__0 = Add(x_float__0, w_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            (
                "g (float[2] x) => (float[2] y) { a = Cast <to = 10> (x) b = Floor(a) y = Cast <to"
                " = 1> (b) }"
            ),
            "g (float[2] x) => (float[2] y) { y = Floor(x) }",
        ),
        (
            """g (float16[2] x) => (float16[2] y)
               { a = Exp(x) b = Cast <to = 1> (a) c = Abs(b) d = Cast <to = 10> (c) y = Neg(d) }""",
            """g (float16[2] x) => (float16[2] y) {
               x_float__0 = Cast <to = 1> (x)
               a_float__0 = Exp(x_float__0)
               c = Abs(a_float__0)
               y_float__0 = Neg(c)
               y = Cast <to = 10> (y_float__0) }""",
        ),
        (
            """g (float16[2] x) => (double[2] y, int32[2] z)
               { a = Abs(x) y = Cast <to = 11> (a) b = Floor(x) z = Cast <to = 6> (b) }""",
            """g (float16[2] x) => (double[2] y, int32[2] z) {
               x_float__0 = Cast <to = 1> (x)
               a_float__0 = Abs(x_float__0)
               y = Cast <to = 11> (a_float__0)
               b_float__0 = Floor(x_float__0)
               z = Cast <to = 6> (b_float__0) }""",
        ),
        (
            "g (float16[2] x) => (float16[2] y) { a = Exp(x) b = Cast <to = 10> (a) y = Neg(b) }",
            """g (float16[2] x) => (float16[2] y) {
               x_float__0 = Cast <to = 1> (x)
               a_float__0 = Exp(x_float__0)
               y_float__0 = Neg(a_float__0)
               y = Cast <to = 10> (y_float__0) }""",
        ),
        (
            (
                "g (float[2] x) => (float16[2] y, float16[2] z) { a = Cast <to = 10> (x) y = Exp(a)"
                " z = Identity(a) }"
            ),
            """g (float[2] x) => (float16[2] y, float16[2] z) {
               a = Cast <to = 10> (x)
               y_float__0 = Exp(x)
               y = Cast <to = 10> (y_float__0)
               z = Identity(a) }""",
        ),
    ],
    ids=["around", "between", "to other types", "to the same type", "another consumer"],
)
def test_casts_of_the_model_next_to_float32_nodes_go(before: str, after: str) -> None:
    """As in onnxruntime, which drops their rounding too."""
    assert_becomes(INSERT_CAST, before=before, after=after, context=EVERY_KERNEL)


def test_a_value_that_is_output_is_rounded_for_the_output_alone() -> None:
    assert_becomes(
        INSERT_CAST,
        before="g (float16[2] x) => (float16[2] a, float16[2] y) { a = Exp(x) y = Neg(a) }",
        after="""g (float16[2] x) => (float16[2] a, float16[2] y) {
            x_float__0 = Cast <to = 1> (x)
            a_float__0 = Exp(x_float__0)
            a = Cast <to = 10> (a_float__0)
            y_float__0 = Neg(a_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        context=EVERY_KERNEL,
    )


def test_values_that_sub_graphs_take_and_give_keep_float16() -> None:
    assert_becomes(
        INSERT_CAST,
        before="""g (float16[2] x, bool c) => (float16[2] y) { a = Exp(x)
            y = If (c) <then_branch = t () => (float16[2] u) { u = Neg(a) },
                        else_branch = e () => (float16[2] v) { v = Abs(a) }> }""",
        after="""g (float16[2] x, bool c) => (float16[2] y) {
            x_float__0 = Cast <to = 1> (x)
            a_float__0 = Exp(x_float__0)
            a = Cast <to = 10> (a_float__0)
            y = If (c) <then_branch = t () => (float16[2] u) { u = Neg(a) },
                        else_branch = e () => (float16[2] v) { v = Abs(a) }> }""",
        context=EVERY_KERNEL,
    )


def test_cast_like_of_a_known_type_is_a_cast() -> None:
    assert_becomes(
        CAST_LIKE,
        before=(
            "g (float[2] x, float16[2] z) => (float16[2] y) { a = CastLike(x, z) y = Add(a, z) }"
        ),
        after=(
            "g (float[2] x, float16[2] z) => (float16[2] y) { a = Cast <to = 10> (x) y = Add(a,"
            " z) }"
        ),
    )


def test_a_cast_from_integers_gives_float32() -> None:
    assert_becomes(
        INSERT_CAST,
        before="""g (int32[2] x) => (float16[2] y) { a = Cast <to = 10> (x) y = Sqrt(a) }""",
        after="""g (int32[2] x) => (float16[2] y) {
            a_float__0 = Cast <to = 1> (x)
            y_float__0 = Sqrt(a_float__0)
            y = Cast <to = 10> (y_float__0) }""",
        context=EVERY_KERNEL,
    )
