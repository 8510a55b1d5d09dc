"""What a model file says about itself."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortpkg.foundations.errors import InvalidGraphError, ModelFileError, ModelNotFoundError
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import (
    ExternalFile,
    read_model_signature,
    signature_of,
)
from tests.graph.model_factories import external_tensor, parse, save


def test_lists_inputs_and_outputs_with_type_and_shape(tmp_path: Path) -> None:
    proto = parse("g (float[N, 3, ?] x, int64 k) => (float[N, 3, M] y) { y = Relu(x) }")

    signature = read_model_signature(save(proto, tmp_path))

    assert [(value.name, value.type, value.shape) for value in signature.inputs] == [
        ("x", "tensor(float)", ("N", 3, None)),
        ("k", "tensor(int64)", ()),
    ]
    assert [(value.name, value.shape) for value in signature.outputs] == [("y", ("N", 3, "M"))]
    assert signature.opset_imports == {"": 21, "com.microsoft": 1}
    assert signature.ir_version == 10


def test_leaves_out_inputs_that_have_a_default(tmp_path: Path) -> None:
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))

    assert [value.name for value in read_model_signature(save(model, tmp_path)).inputs] == ["x"]


def test_names_the_types_of_sequences() -> None:
    model = parse("g (float[2] x) => (y) { y = SequenceConstruct(x) }")
    model.graph.output[0].type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT

    output = signature_of(model).outputs[0]

    assert (output.type, output.shape) == ("seq(tensor(float))", None)


def test_finds_external_files_of_initializers_attributes_sub_graphs_and_functions(
    tmp_path: Path,
) -> None:
    model = parse("""g (bool c, float[4] x) => (float[4] y) {
            y = If (c) <then_branch = t () => (float[4] a) { a = Identity(x) },
                        else_branch = e () => (float[4] b) { b = Identity(x) }>
        }""")
    model.graph.initializer.append(external_tensor("w", "weights.bin", offset=64, length=16))
    model.graph.initializer.append(external_tensor("v", "weights.bin", offset=4096, dims=(8, 2)))
    model.graph.node[0].attribute[0].g.initializer.append(
        external_tensor("u", "sub/inner.bin", offset=8, length=16)
    )
    constant = helper.make_node("Constant", [], ["k"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(
        external_tensor("k", "attr.bin")
    )
    model.functions.append(
        helper.make_function("local", "F", [], ["k"], [constant], [helper.make_opsetid("", 21)])
    )

    assert read_model_signature(save(model, tmp_path)).external_files == (
        ExternalFile(location="weights.bin", nbytes=4096 + 64),
        ExternalFile(location="sub/inner.bin", nbytes=24),
        ExternalFile(location="attr.bin", nbytes=16),
    )


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("../w.bin", "leaves the model's folder"),
        ("a/../../w.bin", "leaves the model's folder"),
        ("/etc/passwd", "is an absolute path"),
        ("C:w.bin", "is an absolute path"),
        ("\\\\server\\share\\w", "is an absolute path"),
        ("a\\w.bin", "has a backslash"),
        ("", "is not a file name"),
    ],
)
def test_refuses_external_file_outside_the_folder(location: str, problem: str) -> None:
    model = parse("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    model.graph.initializer.append(external_tensor("w", location))

    with pytest.raises(
        ModelFileError, match=f"tensor 'w' names the external file .*, which {problem}"
    ):
        signature_of(model)


def test_lists_context_files_of_nodes_that_do_not_embed() -> None:
    model = parse("""g (float[1] x) => (float[1] y, float[1] z) {
            y = com.microsoft.EPContext <embed_mode: int = 0, ep_cache_context: string = "ctx/net.bin",
                source: string = "QNN", partition_name: string = "p0", hardware_architecture: string = "v73"> (x)
            z = com.microsoft.EPContext <embed_mode: int = 1, ep_cache_context: string = "payload"> (x)
        }""")

    signature = signature_of(model)

    assert signature.context_files == ("ctx/net.bin",)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Relu(x)", "none"),
        (
            (
                "z = Constant <value = int8 {0}> () q = QuantizeLinear(x, s, z) y ="
                " DequantizeLinear(q, s, z)"
            ),
            "qdq-int8",
        ),
        (
            (
                "q = QuantizeLinear <output_dtype = 21> (x, s) y = DequantizeLinear <output_dtype ="
                " 21> (q, s)"
            ),
            "qdq-int4",
        ),
        ("q, sc, zp = DynamicQuantizeLinear(x) y = Cast<to = 1>(q)", "dynamic-int8"),
        (
            "y = com.microsoft.MatMulNBits <K = 4, N = 4, bits = 4, block_size = 32> (x, s)",
            "int4-blockwise",
        ),
        ("q = Cast <to = 2> (x) y = DequantizeLinear(q, s)", "weight-int8"),
    ],
)
def test_names_the_quantization(body: str, expected: str) -> None:
    assert (
        signature_of(parse(f"g (float[4] x, float s) => (float[4] y) {{ {body} }}")).quantization
        == expected
    )


def test_names_float16_where_most_weights_have_it() -> None:
    model = parse("g (float16[4] x) => (float16[4] y) { y = Add(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float16), "w"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "scale"))

    signature = signature_of(model)

    assert signature.quantization == "fp16"
    assert signature.element_types == ("float", "float16")


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="there is no file"):
        read_model_signature(tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (
            b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
            "is not an ONNX model, or is truncated",
        ),
        (b"#!/bin/sh\necho hello\n", "is not an ONNX model"),
        (b"\x08\x0a", "holds no graph"),
        (
            onnx.ModelProto(graph=onnx.GraphProto(name="g")).SerializeToString(),
            "states no IR version",
        ),
        (
            onnx.ModelProto(ir_version=10, graph=onnx.GraphProto(name="g")).SerializeToString(),
            "no operator set",
        ),
    ],
)
def test_refuses_files_that_are_not_onnx(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)

    with pytest.raises(ModelFileError, match=message):
        read_model_signature(path)


def test_refuses_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is not a regular file"):
        read_model_signature(tmp_path)


def test_names_what_opens_a_package(tmp_path: Path) -> None:
    package = tmp_path / "net.ortpackage"
    package.mkdir()
    with pytest.raises(ModelFileError, match="is not a regular file; ModelPackage opens packages"):
        read_model_signature(package)


def test_refuses_truncated_files(tmp_path: Path) -> None:
    model = parse("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4096, np.float32), "w"))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString()[:-3000])

    with pytest.raises(ModelFileError, match="is truncated"):
        read_model_signature(path)


def test_refuses_files_over_the_size_limit(tmp_path: Path) -> None:
    path = save(parse("g (float[4] x) => (float[4] y) { y = Relu(x) }"), tmp_path)

    with pytest.raises(ModelFileError, match="may have at most 10"):
        read_model_signature(path, limits=ModelLimits(model_nbytes=10))


def test_refuses_deeply_nested_sub_graphs() -> None:
    model = parse("g (bool c) => (bool y) { y = Identity(c) }")
    for _ in range(4):
        outer = parse("g (bool c) => (bool y) { y = If(c) }")
        outer.graph.node[0].attribute.append(helper.make_attribute("then_branch", model.graph))
        model = outer

    with pytest.raises(InvalidGraphError, match="nested deeper than 3 levels"):
        signature_of(model, limits=ModelLimits(subgraph_depth=3))


@pytest.mark.parametrize("place", ["input", "initializer", "constant"])
def test_refuses_more_dimensions_than_a_tensor_has(place: str) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Identity(x) }")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 60] * 65)
    if place == "input":
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("w", 1, [1] * 65))
    elif place == "initializer":
        model.graph.initializer.append(tensor)
    else:
        model.graph.node.append(helper.make_node("Constant", [], ["w"], value=tensor))

    with pytest.raises(InvalidGraphError, match="'w' has 65 dimensions; at most 64 are supported"):
        signature_of(model)


def test_asks_for_the_limits_of_a_command_again_and_again_among_many_nodes() -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Identity(x) }")
    model.graph.node.extend([model.graph.node[0]] * 5000)
    asked: list[None] = []
    control = LoadControl(
        memory_limit_nbytes=None, timeout_s=None, check=lambda: asked.append(None)
    )

    with load_limits(control):
        assert signature_of(model).node_count == 5001
    assert len(asked) == 5  # in one walk, once for 1024 nodes


def test_keeps_no_node_beside_the_message() -> None:
    def most_kept(count: int) -> int:
        # The least of three: what other threads of the process take is counted too.
        return min(traced_peak(count) for _ in range(3))

    def traced_peak(count: int) -> int:
        model = parse("g (float[2] x) => (float[2] y) { y = Identity(x) }")
        model.graph.node.extend([model.graph.node[0]] * count)
        tracemalloc.start()
        try:
            signature_of(model)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most_kept(10)
    assert most_kept(4000) < most_kept(10) + 10_000
