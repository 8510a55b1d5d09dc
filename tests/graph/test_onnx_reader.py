"""ONNX in and out: what a graph keeps, functions inlined, and every broken graph a typed error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ortpkg.foundations.errors import InvalidGraphError, ModelFileError
from ortpkg.graph.graph_checks import check_consistency
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.onnx_writer import save_model, to_model_proto
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.graph.model_factories import parse, save


def test_reads_nodes_with_the_versions_that_the_opset_means() -> None:
    graph = load_model(
        parse(
            "g (float[2] x) => (float[2] y) { a = Relu(x) y = com.microsoft.QuickGelu <alpha = 1.5>"
            " (a) }"
        )
    ).graph

    relu, gelu = graph.nodes
    assert (relu.op_type, relu.domain, relu.since_version) == ("Relu", "", 14)
    assert (gelu.op_type, gelu.domain, gelu.since_version) == ("QuickGelu", "com.microsoft", 1)
    assert gelu.attribute("alpha") == 1.5
    assert graph.types["x"] == TensorType(ElementType.FLOAT, (2,))


def test_keeps_an_unknown_operator_with_the_version_of_its_opset() -> None:
    (node,) = load_model(
        parse("g (float[2] x) => (float[2] y) { y = NoSuchOperator(x) }")
    ).graph.nodes

    assert node.since_version == 21


def test_a_chain_far_deeper_than_python_recurses_is_read() -> None:
    """A hundred thousand nodes show no more, and take five seconds to read."""
    assert sys.getrecursionlimit() < 10_000
    proto = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.graph.node[0].input[0] = "v9999"
    value = "x"
    for number in range(10_000):
        proto.graph.node.append(helper.make_node("Neg", [value], [f"v{number}"]))
        value = f"v{number}"

    assert len(load_model(proto).graph) == 10_001


EVERYTHING = """<ir_version: 10, opset_import: ["" : 21, "custom" : 3], producer_name: "p", producer_version: "2",
   domain: "d", model_version: 5, doc_string: "doc", metadata_props: ["key" : "value"]>
g (float[N, 3] x, bool c, seq(float[2]) s) => (float[N, 3] y) <float[3] w = {1, 2, 3}, float[N, 3] t> {
   t = Add(x, w)
   u = custom.Op <f: float = 1.5, i: int = -3, s: string = "text", t: tensor = int64[2] {1, 2}, fs: floats = [1.0, 2.0],
                  is: ints = [1, 2], ss: strings = ["a", "b"]> (t, "", x)
   y = If (c) <then_branch = b1 () => (float[N, 3] p) { p = Mul(u, w) },
               else_branch = b2 () => (float[N, 3] q) { q = Identity(x) }>
}"""


def everything() -> onnx.ModelProto:
    """A model with every kind of attribute, type and annotation."""
    proto = parse(EVERYTHING)
    node = proto.graph.node[1]
    node.doc_string = "node doc"
    node.metadata_props.add(key="a", value="b")
    tensor = numpy_helper.from_array(np.ones(2, np.float16), "t")
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.ones(1, np.float32), "v"),
        numpy_helper.from_array(np.array([1])),
        [4],
    )
    kinds = onnx.AttributeProto
    node.attribute.add(name="ts", type=kinds.TENSORS).tensors.append(tensor)
    node.attribute.add(name="sp", type=kinds.SPARSE_TENSOR).sparse_tensor.CopyFrom(sparse)
    node.attribute.add(name="sps", type=kinds.SPARSE_TENSORS).sparse_tensors.append(sparse)
    sequence_type = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["N"]))
    map_type = onnx.TypeProto()
    map_type.map_type.key_type = TensorProto.STRING
    map_type.map_type.value_type.CopyFrom(sequence_type)
    node.attribute.add(name="tp", type=kinds.TYPE_PROTO).tp.CopyFrom(sequence_type)
    types = node.attribute.add(name="tps", type=kinds.TYPE_PROTOS).type_protos
    types.extend(
        [
            helper.make_optional_type_proto(sequence_type),
            helper.make_sparse_tensor_type_proto(1, [2]),
            map_type,
        ]
    )
    inner = node.attribute.add(name="gs", type=kinds.GRAPHS).graphs
    inner.append(parse("inner () => (float[N, 3] z) { z = Neg(t) }").graph)
    image = proto.graph.input[0]
    image.doc_string = "an image"
    image.type.denotation = "IMAGE"
    image.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    image.metadata_props.add(key="k", value="v")
    proto.graph.doc_string = "graph doc"
    proto.graph.metadata_props.add(key="gk", value="gv")
    annotation = proto.graph.quantization_annotation.add(tensor_name="t")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    return proto


def canonical(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Drops what need not be kept: tensors' storage, made-up names, attributes' order."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    pending = [made.graph]
    while pending:
        graph = pending.pop()
        for tensor in graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
        for node in graph.node:
            node.name = ""
            node.domain = node.domain
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    attribute.t.CopyFrom(
                        numpy_helper.from_array(
                            numpy_helper.to_array(attribute.t), attribute.t.name
                        )
                    )
                pending += [attribute.g] if attribute.HasField("g") else []
                pending += attribute.graphs
    return made


def test_everything_survives_a_round_trip() -> None:
    proto = everything()
    model = load_model(proto)

    assert check_consistency(model.graph) == []
    assert canonical(to_model_proto(model)) == canonical(proto)


def test_implicit_inputs_are_what_sub_graphs_take() -> None:
    graph = load_model(everything()).graph

    assert [node.implicit_inputs for node in graph.nodes] == [(), ("t",), ("u", "w", "x")]


def test_older_models_leave_attribute_types_out() -> None:
    proto = parse(
        '<ir_version: 3, opset_import: ["" : 6]> g (float[2] x) => (float[2] y) { y = LeakyRelu'
        " <alpha = 0.5> (x) }"
    )
    proto.graph.node[0].attribute[0].ClearField("type")

    (node,) = load_model(proto).graph.nodes

    assert node.attribute("alpha") == 0.5


def test_before_ir_version_4_initializers_are_no_inputs_though_they_must_be_listed() -> None:
    text = (
        '<ir_version: 3, opset_import: ["" : 8]> g (float[2] x, float[2] w) => (float[2] y) { y ='
        " Add(x, w) }"
    )
    model = load_model(parse(text, {"w": np.ones(2, np.float32)}))

    assert model.graph.inputs == ("x",)
    assert model.graph.is_constant("w")
    assert [value.name for value in to_model_proto(model).graph.input] == ["x", "w"]


def test_values_of_sub_graphs_get_names_of_their_own() -> None:
    text = """g (bool c, float[2] x) => (float[2] y, float[2] a) {
        a = Relu(x)
        y = If (c) <then_branch = t () => (float[2] a) { a = Neg(x) },
                    else_branch = e () => (float[2] b) { b = Exp(a) }>
    }"""
    graph = load_model(parse(text)).graph

    (node,) = (node for node in graph.nodes if node.op_type == "If")
    assert node.subgraphs["then_branch"].outputs == ("a__0",)
    assert node.implicit_inputs == ("x", "a")


# --- functions ------------------------------------------------------------------------------------

FUNCTIONS = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[2] x) => (float[2] y) { a = local.Twice <slope = 0.5> (x) y = local.Twice(a) }
<domain: "local", opset_import: ["" : 21]>
Leaky <slope> (v) => (r) { t = LeakyRelu <alpha: float = @slope> (v) r = Identity(t) }
<domain: "local", opset_import: ["" : 21, "local" : 1]>
Twice <slope: float = 0.25> (v) => (w) {
    t = local.Leaky <slope: float = @slope> (v)
    w = local.Leaky <slope: float = @slope> (t) }
"""


def run(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    outputs: list[Any] = ReferenceEvaluator(proto).run(None, feeds)
    return outputs


def test_functions_are_inlined_with_their_attributes() -> None:
    model = load_model(parse(FUNCTIONS))
    feeds = {"x": np.array([-8, 3], np.float32)}

    assert [node.op_type for node in model.graph.nodes] == ["LeakyRelu", "Identity"] * 4
    assert check_consistency(model.graph) == []
    # 0.5 twice where the call says so, 0.25 twice where the function's default holds.
    np.testing.assert_allclose(
        run(to_model_proto(model), feeds)[0], np.array([-8 / 4 / 16, 3], np.float32)
    )


def test_functions_with_sub_graphs_and_missing_inputs_are_inlined() -> None:
    proto = parse("""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        g (bool c, float[2] x) => (float[2] y, float[2] z) { y = local.F(c, x) z = local.F(c, y) }
        <domain: "local", opset_import: ["" : 21]>
        F (c, v, low) => (w) {
            t = Neg(v)
            u = If (c) <then_branch = a () => (p) { q = Relu(t) p = Clip(q, low) },
                        else_branch = b () => (p) { p = Exp(t) }>
            w = Add(u, v) }
        """)
    model = load_model(proto)
    feeds = {"c": np.array(True), "x": np.array([-8, 3], np.float32)}

    assert check_consistency(model.graph) == []
    np.testing.assert_allclose(
        run(to_model_proto(model), feeds)[1], np.array([8 - 8, 0 + 3], np.float32)
    )


def test_functions_mean_the_opset_that_they_import() -> None:
    model = load_model(
        parse("""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
            g (float[2] x) => (float[2] y) { y = local.F(x) }
            <domain: "local", opset_import: ["" : 12]> F (v) => (w) { w = Relu(v) }""")
    )

    assert [node.since_version for node in model.graph.nodes] == [6]


def test_a_function_may_pass_an_input_through() -> None:
    model = load_model(
        parse("""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
            g (float[2] x) => (float[2] y) { y = local.F(x) }
            <domain: "local", opset_import: ["" : 21]> F (v) => (v) { w = Relu(v) }""")
    )

    assert [(node.op_type, node.outputs) for node in model.graph.nodes][1] == ("Identity", ("y",))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("F (v) => (w) { w = local.F(v) }", "is called in more than 32 levels"),
        ("F (v) => (w) { w = Relu(u) }", "takes 'u', which nothing in it makes"),
        ("F (v) => (w) { t = Relu(v) }", "nothing makes the graph's output 'y'"),
        ("F (v) => (w) { w = other.Op(v) }", "of domain 'other', whose version is not imported"),
    ],
    ids=["recursion", "undefined value", "output that is not made", "domain not imported"],
)
def test_refuses_wrong_functions(body: str, message: str) -> None:
    header = (
        '<ir_version: 10, opset_import: ["" : 21, "local" : 1]> g (float[2] x) => (float[2] y) { y'
        " = local.F(x) }"
    )
    proto = parse(f'{header} <domain: "local", opset_import: ["" : 21, "local" : 1]> {body}')

    with pytest.raises(InvalidGraphError, match=message):
        load_model(proto)


def test_functions_that_multiply_stop_at_the_limit() -> None:
    text = (
        '<ir_version: 10, opset_import: ["" : 21, "local" : 1]> g (float[2] x) => (float[2] y) { y'
        " = local.F0(x) }"
    )
    for level in range(20):
        text += f' <domain: "local", opset_import: ["" : 21, "local" : 1]> F{level} (v) => (w)'
        text += f" {{ t = local.F{level + 1}(v) w = local.F{level + 1}(t) }}"
    text += ' <domain: "local", opset_import: ["" : 21]> F20 (v) => (w) { w = Relu(v) }'

    with pytest.raises(InvalidGraphError, match="has more than 1000 nodes, functions inlined"):
        load_model(parse(text), limits=ModelLimits(node_count=1000))


# --- bad graphs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            (
                "g (float[2] x) => (float[2] y) { [n1] a = Add(x, b) [n2] b = Relu(a) [n3] y ="
                " Relu(b) }"
            ),
            "the graph has a cycle through (Add node 'n1'|Relu node 'n2')",
        ),
        (
            "g (float[2] x) => (float[2] y) { [n1] y = Add(x, q) }",
            "Add node 'n1' takes 'q', which nothing in the graph",
        ),
        (
            """g (bool c) => (float[2] y) { [n1] y = If (c) <then_branch = t () => (float[2] p) { p = Relu(q) },
               else_branch = e () => (float[2] r) { r = Relu(q) }> }""",
            "a sub-graph of If node 'n1' takes 'q', which nothing in the graph makes",
        ),
        ("g (float[2] x) => (float[2] y) { z = Relu(x) }", "nothing makes the graph's output 'y'"),
        (
            "g (float[2] x) => (float[2] y) { y = Relu(x) [n2] y = Neg(x) }",
            "its output 'y' already has a producer",
        ),
        (
            "g (float[2] x) => (float[2] x) { [n1] x = Relu(x) }",
            "Relu node 'n1': its output 'x' already has a producer",
        ),
        (
            "g (float[2] x) => (float[2] y) { y, y = Dropout(x) }",
            "its output 'y' already has a producer",
        ),
        ("g (float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }", "has the input 'x' twice"),
        (
            "g (float[2] x) => (float[2] y) { y = other.Op(x) }",
            "of domain 'other', whose version is not imported",
        ),
        (
            (
                '<ir_version: 10, opset_import: ["" : 999]> g (float[2] x) => (float[2] y) { y ='
                " Relu(x) }"
            ),
            r"imports opset 999 of ai\.onnx; opsets 1 to \d+ are known here",
        ),
    ],
)
def test_refuses_broken_graphs(text: str, message: str) -> None:
    with pytest.raises(InvalidGraphError, match=message):
        load_model(parse(text))


def test_names_of_a_stranger_are_escaped_in_messages() -> None:
    proto = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.graph.node[0].input[0] = "\x1b[31mred\n"

    with pytest.raises(InvalidGraphError, match=r"takes '\\x1b\[31mred\\n'"):
        load_model(proto)


@pytest.mark.parametrize("field", ["op_type", "name", "doc_string", "domain"])
def test_refuses_text_that_is_not_utf8(field: str) -> None:
    proto = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    setattr(proto.graph.node[0], field, "QQQQ")

    with pytest.raises(ModelFileError, match="is not UTF-8 text"):
        load_model(proto.SerializeToString().replace(b"QQQQ", b"Q\xdaQQ"))


def test_refuses_two_initializers_of_one_name() -> None:
    proto = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }", {"w": np.ones(2, np.float32)})
    proto.graph.initializer.append(proto.graph.initializer[0])

    with pytest.raises(InvalidGraphError, match="has two initializers named 'w'"):
        load_model(proto)


# --- writing --------------------------------------------------------------------------------------


def test_external_data_is_written_beside_the_model_and_read_back(tmp_path: Path) -> None:
    weights = {"w": np.arange(600, dtype=np.float32), "small": np.ones(1, np.float32)}
    model = load_model(
        parse("g (float[600] x) => (float[600] y) { a = Add(x, w) y = Mul(a, small) }", weights)
    )

    save_model(model, tmp_path / "out.onnx", external_data="out.data")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.data", "out.onnx"]
    assert (tmp_path / "out.data").stat().st_size == 2400
    again = load_model(tmp_path / "out.onnx")
    np.testing.assert_array_equal(again.graph.initializers["w"].numpy(), weights["w"])
    onnx.checker.check_model(str(tmp_path / "out.onnx"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody replace a mapped file")
def test_a_file_that_is_mapped_keeps_its_bytes_when_the_model_is_written_over_it(
    tmp_path: Path,
) -> None:
    path = save(
        parse(
            "g (float[600] x) => (float[600] y) { y = Add(x, w) }", {"w": np.ones(600, np.float32)}
        ),
        tmp_path,
    )
    model = load_model(path)

    save_model(model, path)

    assert model.graph.initializers["w"].numpy().sum() == 600
    assert load_model(path).graph.initializers["w"].numpy().sum() == 600


def test_a_folder_that_is_not_there_is_a_typed_error(tmp_path: Path) -> None:
    model = load_model(parse("g (float[2] x) => (float[2] y) { y = Relu(x) }"))

    with pytest.raises(ModelFileError, match="cannot write"):
        save_model(model, tmp_path / "none" / "out.onnx")


def test_refuses_to_write_external_data_elsewhere(tmp_path: Path) -> None:
    model = load_model(parse("g (float[2] x) => (float[2] y) { y = Relu(x) }"))

    with pytest.raises(
        ModelFileError, match=r"external_data names the external file '\.\./w', which leaves"
    ):
        save_model(model, tmp_path / "out.onnx", external_data="../w")


@pytest.mark.parametrize("kind", [onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16])
@pytest.mark.parametrize(
    "imports", [{"com.microsoft": 1}, {"": 17}], ids=["ONNX's is missing", "Microsoft's is missing"]
)
def test_a_domain_of_onnxruntime_that_is_not_imported_is_its_newest(
    kind: int, imports: dict[str, int]
) -> None:
    x, y = (helper.make_tensor_value_info(name, kind, [1]) for name in "xy")
    nodes = [
        helper.make_node("Gelu", ["x"], ["a"], domain="com.microsoft"),
        helper.make_node("Abs", ["a"], ["y"]),
    ]
    opsets = [helper.make_opsetid(domain, version) for domain, version in imports.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=9
    )

    graph = load_model(model).graph

    newest = {"": onnx.defs.onnx_opset_version(), "com.microsoft": 1}
    assert graph.opset_imports == newest | imports
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    fed = np.ones(1, helper.tensor_dtype_to_np_dtype(kind))
    np.testing.assert_allclose(session.run(None, {"x": fed})[0], [0.8413], rtol=1e-3)


def test_a_model_of_another_domain_alone_takes_casts_of_onnx_too() -> None:
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, [1]) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], "g", [x], [y]
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)], ir_version=9
    )
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones(1, np.float16)})[0].dtype == np.float16
