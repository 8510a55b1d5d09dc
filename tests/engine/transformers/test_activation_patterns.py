"""GELU, SiLU and hard swish written out in any order, and what only looks like them."""

from __future__ import annotations

import pytest

from ortpkg.engine.transformers.bias_gelu_fusion import BIAS_GELU_FUSION
from ortpkg.engine.transformers.gelu_fusion import GELU_FUSION
from ortpkg.engine.transformers.hard_swish_fusion import HARD_SWISH_FUSION
from ortpkg.engine.transformers.quick_gelu_fusion import QUICK_GELU_FUSION
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.engine.transformers.transform_context import TransformContext
from tests.engine.transformers.transformation import EVERY_KERNEL, assert_becomes, assert_unchanged

RULES = RuleDriver("test", [GELU_FUSION, QUICK_GELU_FUSION, HARD_SWISH_FUSION])
BIAS = RuleDriver("test", [BIAS_GELU_FUSION])
OPSET = '<ir_version: 10, opset_import: ["" : {}, "com.microsoft" : 1]>\n'
CONSTANTS = """<float half = {0.5}, float one = {1}, float r = {1.4142135}, float i = {0.70710677}, float two = {2},
  float three = {3}, float c = {0.044715}, float s = {0.7978846}, float t = {0.035677407}, float six = {6},
  float zero = {0}, float q = {1.702}, float sixth = {0.16666667}, float[1] vector = {0.5}, float[3] row = {1, 2, 3}>"""
ERF = {
    "half last": "a = Div(x, r) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)",
    "half on the gate": "a = Div(x, r) b = Erf(a) d = Add(b, one) e = Mul(half, d) y = Mul(x, e)",
    "half on x": "a = Mul(x, i) b = Erf(a) d = Add(one, b) h = Mul(half, x) y = Mul(h, d)",
    "half in a vector": "a = Mul(x, i) b = Erf(a) d = Add(one, b) h = Mul(vector, x) y = Mul(h, d)",
    "multiplied out": "a = Mul(x, i) b = Erf(a) h = Mul(half, x) d = Mul(h, b) y = Add(h, d)",
    "divided by two": "a = Mul(i, x) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Div(e, two)",
}
TANH = {
    "power": (
        """h = Mul(x, half) p = Pow(x, three) k = Mul(p, c) l = Add(x, k) m = Mul(l, s) n = Tanh(m)
                o = Add(n, one) y = Mul(h, o)"""
    ),
    "products": (
        """p = Mul(x, x) o2 = Mul(p, x) k = Mul(c, o2) l = Add(k, x) m = Mul(s, l) n = Tanh(m)
                   o = Add(one, n) w = Mul(x, o) y = Mul(w, half)"""
    ),
    "factored": (
        """p = Mul(x, x) k = Mul(p, t) l = Add(s, k) m = Mul(l, x) n = Tanh(m) o = Add(n, one)
                   w = Mul(half, o) y = Mul(w, x)"""
    ),
}


def graph(
    body: str, constants: str = CONSTANTS, outputs: str = "float[2, 3] y", opset: int = 18
) -> str:
    return (
        f"{OPSET.format(opset)}g (float[2, 3] x, float[2, 3] z, float u) => ({outputs}) {constants}"
        f" {{ {body} }}"
    )


@pytest.mark.parametrize("body", ERF.values(), ids=ERF)
@pytest.mark.parametrize(("opset", "after"), [(18, "com.microsoft.Gelu(x)"), (20, "Gelu(x)")])
def test_gelu_written_out_becomes_one_node(body: str, opset: int, after: str) -> None:
    assert_becomes(
        RULES,
        before=graph(body, opset=opset),
        after=graph(f"y = {after}", "", opset=opset),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize("body", TANH.values(), ids=TANH)
@pytest.mark.parametrize(
    ("opset", "after"), [(18, "com.microsoft.FastGelu(x)"), (20, 'Gelu <approximate = "tanh"> (x)')]
)
def test_gelu_by_tanh_becomes_one_node(body: str, opset: int, after: str) -> None:
    assert_becomes(
        RULES,
        before=graph(body, opset=opset),
        after=graph(f"y = {after}", "", opset=opset),
        context=EVERY_KERNEL,
    )


def test_gelu_of_a_product_with_a_constant_is_found_under_it() -> None:
    assert_becomes(
        RULES,
        before=graph(
            "v = Mul(z, two) a = Div(v, r) b = Erf(a) d = Add(b, one) e = Mul(v, d) y = Mul(e,"
            " half)"
        ),
        after=graph("v = Mul(z, two) y = com.microsoft.Gelu(v)", "<float two = {2}>"),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("a = Div(x, two) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)", "float[2, 3] y"),
        ("a = Div(x, r) b = Erf(a) d = Sub(b, one) e = Mul(x, d) y = Mul(e, half)", "float[2, 3] y"),
        ("a = Div(x, r) b = Erf(a) d = Add(b, one) e = Mul(z, d) y = Mul(e, half)", "float[2, 3] y"),
        ("a = Div(x, u) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)", "float[2, 3] y"),
        ("a = Div(x, r) b = Erf(a) d = Add(b, row) e = Mul(x, d) y = Mul(e, half)", "float[2, 3] y"),
        ("a = Div(x, r) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)", "float[2, 3] y, float[2, 3] d"),
        ("a = Div(x, r) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half) w = Neg(b)",
         "float[2, 3] y, float[2, 3] w"),
        ("a = Div(x, r) b = Tanh(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)", "float[2, 3] y"),
    ],
    ids=[
        "other divisor", "minus one", "another value is gated", "divisor is not constant", "a row is added",
        "the gate is an output", "the gate is used elsewhere", "tanh without its cube",
    ],
)  # fmt: skip
def test_what_only_looks_like_gelu_stays(body: str, outputs: str) -> None:
    assert_unchanged(RULES, graph(body, outputs=outputs), context=EVERY_KERNEL)


def test_gelu_stays_written_out_where_the_provider_has_no_kernel() -> None:
    assert_unchanged(RULES, graph(ERF["half last"]), context=TransformContext())


@pytest.mark.parametrize(
    ("body", "alpha"),
    [
        ("a = Sigmoid(x) y = Mul(x, a)", "1.0"),
        ("a = Sigmoid(x) y = Mul(a, x)", "1.0"),
        ("k = Mul(x, q) a = Sigmoid(k) y = Mul(x, a)", "1.702"),
    ],
)
@pytest.mark.parametrize(("opset", "name"), [(18, "com.microsoft.QuickGelu"), (24, "Swish")])
def test_sigmoid_of_a_value_times_that_value_becomes_one_node(
    body: str, alpha: str, opset: int, name: str
) -> None:
    assert_becomes(
        RULES,
        before=graph(body, opset=opset),
        after=graph(f"y = {name} <alpha = {alpha}> (x)", "", opset=opset),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    "body",
    [
        "a = Sigmoid(x) y = Mul(z, a)",
        "a = Sigmoid(x) y = Add(x, a)",
        "k = Add(x, q) a = Sigmoid(k) y = Mul(x, a)",
        "a = Sigmoid(x) b = Mul(x, a) y = Add(b, a)",
    ],
    ids=["another value", "sum", "shifted", "gate is used twice"],
)
def test_other_uses_of_sigmoid_stay(body: str) -> None:
    assert_unchanged(RULES, graph(body), context=EVERY_KERNEL)


@pytest.mark.parametrize(
    "body",
    [
        "a = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, a)",
        "a = Add(x, three) b = Clip(a, zero, six) d = Mul(x, b) y = Div(d, six)",
        "a = Add(x, three) b = Clip(a, zero, six) d = Div(b, six) y = Mul(d, x)",
        "a = Add(three, x) b = Clip(a, zero, six) d = Mul(x, b) y = Mul(d, sixth)",
    ],
)
def test_hard_swish_written_out_becomes_one_node(body: str) -> None:
    assert_becomes(
        RULES, before=graph(body), after=graph("y = HardSwish(x)", ""), context=EVERY_KERNEL
    )


@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("a = HardSigmoid (x) y = Mul(x, a)", 18),
        ("a = Add(x, two) b = Clip(a, zero, six) d = Mul(x, b) y = Div(d, six)", 18),
        ("a = Add(x, three) b = Clip(a, zero, three) d = Mul(x, b) y = Div(d, six)", 18),
        ("a = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, a)", 13),
    ],
    ids=["other slope", "other shift", "other bound", "opset has no HardSwish"],
)
def test_what_only_looks_like_hard_swish_stays(body: str, opset: int) -> None:
    assert_unchanged(RULES, graph(body, opset=opset), context=EVERY_KERNEL)


@pytest.mark.parametrize(
    ("gelu", "fused", "opset"),
    [
        ("com.microsoft.Gelu(a)", "BiasGelu", 18),
        ("com.microsoft.FastGelu(a)", "FastGelu", 18),
        ("Gelu(a)", "BiasGelu", 20),
        ('Gelu <approximate = "tanh"> (a)', "FastGelu", 20),
    ],
)
@pytest.mark.parametrize("addition", ["Add(x, row)", "Add(row, x)"])
def test_bias_moves_into_gelu(gelu: str, fused: str, opset: int, addition: str) -> None:
    constants = "<float[3] row = {1, 2, 3}>"
    assert_becomes(
        BIAS,
        before=graph(f"a = {addition} y = {gelu}", constants, opset=opset),
        after=graph(f"y = com.microsoft.{fused}(x, row)", constants, opset=opset),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("a = Add(x, z) y = Gelu(a)", "float[2, 3] y"),
        ("a = Add(x, u) y = Gelu(a)", "float[2, 3] y"),
        ("a = Add(x, row) y = Gelu(a)", "float[2, 3] y, float[2, 3] a"),
    ],
    ids=["a whole tensor is added", "a scalar is added", "the sum is an output"],
)
def test_sums_that_are_no_bias_stay_before_gelu(body: str, outputs: str) -> None:
    constants = "<float[3] row = {1, 2, 3}>" if "row" in body else ""
    assert_unchanged(BIAS, graph(body, constants, outputs, opset=20), context=EVERY_KERNEL)
