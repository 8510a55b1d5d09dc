"""Operators beyond ONNX's own, found in a model's encoding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.needed_operators import ModelOperators, OnnxOperator, operator_text
from ortpkg.graph.operator_scan import UsedOperators, scan_model, scan_model_file, scan_operators
from ortpkg.graph.wire_format import WireFormatError
from tests.graph.model_factories import parse

LIMITS = ModelLimits()


def needs(model: onnx.ModelProto, limits: ModelLimits = LIMITS) -> ModelOperators:
    return scan_model(memoryview(model.SerializeToString()), limits=limits)


def foreign(text: str, **domains: int) -> onnx.ModelProto:
    """A model of that graph, which imports these domains too (a dot is written ``__``)."""
    model = parse(text)
    for domain, version in domains.items():
        model.opset_import.add(domain=domain.replace("__", "."), version=version)
    return model


def test_a_model_of_onnx_operators_needs_nothing() -> None:
    assert needs(parse("g (float[4] x) => (float[4] y) { y = Add(x, x) }")) == ModelOperators()


def test_an_unused_import_is_no_need() -> None:
    assert not needs(foreign("g (float[4] x) => (float[4] y) { y = Add(x, x) }", com__acme=1))


def test_each_foreign_operator_is_named_once_beside_big_weights() -> None:
    model = foreign(
        "g (float[4] x) => (float[4] y) { a = com.acme.Frob(x) b = com.acme.Frob(a) y ="
        " com.microsoft.Gelu(b) }",
        com__acme=1,
        com__microsoft=1,
    )
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(1 << 16, np.float32), "w"))
    assert needs(model).operators == (("com.acme", "Frob"), ("com.microsoft", "Gelu"))


def test_nodes_in_sub_graphs_and_functions_count_and_functions_themselves_do_not() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "com.acme" : 1, "local" : 1]>
        g (float[4] x, bool c) => (float[4] y) {
          a = local.twice(x)
          y = If (c) <then_branch = t () => (float[4] p) { p = com.acme.Inner(a) },
                      else_branch = e () => (float[4] q) { q = Identity(a) }>
        }
        <domain: "local", opset_import: ["" : 21, "com.acme" : 1]>
        twice (v) => (w) { w = com.acme.Within(v) }"""
    )
    assert needs(model).operators == (("com.acme", "Inner"), ("com.acme", "Within"))


def test_functions_count_where_they_are_called_and_nowhere_else() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        g (float[4] x) => (float[4] y) { y = local.outer(x) }
        <domain: "local", opset_import: ["" : 21, "local" : 1]>
        outer (v) => (w) { w = local.inner(v) }
        <domain: "local", opset_import: ["" : 21, "com.acme" : 1, "local" : 1]>
        inner (v) => (w) { a = com.acme.Reached(v) w = local.outer(a) }
        <domain: "local", opset_import: ["" : 21, "com.acme" : 1]>
        unused (v) => (w) { w = com.acme.Unreached(v) }""")
    assert needs(model).operators == (("com.acme", "Reached"),)


def test_each_operator_of_onnx_has_the_opset_of_the_place_where_it_stands(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["ai.onnx" : 21, "local" : 1]>
        g (float[4] x, bool c) => (float[4] y) {
          a = local.once(x)
          y = If (c) <then_branch = t () => (float[4] p) { p = Gelu(a) },
                      else_branch = e () => (float[4] q) { q = ai.onnx.ml.Scaler(a) }>
        }
        <domain: "local", opset_import: ["" : 17]>
        once (v) => (w) { w = Gelu(v) }
        <domain: "local", opset_import: ["" : 9]>
        never (v) => (w) { w = Abs(v) }""")
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    assert scan_operators(path, limits=LIMITS) == UsedOperators(
        onnx=(
            OnnxOperator("", "Gelu", 17),
            OnnxOperator("", "Gelu", 21),
            OnnxOperator("", "If", 21),
            OnnxOperator("ai.onnx.ml", "Scaler", None),
        ),
        foreign=(),
        attributes={OnnxOperator("", "If", 21): ("else_branch", "then_branch")},
    )
    del model.opset_import[:]
    path.write_bytes(model.SerializeToString())
    without_opset = scan_operators(path, limits=LIMITS)
    assert without_opset is not None
    assert ("", "If", 1) in without_opset.onnx
    assert scan_operators(tmp_path / "absent.onnx", limits=LIMITS) is None


def test_operators_that_the_imported_opset_lacks_are_told_apart() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 10, "local" : 1]>
        g (float[1,1,2,2] x) => (float[1,1,4,4] y) {
          a = NoSuchThing(x)
          b = ai.onnx.ml.Scaler(a)
          c = local.once(b)
          scales = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
          y = Upsample(c, scales)
        }
        <domain: "local", opset_import: ["" : 17]>
        once (v) => (w) { w = Gelu(v) }""")
    assert needs(model) == ModelOperators(
        undefined=(
            OnnxOperator("", "Gelu", 17),
            OnnxOperator("", "NoSuchThing", 10),
            OnnxOperator("ai.onnx.ml", "Scaler", None),
        ),
        deprecated=(OnnxOperator("", "Upsample", 10),),
    )


@pytest.mark.parametrize(("opset", "told"), [(0, 0), (1, None), (24, None), (25, 25), (999, 999)])
def test_an_opset_that_not_every_onnx_knows_is_told(opset: int, told: int | None) -> None:
    model = parse("g (float[4] x) => (float[4] y) { y = Abs(x) }")
    model.opset_import[0].version = opset
    assert needs(model).opset == told
    assert bool(needs(model)) is (told is not None)


def test_without_an_import_of_the_main_domain_its_newest_opset_counts() -> None:
    model = foreign(
        "g (float[4] x) => (float[4] y) { a = Gelu(x) y = NoSuchThing(a) }", com__acme=1
    )
    del model.opset_import[0]
    assert needs(model).undefined == (("", "NoSuchThing", None),)


def test_an_attribute_seen_before_without_graphs_hides_none_that_has_one() -> None:
    model = foreign(
        "g (float[4] x) => (float[4] y) { a = Softmax <axis = 0> (x) y = Softmax <axis = 0> (a) }"
    )
    inner = onnx.GraphProto(name="inner")
    inner.node.add(op_type="F", domain="com.acme", output=["z"])
    model.graph.node.add(op_type="If", output=["z"]).attribute.add(
        name="b", type=onnx.AttributeProto.GRAPH
    ).g.CopyFrom(inner)
    assert needs(model).operators == (("com.acme", "F"),)


@pytest.mark.requirement("E10", "E35")
def test_sources_of_contexts_are_told_apart_from_operators() -> None:
    model = foreign(
        "g (float[4] x) => (float[4] y) { a = com.microsoft.EPContext <embed_mode = 1,"
        ' ep_cache_context = "p", source = "QNN">(x) y = com.microsoft.EPContext <main_context ='
        " 0>(a) }",
        com__microsoft=1,
    )
    assert needs(model) == ModelOperators(context_sources=("", "QNN"))


def test_nesting_and_node_counts_have_limits() -> None:
    model = foreign(
        "g (float[4] x) => (float[4] y) { a = com.acme.F(x) y = com.acme.F(a) }", com__acme=1
    )
    with pytest.raises(WireFormatError, match="more than 1 nodes"):
        needs(model, ModelLimits(node_count=1))
    inner = model.graph
    for _ in range(5):
        outer = onnx.GraphProto(name="outer")
        outer.node.add(op_type="If", output=["y"]).attribute.add(
            name="g", type=onnx.AttributeProto.GRAPH
        ).g.CopyFrom(inner)
        inner = outer
    deep = onnx.ModelProto(graph=inner, opset_import=model.opset_import)
    assert needs(deep).operators == (("com.acme", "F"),)
    with pytest.raises(WireFormatError, match="nested deeper than 3"):
        needs(deep, ModelLimits(subgraph_depth=3))


@pytest.mark.parametrize("content", [b"", b"no model", b"\x3a\xff\xff\xff\xff\x0f"])
def test_what_is_no_model_tells_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert not scan_model_file(path, limits=LIMITS)
    assert scan_model_file(tmp_path / "absent.onnx", limits=LIMITS) is None
    assert scan_model_file(tmp_path, limits=LIMITS) is None


def test_a_file_is_read_like_its_bytes(tmp_path: Path) -> None:
    model = foreign("g (float[4] x) => (float[4] y) { y = com.acme.F(x) }", com__acme=1)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert scan_model_file(path, limits=LIMITS) == needs(model)
    assert [operator_text(each) for each in needs(model).operators] == ["com.acme:F"]
