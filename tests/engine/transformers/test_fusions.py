"""Nodes that become one, what must keep them apart, and that both sides compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.runtime.engine.transformers.batch_normalization_affine_fusion import (
    BATCH_NORMALIZATION_AFFINE_FUSION,
)
from ortpkg.runtime.engine.transformers.conv_affine_fusion import CONV_AFFINE_FUSION
from ortpkg.runtime.engine.transformers.conv_batch_normalization_fusion import (
    CONV_BATCH_NORMALIZATION_FUSION,
)
from ortpkg.runtime.engine.transformers.matmul_add_fusion import MATMUL_ADD_FUSION
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.engine.transformers.transformation import (
    apply,
    assert_becomes,
    assert_unchanged,
    named_constants,
    parse,
)

NORMALIZATION = RuleDriver("test", [CONV_BATCH_NORMALIZATION_FUSION])
AFFINE = RuleDriver("test", [CONV_AFFINE_FUSION])
NORMALIZATION_AFFINE = RuleDriver("test", [BATCH_NORMALIZATION_AFFINE_FUSION])
MATMUL_ADD = RuleDriver("test", [MATMUL_ADD_FUSION])


def weights(**shapes: tuple[int, ...]) -> dict[str, Any]:
    """Positive random constants, so that they may be variances."""
    generator = np.random.default_rng(3)
    return {
        name: generator.uniform(0.5, 1.5, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


CONV = weights(
    w=(4, 2, 3, 3), b=(4,), s=(4,), t=(4,), m=(4,), v=(4,), c=(4, 1, 1), d=(1, 4, 5, 5), k=(1, 1, 1)
)


def test_batch_normalization_moves_into_the_convolution() -> None:
    graph = assert_becomes(
        NORMALIZATION,
        before="""g (float[1, 2, 7, 7] x) => (float[1, 4, 4, 4] y)
                  { a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, b)
                    y = BatchNormalization <epsilon = 0.1> (a, s, t, m, v) }""",
        after="""g (float[1, 2, 7, 7] x) => (float[1, 4, 4, 4] y)
                 { y = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w__0, w_bias__0) }""",
        weights=CONV,
    )

    assert graph.initializers["w__0"].shape == (4, 2, 3, 3)


def test_batch_normalization_moves_into_a_grouped_convolution_without_bias() -> None:
    grouped = {**CONV, "w": CONV["w"][:, :1]}

    assert_becomes(
        NORMALIZATION,
        before="""g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y)
                  { a = Conv <group = 2> (x, w) y = BatchNormalization (a, s, t, m, v) }""",
        after=(
            "g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y) { y = Conv <group = 2> (x, w__0,"
            " w_bias__0) }"
        ),
        weights=grouped,
    )


@pytest.mark.parametrize(
    "text",
    [
        """g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y, float[1, 4, 5, 5] a)
           { a = Conv (x, w) y = BatchNormalization (a, s, t, m, v) }""",
        """g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y, float[1, 4, 5, 5] z)
           { a = Conv (x, w) y = BatchNormalization (a, s, t, m, v) z = Relu(a) }""",
        """g (float[1, 2, 7, 7] x, float[4] q) => (float[1, 4, 5, 5] y)
           { a = Conv (x, w) y = BatchNormalization (a, q, t, m, v) }""",
        """g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y)
           { a = Conv (x, w) y, m2, v2 = BatchNormalization <training_mode = 1> (a, s, t, m, v) }""",
        """g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y)
           { a = Conv (x, w) y = BatchNormalization <epsilon = 0.0> (a, s, t, m, zeros) }""",
    ],
    ids=[
        "convolution is an output",
        "convolution is used twice",
        "scale is not constant",
        "training",
        "factor is infinite",
    ],
)
def test_batch_normalization_stays(text: str) -> None:
    more = {"zeros": np.zeros(4, np.float32)}
    assert_unchanged(NORMALIZATION, text, weights={**CONV, **more})


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        ("y = Add(a, c)", "Conv (x, w__0, w_bias__0)"),
        ("y = Mul(c, a)", "Conv (x, w__0, w_bias__0)"),
    ],
)
def test_constant_per_channel_moves_into_the_convolution(body: str, operator: str) -> None:
    assert_becomes(
        AFFINE,
        before=f"g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y) {{ a = Conv (x, w, b) {body} }}",
        after=f"g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y) {{ y = {operator} }}",
        weights=CONV,
    )


def test_chain_of_constants_moves_into_the_convolution() -> None:
    graph = apply(
        AFFINE,
        """g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y)
           { a = Conv (x, w) b1 = Add(a, c) b2 = Mul(b1, c) b3 = Mul(k, b2) y = Add(b3, c) }""",
        weights=CONV,
    )

    assert [node.op_type for node in graph.nodes] == ["Conv"]


@pytest.mark.parametrize("operand", ["d", "z"], ids=["a value per position", "not constant"])
def test_other_addends_stay_behind_the_convolution(operand: str) -> None:
    assert_unchanged(
        AFFINE,
        f"""g (float[1, 2, 7, 7] x, float[4, 1, 1] z) => (float[1, 4, 5, 5] y)
            {{ a = Conv (x, w) y = Add(a, {operand}) }}""",
        weights=CONV,
    )


@pytest.mark.parametrize("sum_", ["Add(a, b)", "Add(b, a)"])
def test_matmul_and_add_become_gemm(sum_: str) -> None:
    assert_becomes(
        MATMUL_ADD,
        before=(
            f"g (float[N, 3] x, float[5] b) => (float[N, 5] y) {{ a = MatMul(x, w) y = {sum_} }}"
        ),
        after="g (float[N, 3] x, float[5] b) => (float[N, 5] y) { y = Gemm(x, w, b) }",
        weights=weights(w=(3, 5)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2, N, 3] x, float[5] b) => (float[2, N, 5] y) { a = MatMul(x, w) y = Add(a, b) }",
        "g (float[1, 3] x, float[4, 5] b) => (float[4, 5] y) { a = MatMul(x, w) y = Add(a, b) }",
        "g (float[N, 3] x, float[M, 5] b) => (float[N, 5] y) { a = MatMul(x, w) y = Add(a, b) }",
        (
            "g (float[2, 3] x, float[1, 2, 5] b) => (float[1, 2, 5] y) { a = MatMul(x, w) y ="
            " Add(a, b) }"
        ),
        (
            "g (float[2, 3] x, float[5] b) => (float[2, 5] y, float[2, 5] a) { a = MatMul(x, w) y ="
            " Add(a, b) }"
        ),
        (
            "g (float[2, 3] x, float[1, 3, 5] q, float[5] b) => (float[1, 2, 5] y)"
            " { a = MatMul(x, q) y = Add(a, b) }"
        ),
        (
            "g (int32[2, 3] x, int32[3, 5] q, int32[5] b) => (int32[2, 5] y) { a = MatMul(x, q) y ="
            " Add(a, b) }"
        ),
    ],
    ids=[
        "three dimensions",
        "addend widens",
        "addend of unknown size",
        "addend of higher rank",
        "product is an output",
        "a batch of right matrices",
        "integers",
    ],
)
def test_matmul_and_add_stay_apart(text: str) -> None:
    assert_unchanged(MATMUL_ADD, text, weights=weights(w=(3, 5)))


# --- batch normalization and what scales it -------------------------------------------------------


@pytest.mark.parametrize("operand", ["c", "k"])
def test_a_scale_and_a_shift_move_into_the_batch_normalization(operand: str) -> None:
    assert_becomes(
        NORMALIZATION_AFFINE,
        before=f"""g (float[1, 4, 5, 5] x) => (float[1, 4, 5, 5] y)
                   {{ a = BatchNormalization <epsilon = 0.1> (x, s, t, m, v)
                      f = Mul({operand}, a)
                      y = Add(f, {operand}) }}""",
        after="""g (float[1, 4, 5, 5] x) => (float[1, 4, 5, 5] y)
                 { y = BatchNormalization <epsilon = 0.1> (x, s__0__0, t__0__0, m, v) }""",
        weights=CONV,
    )


@pytest.mark.parametrize(
    "rest",
    [
        "y = Mul(a, d)",
        "y = Mul(a, x)",
        "y = Sub(a, c)",
    ],
)
def test_what_is_no_constant_per_channel_stays_behind_the_batch_normalization(rest: str) -> None:
    assert_unchanged(
        NORMALIZATION_AFFINE,
        f"""g (float[1, 4, 5, 5] x) => (float[1, 4, 5, 5] y)
            {{ a = BatchNormalization <epsilon = 0.1> (x, s, t, m, v) {rest} }}""",
        weights=CONV,
    )


def test_a_normalization_that_others_use_too_keeps_its_scale() -> None:
    assert_unchanged(
        NORMALIZATION_AFFINE,
        """g (float[1, 4, 5, 5] x) => (float[1, 4, 5, 5] y, float[1, 4, 5, 5] a)
           { a = BatchNormalization <epsilon = 0.1> (x, s, t, m, v) y = Mul(a, c) }""",
        weights=CONV,
    )


# --- constants whose product or sum does not fit --------------------------------------------------

CONV_ALONE = "a = Conv(x, w)"
CONV_AND_BIAS = "a = Conv(x, w, b)"
NORMALIZED = "a = BatchNormalization <epsilon = 0.0> (x, s, t, zero, one)"
LARGE, SMALL = 1e30, 1e-30


@pytest.mark.parametrize(
    ("body", "x", "constants", "expected"),
    [
        (f"{CONV_ALONE} y = Mul(a, f)", [0, 2], {"w": [1, 1], "f": np.inf}, np.inf),
        (f"{CONV_ALONE} y = Mul(a, f)", [0, SMALL], {"w": [0, LARGE], "f": LARGE}, LARGE),
        (f"{CONV_ALONE} y = Mul(a, f)", [0, LARGE], {"w": [0, SMALL], "f": SMALL}, SMALL),
        (
            f"{CONV_AND_BIAS} y = Add(a, f)",
            [0, -3e38],
            {"w": [0, 1], "b": 3e38, "f": 3e38},
            3e38,
        ),
        (
            f"{CONV_ALONE} y = BatchNormalization <epsilon = 0.0> (a, s, t, zero, one)",
            [0, SMALL],
            {"w": [0, LARGE], "s": LARGE, "t": 0},
            LARGE,
        ),
        (
            f"{CONV_AND_BIAS} y = BatchNormalization <epsilon = 0.0> (a, s, t, zero, one)",
            [0, -3e38],
            {"w": [0, 1], "b": 3e38, "s": 2, "t": 0},
            0,
        ),
        (f"{NORMALIZED} y = Mul(a, f)", [0], {"s": 1, "t": 1, "f": np.inf}, np.inf),
        (f"{NORMALIZED} y = Mul(a, f)", [SMALL], {"s": LARGE, "t": 0, "f": LARGE}, LARGE),
        (f"{NORMALIZED} y = Mul(a, f)", [LARGE], {"s": SMALL, "t": 0, "f": SMALL}, SMALL),
        (f"{NORMALIZED} y = Add(a, f)", [-3e38], {"s": 1, "t": 3e38, "f": 3e38}, 3e38),
    ],
)
def test_constants_that_do_not_fit_once_they_are_joined_stay_apart(
    body: str, x: list[float], constants: dict[str, Any], expected: float
) -> None:
    arrays = {
        name: np.asarray(value, np.float32).reshape((1, 1, -1) if name in ("w", "f") else (1,))
        for name, value in {**constants, "zero": 0, "one": 1}.items()
    }
    text = f"g (float[1, 1, {len(x)}] x) => (float[1, 1, 1] y) {{ {body} }}"
    session = InferenceSession(
        parse(text, named_constants(arrays, text)).SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    (y,) = session.run(None, {"x": np.asarray(x, np.float32).reshape(1, 1, -1)})
    np.testing.assert_allclose(y.item(), expected, rtol=1e-6)


def test_float16_weights_that_would_lose_their_digits_stay_as_they_are() -> None:
    constants = {name: np.full((1, 1, 1), 1e-4, np.float16) for name in "wf"}
    text = "g (float16[1, 1, 1] x) => (float16[1, 1, 1] y) { a = Conv(x, w) y = Mul(a, f) }"
    session = InferenceSession(
        parse(text, constants).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": np.full((1, 1, 1), 1e4, np.float16)})
    np.testing.assert_allclose(y.item(), 1e-4, rtol=2e-3)


def test_a_channel_that_a_factor_of_zero_closes_is_fused() -> None:
    graph = apply(
        AFFINE,
        "g (float[1, 2, 7, 7] x) => (float[1, 4, 5, 5] y) { a = Conv(x, w) y = Mul(a, f) }",
        weights={**CONV, "f": np.array([0, 1, 0, -2], np.float32).reshape(4, 1, 1)},
    )

    assert [node.op_type for node in graph.nodes] == ["Conv"]
