"""Context models as they are run: who takes which node, where contexts lie, what is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortpkg.foundations.errors import EpContextError, KernelNotFoundError, OrtpkgError, StatusCode
from tests.ep_context.conftest import EXPECTED, TEXT, W, X
from tests.ep_context.fake_compiler import ENVIRONMENT, FakeCompiler, run, state_of


@pytest.fixture
def context(model: Path) -> Path:
    """A context model with one binary, its source gone."""
    state_of(model, FakeCompiler(), ep_context_enable="1")
    model.unlink()
    return model.parent / "net_ctx.onnx"


@pytest.fixture
def embedded(model: Path) -> Path:
    state_of(model, FakeCompiler(), ep_context_enable="1", ep_context_embed_mode="1")
    return model.parent / "net_ctx.onnx"


def edited(
    path: Path, change: Callable[[dict[str, onnx.AttributeProto], onnx.NodeProto], None]
) -> Path:
    """The context model with every EPContext node changed, beside the other one."""
    proto = onnx.load(path)
    for node in proto.graph.node:
        if node.op_type == "EPContext":
            change({attribute.name: attribute for attribute in node.attribute}, node)
    target = path.with_name("edited.onnx")
    onnx.save(proto, target)
    return target


@pytest.mark.requirement("E02", "E03", "E35", "E36", "E37", "E39")
def test_nothing_is_compiled_and_the_outputs_are_the_same(context: Path) -> None:
    provider = FakeCompiler()
    np.testing.assert_allclose(run(state_of(context, provider), X)[0], EXPECTED, rtol=1e-5)
    assert provider.compiled == []
    assert len(provider.imported) == 2


@pytest.mark.requirement("E05", "E36", "E39")
def test_embedded_contexts_run_from_a_path_and_from_memory(embedded: Path) -> None:
    np.testing.assert_allclose(run(state_of(embedded, FakeCompiler()), X)[0], EXPECTED, rtol=1e-5)
    np.testing.assert_allclose(
        run(state_of(embedded.read_bytes(), FakeCompiler()), X)[0], EXPECTED, rtol=1e-5
    )


@pytest.mark.requirement("E14", "E38")
def test_from_memory_an_external_context_needs_the_path(context: Path) -> None:
    with pytest.raises(EpContextError, match=r"set ep\.context_file_path") as caught:
        state_of(context.read_bytes(), FakeCompiler())
    assert caught.value.code is StatusCode.INVALID_GRAPH
    state = state_of(context.read_bytes(), FakeCompiler(), ep_context_file_path=str(context))
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)


@pytest.mark.requirement("E04", "E27")
def test_a_sub_folder_is_allowed(context: Path) -> None:
    (context.parent / "sub").mkdir()
    (context.parent / "net_fake.bin").rename(context.parent / "sub" / "net_fake.bin")

    def change(attributes: dict[str, onnx.AttributeProto], _node: onnx.NodeProto) -> None:
        if attributes["main_context"].i:
            attributes["ep_cache_context"].s = b"sub/net_fake.bin"

    np.testing.assert_allclose(
        run(state_of(edited(context, change), FakeCompiler()), X)[0], EXPECTED, rtol=1e-5
    )


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    ("ep_name", "source", "is_own"),
    [
        ("QNNExecutionProvider", "QNNExecutionProvider", True),
        ("QNNExecutionProvider", "QNN", True),
        ("QNNExecutionProvider", "qnn", True),
        ("QNNExecutionProvider", "qnnEXECUTIONprovider", True),
        ("QNNExecutionProvider", "QnnHtp", False),
        ("OpenVINOExecutionProvider", "OpenVINOExecutionProvider", True),
        ("OpenVINOExecutionProvider", "OpenVINO", False),
        ("OpenVINOExecutionProvider", "openvinoexecutionprovider", False),
        ("FakeExecutionProvider", "FakeExecutionProvider", True),
        ("FakeExecutionProvider", "fake", True),
        ("FakeExecutionProvider", "FAKE", False),
    ],
)
def test_a_source_is_compared_as_its_provider_compares_it(
    model: Path, ep_name: str, source: str, *, is_own: bool
) -> None:
    state_of(model, FakeCompiler(name=ep_name), ep_context_enable="1")

    def change(attributes: dict[str, onnx.AttributeProto], _node: onnx.NodeProto) -> None:
        attributes["source"].s = source.encode()

    context = edited(model.parent / "net_ctx.onnx", change)
    sources = ("FakeExecutionProvider", "fake") if ep_name == "FakeExecutionProvider" else ()
    provider = FakeCompiler(name=ep_name, sources=sources)
    if is_own:
        np.testing.assert_allclose(run(state_of(context, provider), X)[0], EXPECTED, rtol=1e-5)
        return
    with pytest.raises(KernelNotFoundError, match=source):
        state_of(context, provider)


@pytest.mark.requirement("E10", "E35")
def test_a_node_of_another_provider_is_left_alone(context: Path) -> None:
    with pytest.raises(KernelNotFoundError, match="EPContext"):
        state_of(context, FakeCompiler(name="OtherExecutionProvider"))


@pytest.mark.requirement("E10", "E28", "E41")
def test_one_model_with_contexts_of_two_providers_runs_on_both(model: Path) -> None:
    left = FakeCompiler(operators=("MatMul",), name="LeftExecutionProvider")
    right = FakeCompiler(operators=("Exp",), name="RightExecutionProvider")
    state_of(model, left, right, ep_context_enable="1")
    folder = model.parent
    assert {path.name for path in folder.iterdir()} == {
        "net.onnx",
        "net_ctx.onnx",
        "net_left.bin",
        "net_right.bin",
    }
    left, right = (
        FakeCompiler(name="LeftExecutionProvider"),
        FakeCompiler(name="RightExecutionProvider"),
    )
    np.testing.assert_allclose(
        run(state_of(folder / "net_ctx.onnx", left, right), X)[0], EXPECTED, rtol=1e-5
    )
    assert (len(left.imported), len(right.imported)) == (1, 2)
    assert left.compiled == right.compiled == []


@pytest.mark.requirement("E34")
def test_a_model_without_context_nodes_goes_the_normal_way(model: Path) -> None:
    provider = FakeCompiler()
    np.testing.assert_allclose(run(state_of(model, provider), X)[0], EXPECTED, rtol=1e-5)
    assert (len(provider.compiled), provider.imported) == (2, [])


@pytest.mark.requirement("E28", "E39")
def test_contexts_of_two_models_merge_into_one_model(model: Path) -> None:
    other = model.with_name("other.onnx")
    shutil.copy(model, other)
    for path in (model, other):
        state_of(path, FakeCompiler(), ep_context_enable="1")
    first, second = (onnx.load(path.with_name(f"{path.stem}_ctx.onnx")) for path in (model, other))
    first = onnx.compose.add_prefix(first, "a_", rename_nodes=False)
    second = onnx.compose.add_prefix(second, "b_", rename_nodes=False)
    merged = onnx.compose.merge_models(first, second, io_map=[("a_y", "b_x")])
    target = model.with_name("merged.onnx")
    onnx.save(merged, target)
    expected = run(state_of(model, FakeCompiler()), run(state_of(model, FakeCompiler()), X)[0])[0]
    np.testing.assert_allclose(run(state_of(target, FakeCompiler()), X)[0], expected, rtol=1e-4)


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("sdk_version", "2.0", "SDK version"),
        ("driver_version", "8", "driver version"),
        ("device", "GPU", "device"),
        ("architecture", "npu-4", "architecture"),
        ("options", {"mode": "exact"}, "provider options"),
    ],
)
def test_each_thing_that_matters_makes_a_context_stale(
    context: Path, field: str, value: Any, word: str
) -> None:
    provider = FakeCompiler(environment=replace(ENVIRONMENT, **{field: value}))
    with pytest.raises(EpContextError, match=f"is stale: its {word} (was|were) ") as caught:
        state_of(context, provider)
    assert caught.value.code is StatusCode.INVALID_GRAPH
    assert provider.imported == []


@pytest.mark.requirement("E40")
def test_a_failing_import_is_an_invalid_graph_with_the_librarys_words(context: Path) -> None:
    def fail() -> None:
        raise RuntimeError("blob of another tribe\nsecond line")

    with pytest.raises(
        EpContextError, match=r"cannot load the context of partition .*blob of another tribe"
    ) as caught:
        state_of(context, FakeCompiler(on_import=fail))
    assert caught.value.code is StatusCode.INVALID_GRAPH
    assert "second line" not in str(caught.value)


@pytest.mark.requirement("E40")
@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "foreign", "folder"])
def test_damaged_binaries_are_told(context: Path, damage: str) -> None:
    binary = context.parent / "net_fake.bin"
    data = bytearray(binary.read_bytes())
    binary.unlink()
    if damage == "truncated":
        binary.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        data[-10] ^= 1
        binary.write_bytes(data)
    elif damage == "foreign":
        binary.write_bytes(b"\x7fELF" + bytes(5000))
    elif damage == "folder":
        binary.mkdir()
    with pytest.raises(EpContextError):
        state_of(context, FakeCompiler())


@pytest.mark.parametrize(
    "location", ["../net_fake.bin", "/etc/passwd", "sub/../../net_fake.bin", "C:\\net.bin"]
)
def test_a_path_that_leaves_the_folder_is_refused(context: Path, location: str) -> None:
    def change(attributes: dict[str, onnx.AttributeProto], _node: onnx.NodeProto) -> None:
        if attributes["main_context"].i:
            attributes["ep_cache_context"].s = location.encode()

    with pytest.raises(EpContextError, match="leaves the model's folder"):
        state_of(edited(context, change), FakeCompiler())


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights on Windows")
def test_a_link_that_leaves_the_folder_is_refused(context: Path, tmp_path: Path) -> None:
    binary = context.parent / "net_fake.bin"
    binary.rename(tmp_path / "outside.bin")
    binary.symlink_to(tmp_path / "outside.bin")
    with pytest.raises(EpContextError, match="leaves the model's folder"):
        state_of(context, FakeCompiler())


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("what", "field"), [("weights", "weights_digest"), ("graph", "graph_digest")]
)
def test_a_binary_of_another_model_is_told_by_the_nodes_notes(
    context: Path, tmp_path: Path, what: str, field: str
) -> None:
    proto = onnx.parser.parse_model(
        TEXT.replace("Exp(m)", "Exp(k)  k = MatMul(m, w)") if what == "graph" else TEXT
    )
    values = np.eye(3, dtype=np.float32) if what == "weights" else W
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(values, "w"))
    if what == "graph":
        nodes = sorted(proto.graph.node, key=lambda node: "mkensy".index(node.output[0]))
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)
    other = tmp_path / "other" / "net.onnx"
    other.parent.mkdir()
    onnx.save(proto, other)
    state_of(other, FakeCompiler(), ep_context_enable="1")
    shutil.copy(other.parent / "net_fake.bin", context.parent / "net_fake.bin")
    provider = FakeCompiler()
    with pytest.raises(EpContextError, match=rf"is of another model: its {field} is") as caught:
        state_of(context, provider)
    assert caught.value.code is StatusCode.INVALID_GRAPH
    assert provider.imported == []


@pytest.mark.requirement("E11")
@pytest.mark.parametrize(
    "notes", ["", "made on a Tuesday", "[]", '{"weights_digest": 5}', "{" * 100_000]
)
def test_notes_of_other_tools_say_nothing(context: Path, notes: str) -> None:
    def change(attributes: dict[str, onnx.AttributeProto], _node: onnx.NodeProto) -> None:
        attributes["notes"].s = notes.encode()

    np.testing.assert_allclose(
        run(state_of(edited(context, change), FakeCompiler()), X)[0], EXPECTED, rtol=1e-5
    )


@pytest.mark.requirement("E40")
@pytest.mark.parametrize("which", ["input", "output"])
def test_a_node_with_another_number_of_inputs_or_outputs_is_told_at_load(
    context: Path, which: str
) -> None:
    def change(_attributes: dict[str, onnx.AttributeProto], node: onnx.NodeProto) -> None:
        getattr(node, which).append("x" if which == "input" else f"{node.name}_more")

    with pytest.raises(
        EpContextError, match=rf"has 1 {which}s, its EPContext node .* has 2"
    ) as caught:
        state_of(edited(context, change), FakeCompiler())
    assert caught.value.code is StatusCode.INVALID_GRAPH


@pytest.mark.requirement("E03")
def test_a_node_whose_main_node_is_gone_is_told(context: Path) -> None:
    proto = onnx.load(context)
    (second,) = (
        node
        for node in proto.graph.node
        if any(each.name == "main_context" and each.i == 0 for each in node.attribute)
    )
    lone = onnx.helper.make_model(
        onnx.helper.make_graph(
            [second],
            "g",
            [onnx.helper.make_tensor_value_info(second.input[0], 1, [2, 3])],
            [onnx.helper.make_tensor_value_info(second.output[0], 1, [2, 3])],
        ),
        opset_imports=proto.opset_import,
        ir_version=10,
    )
    target = context.with_name("lone.onnx")
    onnx.save(lone, target)
    with pytest.raises(EpContextError, match="none of the 0 main EPContext nodes"):
        state_of(target, FakeCompiler())


def test_unknown_attributes_are_no_obstacle(context: Path) -> None:
    def change(_attributes: dict[str, onnx.AttributeProto], node: onnx.NodeProto) -> None:
        node.attribute.append(onnx.helper.make_attribute("vendor_hint", [1.5, 2.5]))

    np.testing.assert_allclose(
        run(state_of(edited(context, change), FakeCompiler()), X)[0], EXPECTED, rtol=1e-5
    )


def test_a_main_node_without_a_context_is_an_invalid_graph(context: Path) -> None:
    def change(attributes: dict[str, onnx.AttributeProto], _node: onnx.NodeProto) -> None:
        if attributes["main_context"].i:
            attributes["ep_cache_context"].s = b""

    with pytest.raises(
        OrtpkgError, match="ep_cache_context, which should hold or name it, is empty"
    ):
        state_of(edited(context, change), FakeCompiler())


def declaring(path: Path, element_type: int, shape: list[int | str]) -> Path:
    """The context model with another declaration of its output."""
    proto = onnx.load(path)
    proto.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", element_type, shape))
    target = path.with_name("declared.onnx")
    onnx.save(proto, target)
    return target


@pytest.mark.parametrize(
    ("element_type", "shape", "told"),
    [
        (onnx.TensorProto.INT64, [2, 3], r"declares tensor\(int64\)\[2, 3\]"),
        (onnx.TensorProto.FLOAT, [2, 4], r"declares tensor\(float\)\[2, 4\]"),
        (onnx.TensorProto.FLOAT, [6], r"declares tensor\(float\)\[6\]"),
    ],
)
def test_an_output_that_is_not_what_the_node_declares_is_named(
    context: Path, element_type: int, shape: list[int | str], told: str
) -> None:
    state = state_of(declaring(context, element_type, shape), FakeCompiler())
    with pytest.raises(
        EpContextError, match=rf"gives output 'y' as float32\[2, 3\], its node {told}"
    ) as caught:
        run(state, X)
    assert (caught.value.code, caught.value.ep_name) == (
        StatusCode.INVALID_GRAPH,
        "FakeExecutionProvider",
    )


def test_a_declaration_that_leaves_sizes_open_fits(context: Path) -> None:
    state = state_of(declaring(context, onnx.TensorProto.FLOAT, ["rows", 3]), FakeCompiler())
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)
