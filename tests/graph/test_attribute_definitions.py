"""Attributes that an opset does not define, held against what onnx's own checker refuses."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from ortpkg.graph.attribute_definitions import opset_that_adds, undefined_attributes
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.needed_operators import OnnxOperator
from ortpkg.graph.operator_scan import scan_operators


@pytest.mark.parametrize("operator", ["DequantizeLinear", "QuantizeLinear"])
@pytest.mark.parametrize(("opset", "undefined"), [(10, ["axis"]), (12, ["axis"]), (13, [])])
def test_quantization_by_axis_begins_with_opset_13(
    operator: str, opset: int, undefined: list[str]
) -> None:
    used = OnnxOperator("", operator, opset)
    assert list(undefined_attributes(used, ["axis"])) == undefined
    assert opset_that_adds(OnnxOperator("", operator, 12), "axis") == 13
    text = (
        f'<ir_version: 7, opset_import: ["" : {opset}]> '
        "g (float[4] x, float s, uint8 z) => (float[4] y)"
        " { q = QuantizeLinear <axis = 0> (x, s, z) y = DequantizeLinear <axis = 0> (q, s, z) }"
    )
    model = onnx.parser.parse_model(text)
    if undefined:
        with pytest.raises(onnx.checker.ValidationError, match="Unrecognized attribute: axis"):
            onnx.checker.check_model(model)
    else:
        onnx.checker.check_model(model)


def test_attributes_that_an_opset_took_away_are_undefined_and_no_later_one_adds_them() -> None:
    used = OnnxOperator("", "Squeeze", 13)
    assert list(undefined_attributes(used, ["axes"])) == ["axes"]
    assert opset_that_adds(used, "axes") is None


def test_internal_names_and_operators_without_a_definition_are_let_be() -> None:
    assert not list(undefined_attributes(OnnxOperator("", "Relu", 17), ["__own"]))
    for operator in (
        OnnxOperator("", "NoSuchThing", 17),
        OnnxOperator("", "Relu", None),
        OnnxOperator("", "Relu", 1 << 40),
    ):
        assert not list(undefined_attributes(operator, ["alpha"]))


def test_names_are_gathered_from_sub_graphs_and_functions_of_all_nodes(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        g (float[4] x, bool c) => (float[4] y) {
          a = Elu <alpha = 1.0> (x)
          b = local.twice <own = 1> (a)
          y = If (c) <then_branch = t () => (float[4] p) { p = Elu <beta = 2.0> (b) },
                      else_branch = e () => (float[4] q) { q = Identity(b) }>
        }
        <domain: "local", opset_import: ["" : 12]> twice <own> (x) => (y) {
          y = Elu <gamma: float = @own> (x)
        }""")
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    used = scan_operators(path, limits=ModelLimits())
    assert used is not None
    assert used.attributes == {
        OnnxOperator("", "Elu", 12): ("gamma",),
        OnnxOperator("", "Elu", 21): ("alpha", "beta"),
        OnnxOperator("", "If", 21): ("else_branch", "then_branch"),
    }


def test_a_name_of_any_length_hides_no_operator(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    node.attribute.append(onnx.helper.make_attribute("a" * 5000, 1))
    path = tmp_path / "model.onnx"
    graph = onnx.GraphProto(name="g", node=[node])
    onnx.save(onnx.helper.make_model(graph, ir_version=9), path)
    used = scan_operators(path, limits=ModelLimits())
    assert used is not None
    ((operator, names),) = used.attributes.items()
    assert (operator.name, names) == ("Relu", ("a" * 1024,))
