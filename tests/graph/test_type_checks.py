"""Nodes with inputs of misfit types are refused by name, before numpy converts them."""

from __future__ import annotations

import pytest

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.graph.type_checks import verify_types
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.graph.model_factories import parse

INPUTS = (
    "float[2] x, int64[2] i, double[2] d, bool c, string[2] s, float[1, 1, 4] f3, double[1, 1,"
    " 1] w3"
)


def text_of(node: str) -> str:
    return f"g ({INPUTS}) => (y) {{ {node} }}"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            "[n1] y = Add(x, i)",
            "takes 'x', a tensor(float), and 'i', a tensor(int64); they must be of one type",
        ),
        (
            "[n1] y = Max(x, x, d)",
            "'x', a tensor(float), and 'd', a tensor(double); they must be of one type",
        ),
        ("[n1] y = Concat<axis = 0>(d, x)", "'d', a tensor(double), and 'x', a tensor(float)"),
        ("[n1] y = Conv(f3, w3)", "'f3', a tensor(float), and 'w3', a tensor(double)"),
        (
            "[n1] y = Neg(s)",
            "takes 's', a tensor(string); Neg of version 13 takes there tensor(bfloat16), ",
        ),
        (
            "[n1] y = Reshape(x, x)",
            "takes 'x', a tensor(float); Reshape of version 21 takes there tensor(int64)",
        ),
        ("[n1] y = Gather(x, d)", "Gather of version 13 takes there tensor(int32), tensor(int64)"),
        (
            "a = Cast<to = 11>(x) [n1] y = Mul(x, a)",
            "'x', a tensor(float), and 'a', a tensor(double)",
        ),
        ("q = SequenceConstruct(x) [n1] y = Neg(q)", "takes 'q', a seq(tensor(float))"),
        (
            """y = If (c) <then_branch = t () => (float[2] p) { [n1] p = Add(x, i) },
                           else_branch = e () => (float[2] o) { o = Neg(x) }>""",
            "takes 'x', a tensor(float), and 'i', a tensor(int64)",
        ),
    ],
)
def test_refuses_inputs_of_types_that_do_not_fit(node: str, message: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        InferenceSession(parse(text_of(node)).SerializeToString())

    assert message in str(caught.value)
    assert caught.value.node_name == "n1"


@pytest.mark.parametrize(
    "node",
    [
        "y = Where(c, x, x)",
        "y = Pow(x, i)",
        "y = Gather(x, i)",
        "q = SequenceConstruct(x, x) y = SequenceAt(q, i)",
        "y = NoSuchOperator(x, i, s)",
        'y = Clip(x, "", x)',
    ],
)
def test_allows_inputs_whose_types_the_definition_tells_apart(node: str) -> None:
    model = load_model(parse(text_of(node)))
    infer_types(model)
    verify_types(model.graph)


@pytest.mark.parametrize("declared", ["y", "float[2] y"])
def test_refuses_branches_of_different_types(declared: str) -> None:
    text = f"""g (bool c, float[2] x, double[2] d) => ({declared}) {{
        [choice] y = If (c) <then_branch = t () => (p) {{ p = Neg(x) }},
                             else_branch = e () => (o) {{ o = Neg(d) }}> }}"""
    with pytest.raises(InvalidGraphError) as caught:
        InferenceSession(parse(text).SerializeToString())

    assert (
        "then_branch a tensor(float), in its else_branch a tensor(double); they must be of"
        in str(caught.value)
    )
    assert caught.value.node_name == "choice"
