"""Nodes that break their operator's definition are refused by name, before anyone relies on it."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.onnx_reader import load_model
from tests.graph.model_factories import parse


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("y = Relu()", "has 0 inputs; Relu of version 14 has 1"),
        ("y = Relu(x, x)", "has 2 inputs; Relu of version 14 has 1"),
        ("y = Add(x)", "has 1 inputs; Add of version 14 has 2"),
        ('y = Add("", x)', "leaves out input 0, which Add needs"),
        ("y, z = Relu(x)", "has 2 outputs; Relu of version 14 has 1"),
        ("y = Concat(x)", "lacks the attribute 'axis', which Concat needs"),
        (
            "y = Concat<axis: float = 1.0>(x)",
            "has the attribute 'axis' of type FLOAT; INT was expected",
        ),
        ("y = Clip(x, x, x, x)", "has 4 inputs; Clip of version 13 has 1 to 3"),
        ("y = Split<num_outputs = 3>(x)", "has 1 outputs, but its attribute 'num_outputs' says 3"),
        (
            "y = LayerNormalization<axis = 2147483648>(x, x)",
            "'axis' of 2147483648; no tensor has over 64 axes",
        ),
        ("y = GatherND<batch_dims = -1>(x, i)", "has the attribute 'batch_dims' of -1"),
    ],
)
def test_refuses_a_node_of_the_wrong_form(node: str, message: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        load_model(parse(f"g (float[2, 2] x, int64[0] i) => (y) {{ [n1] {node} }}"))

    assert message in str(caught.value)
    assert caught.value.node_name == "n1"


def test_refuses_a_node_that_makes_nothing() -> None:
    for op_type, domain in (("Identity", ""), ("NoSuchOperator", "com.microsoft")):
        proto = parse("g (float[2] x) => (y) { y = Relu(x) }")
        proto.graph.node.append(helper.make_node(op_type, ["x"], [], "n1", domain=domain))
        with pytest.raises(InvalidGraphError, match=r"'n1' has (0|no) outputs"):
            load_model(proto)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """y = If (c) <then_branch = b1 (float[2] p) => (float[2] q) { q = Neg(p) },
                           else_branch = b2 () => (float[2] r) { r = Neg(x) }>""",
            "has a 'then_branch' of 1 inputs; with the node's own inputs and outputs it needs 0",
        ),
        (
            """y = If (c) <then_branch = b1 () => (float[2] q) { q = Neg(x) },
                           else_branch = b2 () => () { r = Neg(x) }>""",
            "has a 'else_branch' of 0 outputs; with the node's own inputs and outputs it needs 1",
        ),
        (
            (
                'y = Loop ("", c, x) <body = b (int64 i, bool k) => (bool l, float[2] s) { l ='
                " Not(k) s = Neg(x) }>"
            ),
            "has a 'body' of 2 inputs; with the node's own inputs and outputs it needs 3",
        ),
        (
            (
                'y = Loop ("", c, x) <body = b (int64 i, bool k, float[2] s) => (bool l) { l ='
                " Not(k) }>"
            ),
            "has a 'body' of 1 outputs; with the node's own inputs and outputs it needs 2",
        ),
        (
            "y = Scan (x) <num_scan_inputs = 2, body = b (float s) => (float t) { t = Neg(s) }>",
            "scans 2 inputs; it has 1, of which at least one is scanned",
        ),
    ],
)
def test_refuses_a_sub_graph_that_does_not_fit_its_node(text: str, message: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        load_model(parse(f"g (bool c, float[2] x) => (y) {{ {text} }}"))

    assert message in str(caught.value)


def test_looks_into_sub_graphs_and_functions() -> None:
    inside = (
        "<then_branch = b1 () => (q) { [n1] q = Neg(x, x) }, else_branch = b2 () => (r) { r ="
        " Neg(x) }>"
    )
    with pytest.raises(InvalidGraphError, match="Neg node 'n1' has 2 inputs"):
        load_model(parse(f"g (bool c, float[2] x) => (y) {{ y = If (c) {inside} }}"))
    function = """<ir_version: 10, opset_import: ["" : 21, "own" : 1]> g (float[2] x) => (y) { y = own.F(x) }
                  <domain: "own", opset_import: ["" : 21]> F (a) => (b) { [n1] b = Neg(a, a) }"""
    with pytest.raises(InvalidGraphError, match="n1' has 2 inputs"):
        load_model(parse(function))


def test_lets_unknown_operators_and_attributes_be() -> None:
    graph = load_model(
        parse("g (float[2] x) => (y) { a = com.microsoft.Own(x, x) y = Relu<own = 1>(a) }")
    ).graph

    assert len(graph) == 2


def test_an_empty_list_may_have_any_list_type() -> None:
    proto = parse("g (float[2] x) => (y) { y = Squeeze(x) }")
    node = proto.graph.node[0]
    node.op_type = "Transpose"
    node.attribute.append(onnx.AttributeProto(name="perm", type=onnx.AttributeProto.FLOATS))

    assert len(load_model(proto).graph) == 1


def test_functions_that_call_each_other_in_pairs_are_refused_before_they_fill_memory() -> None:
    """Thirty functions, each of which calls the one before it twice, are 2^30 nodes."""
    calls = "".join(
        f'<domain: "own", opset_import: ["" : 21, "own" : 1]> F{i} (a) => (b)'
        f"{{ m = own.F{i - 1}(a) b = own.F{i - 1}(m) }}"
        for i in range(1, 31)
    )
    text = f"""<ir_version: 10, opset_import: ["" : 21, "own" : 1]> g (float[2] x) => (y) {{ y = own.F30(x) }}
               <domain: "own", opset_import: ["" : 21]> F0 (a) => (b) {{ b = Neg(a) }} {calls}"""

    with pytest.raises(
        InvalidGraphError,
        match=r"calls 'F30': the model has more than 200000 nodes, functions inlined",
    ):
        load_model(parse(text))


@pytest.mark.parametrize("equation", ["j......", "ij,jk->i..k", "i\u00dfj", "i->j->k", "i;j"])
def test_refuses_einsum_equations_that_are_none(equation: str) -> None:
    proto = parse("g (float[2, 2] x) => (y) { [n1] y = Einsum (x) }")
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("equation", equation))

    with pytest.raises(InvalidGraphError, match="Einsum node 'n1' has the equation"):
        load_model(proto)
