"""Normalizations written out become one node; sums before them move in.

What differs by an axis or a use stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.engine.transformers.layer_normalization_fusion import LAYER_NORMALIZATION_FUSION
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.engine.transformers.skip_layer_normalization_fusion import (
    SKIP_LAYER_NORMALIZATION_FUSION,
)
from ortpkg.engine.transformers.transform_context import TransformContext
from tests.engine.transformers.transformation import (
    EVERY_KERNEL,
    assert_becomes,
    assert_unchanged,
    named_constants,
)

RULE = RuleDriver("test", [LAYER_NORMALIZATION_FUSION])
SKIP = RuleDriver("test", [SKIP_LAYER_NORMALIZATION_FUSION])
OPSET = '<ir_version: 10, opset_import: ["" : {}, "com.microsoft" : 1]>\n'
INPUTS = "float[2, N, 4] x, float[2, N, 4] z, float[4] q"


def weights() -> dict[str, Any]:
    generator = np.random.default_rng(5)
    arrays: dict[str, Any] = {
        name: generator.standard_normal(4).astype(np.float32) for name in ("w", "b", "bias")
    }
    arrays |= {"w3": arrays["w"].reshape(1, 1, 4), "one4": np.ones(4, np.float32)}
    arrays |= {
        "eps": np.float32(0.125),
        "two": np.float32(2),
        "one": np.float32(1),
        "minus": np.float32(-0.5),
    }
    arrays |= {
        "last": np.array([-1], np.int64),
        "second": np.array([1], np.int64),
        "third": np.array([2], np.int64),
    }
    return arrays


def graph(body: str, outputs: str = "float[2, N, 4] y", opset: int = 18) -> str:
    return f"{OPSET.format(opset)}g ({INPUTS}) => ({outputs}) {{ {body} }}"


def used(*texts: str) -> dict[str, Any]:
    """The constants that the texts name."""
    return named_constants(weights(), *texts)


def steps(
    mean: str = "last", variance: str = "last", tail: str = "g1 = Mul(n, w) y = Add(g1, b)"
) -> str:
    return f"""m = ReduceMean(x, {mean}) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, {variance})
               e = Add(v, eps) s = Sqrt(e) n = Div(d, s) {tail}"""


@pytest.mark.parametrize(
    ("tail", "parameters"),
    [
        ("g1 = Mul(n, w) y = Add(g1, b)", "w, b"),
        ("g1 = Mul(w, n) y = Add(b, g1)", "w, b"),
        ("y = Mul(n, w)", "w"),
        ("g1 = Mul(n, q) y = Add(g1, q)", "q, q"),
        ("y = Identity(n)", "ones__0"),
        ("g1 = Mul(n, w3) y = Add(g1, b)", "w3__0, b"),
    ],
    ids=[
        "scale and shift",
        "other order",
        "no shift",
        "not constant",
        "neither",
        "row of three dimensions",
    ],
)
def test_steps_of_layer_normalization_become_one_node(tail: str, parameters: str) -> None:
    identity = "y = Identity(n)" in tail
    output = "n" if identity else "y"
    after = f"{output} = LayerNormalization <axis = -1, epsilon = 0.125> (x, {parameters})"
    before = steps(tail=tail)
    assert_becomes(
        RULE,
        before=graph(before),
        after=graph(after + (" y = Identity(n)" if identity else "")),
        weights=used(before),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    "body",
    [
        """m = ReduceMean(x, third) d = Sub(x, m) p = Mul(d, d) v = ReduceMean(p, third) e = Add(eps, v) s = Sqrt(e)
           n = Div(d, s) g1 = Mul(n, w) y = Add(g1, b)""",
        """m = ReduceMean(x, last) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, last) e = Add(v, eps) s = Sqrt(e)
           i = Reciprocal(s) n = Mul(d, i) g1 = Mul(n, w) y = Add(g1, b)""",
        """m = ReduceMean(x, last) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, last) e = Add(v, eps) s = Sqrt(e)
           i = Div(one, s) n = Mul(i, d) g1 = Mul(n, w) y = Add(g1, b)""",
        """m = ReduceMean(x, last) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, last) e = Add(v, eps)
           i = Pow(e, minus) n = Mul(d, i) g1 = Mul(n, w) y = Add(g1, b)""",
    ],
    ids=["products, last axis by number", "reciprocal", "one by the root", "power of -0.5"],
)
def test_other_steps_of_layer_normalization_become_the_same_node(body: str) -> None:
    assert_becomes(
        RULE,
        before=graph(body),
        after=graph("y = LayerNormalization <axis = -1, epsilon = 0.125> (x, w, b)"),
        weights=used(body),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize("tail", ["g1 = Mul(n, w) y = Add(g1, b)", "g1 = Mul(w, n) y = Add(b, g1)"])
def test_a_normalized_row_is_not_taken_for_its_own_scale(tail: str) -> None:
    """Of one dimension, value and parameters have the same shape."""
    body = steps(tail=tail)
    text = OPSET.format(18) + "g (float[4] x) => (float[4] y) {{ {} }}"
    assert_becomes(
        RULE,
        before=text.format(body),
        after=text.format("y = LayerNormalization <axis = -1, epsilon = 0.125> (x, w, b)"),
        weights=used(body),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize("shape", ["4", "2, 2, 3, 4"])
def test_sums_that_the_fused_normalization_cannot_take_stay(shape: str) -> None:
    body = """b1 = Add(x, z) s = Add(b1, q) y = LayerNormalization <axis = -1, epsilon = 0.125> (s, w, b)"""
    inputs = f"float[{shape}] x, float[{shape}] z, float[{shape}] q"
    text = f"{OPSET.format(18)}g ({inputs}) => (float[{shape}] y) {{ {body} }}"
    assert_unchanged(SKIP, text, weights=used(body), context=EVERY_KERNEL)


def test_layer_normalization_before_opset_17_is_onnxruntimes_own() -> None:
    body = """m = ReduceMean <axes = [-1]> (x) d = Sub(x, m) p = Pow(d, two) v = ReduceMean <axes = [-1]> (p)
              e = Add(v, eps) s = Sqrt(e) n = Div(d, s) g1 = Mul(n, w) y = Add(g1, b)"""
    assert_becomes(
        RULE,
        before=graph(body, opset=12),
        after=graph("y = LayerNormalization <axis = -1, epsilon = 0.125> (x, w, b)", opset=12),
        weights=used(body),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    "body",
    [
        (
            "p = Pow(x, two) v = ReduceMean(p, last) e = Add(v, eps) s = Sqrt(e) n = Div(x, s) y ="
            " Mul(n, w)"
        ),
        """p = Mul(x, x) v = ReduceMean(p, last) e = Add(v, eps) s = Sqrt(e) i = Reciprocal(s) n = Mul(x, i)
           y = Mul(w, n)""",
    ],
)
@pytest.mark.parametrize(
    ("opset", "name"), [(18, "SimplifiedLayerNormalization"), (23, "RMSNormalization")]
)
def test_steps_of_rms_normalization_become_one_node(body: str, opset: int, name: str) -> None:
    assert_becomes(
        RULE,
        before=graph(body, opset=opset),
        after=graph(f"y = {name} <axis = -1, epsilon = 0.125> (x, w)", opset=opset),
        weights=used(body),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (steps(mean="second", variance="second"), "float[2, N, 4] y"),
        (steps().replace("Pow(d, two)", "Pow(d, one)"), "float[2, N, 4] y"),
        (steps().replace("Pow(d, two)", "Pow(x, two)"), "float[2, N, 4] y"),
        (steps().replace("Add(v, eps)", "Add(v, q)"), "float[2, N, 4] y"),
        (steps(), "float[2, N, 4] y, float[2, N, 1] e"),
        (steps(), "float[2, N, 1] m, float[2, N, 1] v, float[2, N, 4] y"),
    ],
    ids=[
        "over another axis", "not squared", "squares of another value", "epsilon is not constant",
        "the sum with epsilon is an output", "the statistics are outputs",
    ],
)  # fmt: skip
def test_what_only_looks_like_layer_normalization_stays(body: str, outputs: str) -> None:
    assert_unchanged(RULE, graph(body, outputs), weights=used(body), context=EVERY_KERNEL)


def test_layer_normalization_before_its_scale_may_be_an_output() -> None:
    outputs = "float[2, N, 4] y, float[2, N, 4] n"
    assert_becomes(
        RULE,
        before=graph(steps(), outputs),
        after=graph(
            "n = LayerNormalization <axis = -1, epsilon = 0.125> (x, ones__0) g1 = Mul(n, w) y ="
            " Add(g1, b)",
            outputs,
        ),
        weights=used(steps()),
        context=EVERY_KERNEL,
    )


def test_a_shared_difference_leaves_rms_normalization_of_it() -> None:
    body = steps(tail="g1 = Mul(n, w) h = Add(g1, b) y = Add(h, d)")
    assert_becomes(
        RULE,
        before=graph(body),
        after=graph("""m = ReduceMean(x, last) d = Sub(x, m)
                       g1 = SimplifiedLayerNormalization <axis = -1, epsilon = 0.125> (d, w)
                       h = Add(g1, b) y = Add(h, d)"""),
        weights=used(body),
        context=EVERY_KERNEL,
    )


def test_steps_stay_where_the_provider_has_no_kernel() -> None:
    assert_unchanged(RULE, graph(steps()), weights=used(steps()), context=TransformContext())


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("s = Add(x, z) y = LayerNormalization <epsilon = 0.5> (s, w, b)",
         "y = com.microsoft.SkipLayerNormalization <epsilon = 0.5> (x, z, w, b)"),
        ("s = Add(x, z) y = LayerNormalization <axis = 2> (s, w)",
         "y = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (x, z, w)"),
        ("a = Add(x, bias) s = Add(a, z) y = LayerNormalization <epsilon = 0.5> (s, w, b)",
         "y = com.microsoft.SkipLayerNormalization <epsilon = 0.5> (x, z, w, b, bias)"),
        ("a = Add(bias, x) s = Add(z, a) y = LayerNormalization <epsilon = 0.5> (s, w)",
         'y = com.microsoft.SkipLayerNormalization <epsilon = 0.5> (x, z, w, "", bias)'),
    ],
    ids=["sum", "axis by number, no shift", "bias too", "bias too, no shift"],
)  # fmt: skip
def test_sum_moves_into_layer_normalization(body: str, after: str) -> None:
    assert_becomes(
        SKIP, before=graph(body), after=graph(after), weights=used(body), context=EVERY_KERNEL
    )


@pytest.mark.parametrize(
    ("body", "outputs", "rest"),
    [
        (
            "s = Add(x, z) y = LayerNormalization <epsilon = 0.5> (s, w, b) t = Neg(s)",
            "float[2, N, 4] t",
            "t = Neg(s)",
        ),
        ("s = Add(x, z) y = LayerNormalization <epsilon = 0.5> (s, w, b)", "float[2, N, 4] s", ""),
    ],
    ids=["used elsewhere", "an output"],
)
def test_sum_with_other_uses_is_an_output_of_the_fused_node(
    body: str, outputs: str, rest: str
) -> None:
    outputs = f"float[2, N, 4] y, {outputs}"
    assert_becomes(
        SKIP,
        before=graph(body, outputs),
        after=graph(
            'y, "", "", s = com.microsoft.SkipLayerNormalization <epsilon = 0.5> (x, z, w, b)'
            f" {rest}",
            outputs,
        ),
        weights=used(body),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    ("opset", "name"), [(18, "SimplifiedLayerNormalization"), (23, "RMSNormalization")]
)
@pytest.mark.parametrize("bias", ["", ", bias"])
def test_sum_moves_into_rms_normalization(opset: int, name: str, bias: str) -> None:
    # The reference has no SimplifiedLayerNormalization: written out it is the same.
    first = "s = Add(x, z)" if not bias else "a = Add(x, bias) s = Add(a, z)"
    rms = f"y = {name} <epsilon = 0.5> (s, w)"
    if opset == 18:
        both = RuleDriver("test", [LAYER_NORMALIZATION_FUSION, SKIP_LAYER_NORMALIZATION_FUSION])
        rms = (
            "p = Mul(s, s) v = ReduceMean(p, last) e = Add(v, half) r = Sqrt(e) n = Div(s, r) y ="
            " Mul(n, w)"
        )
    else:
        both = SKIP
    constants = used(first, rms) | ({"half": np.float32(0.5)} if opset == 18 else {})
    assert_becomes(
        both,
        before=graph(f"{first} {rms}", opset=opset),
        after=graph(
            f"y = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.5> (x, z, w{bias})",
            opset=opset,
        ),
        weights=constants,
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    "body",
    [
        "s = Add(x, q) y = LayerNormalization (s, w, b)",
        "s = Sub(x, z) y = LayerNormalization (s, w, b)",
        "s = Add(x, z) y = LayerNormalization <axis = 1> (s, w, b)",
        "s = Add(x, z) y, mean = LayerNormalization (s, w, b) t = Neg(mean)",
    ],
    ids=["a row is added", "a difference", "over two axes", "the mean is used"],
)
def test_other_sums_before_layer_normalization_stay(body: str) -> None:
    outputs = "float[2, N, 4] y" + (", float[2, N, 1] t" if "mean" in body else "")
    assert_unchanged(SKIP, graph(body, outputs), weights=used(body), context=EVERY_KERNEL)
