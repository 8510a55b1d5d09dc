"""Attention as exported models spell it becomes one node, its projections packed.

What broadcasts otherwise stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortpkg.engine.transformers.attention_fusion import ATTENTION_FUSION
from ortpkg.engine.transformers.packed_attention_fusion import PACKED_ATTENTION_FUSION
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.engine.transformers.transform_context import TransformContext
from tests.engine.transformers.transformation import (
    EVERY_KERNEL,
    apply,
    assert_becomes,
    assert_unchanged,
    named_constants,
)

RULE = RuleDriver("test", [ATTENTION_FUSION])
BOTH = RuleDriver("test", [ATTENTION_FUSION, PACKED_ATTENTION_FUSION])

INPUTS = (
    "float[2, 5, 6] q, float[2, 7, 6] k, float[2, 7, 6] v, float[2, 1, 1, 7] m, float[2, 5, 6] x"
)
SPLIT = """q4 = Reshape(q, heads) qt = Transpose <perm = [0, 2, 1, 3]> (q4)
           k4 = Reshape(k, heads) kt = Transpose <perm = [0, 2, 3, 1]> (k4)
           v4 = Reshape(v, heads) vt = Transpose <perm = [0, 2, 1, 3]> (v4)"""
SCALED = "p = MatMul(qt, kt) s = Mul(p, half)"
JOIN = "o = MatMul(w, vt) ot = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(ot, joined)"


def weights(*texts: str) -> dict[str, Any]:
    """The constants that the texts name."""
    generator = np.random.default_rng(11)
    arrays: dict[str, Any] = {
        "heads": np.array([2, -1, 3, 2]),
        "joined": np.array([2, -1, 6]),
        "half": np.float32(0.5),
        "quarter": np.float32(0.25),
        "two": np.float32(2),
        "row": np.ones(7, np.float32),
        "rows": np.array([-1, 6]),
        "back": np.array([2, 5, 18]),
        "flat": np.array([10, 6]),
        "wqkv": generator.standard_normal((6, 18)).astype(np.float32),
        "bqkv": generator.standard_normal(18).astype(np.float32),
    }
    for name in ("wq", "wk", "wv"):
        arrays[name] = generator.standard_normal((6, 6)).astype(np.float32)
    for name in ("bq", "bk", "bv"):
        arrays[name] = generator.standard_normal(6).astype(np.float32)
    return named_constants(arrays, *texts)


def graph(body: str, outputs: str = "float[2, 5, 6] y") -> str:
    return f"g ({INPUTS}) => ({outputs}) {{ {body} }}"


def attention(
    scores: str = SCALED, masked: str = "w = Softmax(s)", split: str = SPLIT, join: str = JOIN
) -> str:
    return f"{split} {scores} {masked} {join}"


@pytest.mark.parametrize(
    ("scores", "masked", "after"),
    [
        (SCALED, "w = Softmax(s)", "<num_heads = 3, scale = 0.5> (q, k, v)"),
        ("p = MatMul(qt, kt) s = Div(p, two)", "w = Softmax <axis = 3> (s)", "<num_heads = 3, scale = 0.5> (q, k, v)"),
        (SCALED, "n = Add(s, m) w = Softmax(n)", '<num_heads = 3, scale = 0.5> (q, k, v, "", "", m)'),
        (SCALED, "n = Add(m, s) w = Softmax(n)", '<num_heads = 3, scale = 0.5> (q, k, v, "", "", m)'),
        ("s = MatMul(qt, kt)", "w = Softmax(s)", "<num_heads = 3, scale = 1.0> (q, k, v)"),
        ("qs = Mul(qt, half) ks = Mul(half, kt) s = MatMul(qs, ks)", "w = Softmax(s)",
         "<num_heads = 3, scale = 0.25> (q, k, v)"),
    ],
    ids=["scaled scores", "divided scores", "mask behind", "mask before", "no scale", "roots on both factors"],
)  # fmt: skip
@pytest.mark.requirement("D03")
def test_steps_of_attention_become_one_node(scores: str, masked: str, after: str) -> None:
    before = attention(scores, masked)
    assert_becomes(
        RULE,
        before=graph(before),
        after=graph(f"y = com.microsoft.MultiHeadAttention {after}"),
        weights=weights(before),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    "split",
    [
        SPLIT.replace("q4 = Reshape(q, heads)", "qs = Mul(q, half) q4 = Reshape(qs, heads)"),
        SPLIT.replace("kt = Transpose <perm = [0, 2, 3, 1]> (k4)",
                      "k0 = Transpose <perm = [0, 2, 1, 3]> (k4) k1 = Mul(k0, half)"
                      " kt = Transpose <perm = [0, 1, 3, 2]> (k1)"),
    ],
    ids=["queries scaled before they are split (Whisper)", "keys transposed twice"],
)  # fmt: skip
def test_scales_are_gathered_wherever_they_stand(split: str) -> None:
    before = attention(split=split)
    assert_becomes(
        RULE,
        before=graph(before),
        after=graph("y = com.microsoft.MultiHeadAttention <num_heads = 3, scale = 0.25> (q, k, v)"),
        weights=weights(before),
        context=EVERY_KERNEL,
    )


def test_a_reshape_that_does_more_than_join_heads_stays() -> None:
    before = attention(join=JOIN.replace("joined", "flat"))
    assert_becomes(
        RULE,
        before=graph(before, "float[10, 6] y"),
        after=graph(
            "ot = com.microsoft.MultiHeadAttention <num_heads = 3, scale = 0.5> (q, k, v) y ="
            " Reshape(ot, flat)",
            "float[10, 6] y",
        ),
        weights=weights(before),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize("masked", [False, True])
def test_open_lengths_are_followed_through_the_splits(masked: bool) -> None:
    """As exporters write it: reshapes copy the batch, and lengths are whatever is left."""
    core = attention(masked="n = Add(s, m) w = Softmax(n)" if masked else "w = Softmax(s)")
    arrays = weights(core) | {"heads": np.array([0, -1, 3, 2]), "joined": np.array([0, -1, 6])}
    inputs = "float[B, S, 6] q, float[B, S, 6] k, float[B, S, 6] v, float[B, 1, 1, S] m"
    text = f"g ({inputs}) => (float[B, T, 6] y) {{ {core} }}"
    graph = apply(RULE, text, arrays, EVERY_KERNEL)
    (fused,) = graph.nodes
    assert fused.op_type == "MultiHeadAttention"
    assert fused.inputs == (("q", "k", "v", "", "", "m") if masked else ("q", "k", "v"))


def test_keys_that_others_use_are_still_split() -> None:
    before = attention()
    outputs = "float[2, 5, 6] y, float[2, 3, 7, 2] vt"
    assert_becomes(
        RULE,
        before=graph(before, outputs),
        after=graph(
            """v4 = Reshape(v, heads) vt = Transpose <perm = [0, 2, 1, 3]> (v4)
               y = com.microsoft.MultiHeadAttention <num_heads = 3, scale = 0.5> (q, k, v)""",
            outputs,
        ),
        weights=weights(before),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (attention(masked="w = Softmax <axis = 2> (s)"), "float[2, 5, 6] y"),
        (attention(), "float[2, 5, 6] y, float[2, 3, 5, 7] w"),
        (attention(), "float[2, 5, 6] y, float[2, 3, 5, 7] p"),
        (attention(masked="n = Add(s, row) w = Softmax(n)"), "float[2, 5, 6] y"),
        (attention(masked="n = Add(s, m) n2 = Add(n, m) w = Softmax(n2)"), "float[2, 5, 6] y"),
        (attention(scores="p = MatMul(qt, kt) s = Mul(p, m)"), "float[2, 5, 6] y"),
        (attention(split=SPLIT.replace("vt = Transpose <perm = [0, 2, 1, 3]> (v4)",
                                       "vs = Transpose <perm = [0, 2, 1, 3]> (v4) vt = Mul(vs, half)")),
         "float[2, 5, 6] y"),
        (attention(join="o = MatMul(w, vt) y = Transpose <perm = [1, 0, 2, 3]> (o)"), "float[3, 2, 5, 2] y"),
    ],
    ids=[
        "softmax over queries", "probabilities are an output", "scores are an output", "mask of one dimension",
        "two masks", "scale is not constant", "values are scaled", "heads are not joined",
    ],
)  # fmt: skip
def test_what_only_looks_like_attention_stays(body: str, outputs: str) -> None:
    assert_unchanged(RULE, graph(body, outputs), weights=weights(body), context=EVERY_KERNEL)


def test_steps_stay_where_the_provider_has_no_kernel() -> None:
    assert_unchanged(
        RULE, graph(attention()), weights=weights(attention()), context=TransformContext()
    )


def test_keys_of_a_batch_of_one_do_not_pass_for_a_whole_batch() -> None:
    """The product broadcasts over the batch, which the fused node does not."""
    body = attention(
        split=SPLIT.replace("Reshape(k, heads)", "Reshape(k1, one)").replace(
            "Reshape(v, heads)", "Reshape(v1, one)"
        )
    )
    text = (
        "g (float[2, 5, 6] q, float[1, 7, 6] k1, float[1, 7, 6] v1) => (float[2, 5, 6] y) {"
        f" {body} }}"
    )
    assert_unchanged(
        RULE, text, weights=weights(body) | {"one": np.array([1, -1, 3, 2])}, context=EVERY_KERNEL
    )


# --- projections ----------------------------------------------------------------------------------

PROJECTED = "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)"
BIASED = """q0 = MatMul(x, wq) q = Add(q0, bq) k0 = MatMul(x, wk) k = Add(bk, k0)
            v0 = MatMul(x, wv) v = Add(v0, bv)"""


def projected(body: str, outputs: str = "float[2, 5, 6] y") -> str:
    return (
        f"g (float[2, 5, 6] x, float[2, 5, 6] x2, float[2, 1, 1, 5] m) => ({outputs}) {{ {body} }}"
    )


@pytest.mark.parametrize(
    ("projections", "inputs"),
    [
        (PROJECTED, "x, wq_qkv__0, wq_qkv_bias__0"),
        (BIASED, "x, wq_qkv__0, wq_qkv_bias__0"),
        (
            BIASED.replace("k0 = MatMul(x, wk) k = Add(bk, k0)", "k = MatMul(x, wk)"),
            "x, wq_qkv__0, wq_qkv_bias__0",
        ),
    ],
    ids=["no biases", "biases", "keys without a bias (Whisper)"],
)
@pytest.mark.parametrize("masked", [False, True])
def test_projections_of_one_input_are_packed(projections: str, inputs: str, masked: bool) -> None:
    core = attention(masked="n = Add(s, m) w = Softmax(n)" if masked else "w = Softmax(s)")
    if masked:
        inputs = ", ".join([*inputs.split(", "), '""', '""', '""'][:5]) + ", m"
    attributes = "num_heads = 3, qkv_hidden_sizes = [6, 6, 6], scale = 0.5"
    graph = assert_becomes(
        BOTH,
        before=projected(f"{projections} {core}"),
        after=projected(f"y = com.microsoft.Attention <{attributes}> ({inputs})"),
        weights=weights(projections, core),
        context=EVERY_KERNEL,
    )

    assert graph.initializers["wq_qkv__0"].shape == (6, 18)


SPLIT_PROJECTION = """r = Reshape(x, rows) g1 = Gemm(r, wqkv, bqkv) g3 = Reshape(g1, back)
                      q, k, v = Split <axis = 2, num_outputs = 3> (g3)"""


@pytest.mark.parametrize(
    ("projection", "bias"),
    [
        (SPLIT_PROJECTION, "bqkv"),
        (
            (
                "p0 = MatMul(x, wqkv) g3 = Add(p0, bqkv) q, k, v = Split <axis = -1, num_outputs ="
                " 3> (g3)"
            ),
            "bqkv",
        ),
        ("g3 = MatMul(x, wqkv) q, k, v = Split <axis = -1, num_outputs = 3> (g3)", "wqkv_bias__0"),
    ],
    ids=["Gemm between reshapes (GPT-2)", "MatMul and Add", "MatMul alone"],
)
def test_a_packed_projection_is_taken_as_it_is(projection: str, bias: str) -> None:
    core = attention()
    attributes = "num_heads = 3, qkv_hidden_sizes = [6, 6, 6], scale = 0.5"
    rest = "r = Reshape(x, rows)" if "Gemm" in projection else ""
    assert_becomes(
        BOTH,
        before=projected(f"{projection} {core}"),
        after=projected(f"{rest} y = com.microsoft.Attention <{attributes}> (x, wqkv, {bias})"),
        weights=weights(projection, core),
        context=EVERY_KERNEL,
    )


@pytest.mark.parametrize(
    "projections",
    [
        PROJECTED.replace("MatMul(x, wk)", "MatMul(x2, wk)"),
        "q = MatMul(x, wq) k = MatMul(x, wk) v = Add(x, bv)",
        SPLIT_PROJECTION.replace("Gemm(", "Gemm <alpha = 2.0> ("),
        SPLIT_PROJECTION.replace("q, k, v = Split", "v, k, q = Split"),
    ],
    ids=["two inputs", "one is no projection", "scaled projection", "another order"],
)
def test_other_projections_stay(projections: str) -> None:
    core = attention()
    graph = apply(
        BOTH, projected(f"{projections} {core}"), weights(projections, core), EVERY_KERNEL
    )

    assert "MultiHeadAttention" in {node.op_type for node in graph.nodes}


def test_projections_that_others_use_stay() -> None:
    core = attention()
    graph = apply(
        BOTH,
        projected(f"{PROJECTED} {core}", "float[2, 5, 6] y, float[2, 5, 6] v"),
        weights(PROJECTED, core),
        EVERY_KERNEL,
    )

    assert "Attention" not in {node.op_type for node in graph.nodes}
