"""Context models as they are made: which files, which nodes, standing alone."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from ortpkg.foundations.errors import (
    EpContextError,
    EpContextWriteError,
    ExitCode,
    InvalidSessionOptionError,
    SessionError,
    StatusCode,
)
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.ep_context.context_node import ep_context_attributes, ep_context_nodes
from ortpkg.runtime.ep_context.ep_context_file import open_context_file
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.execution_provider import FusedNode
from tests.ep_context.conftest import EXPECTED, TEXT, X
from tests.ep_context.fake_compiler import ENVIRONMENT, NAME, FakeCompiler, run, state_of


def attributes_of(node: onnx.NodeProto) -> dict[str, object]:
    return {
        attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute
    }


def contexts_in(path: Path) -> list[onnx.NodeProto]:
    return [
        node
        for node in onnx.load(path, load_external_data=False).graph.node
        if node.op_type == "EPContext"
    ]


@pytest.mark.requirement("E13", "E22")
def test_without_the_option_nothing_is_written(model: Path) -> None:
    state_of(model, FakeCompiler())
    assert [path.name for path in model.parent.iterdir()] == ["net.onnx"]


@pytest.mark.requirement("E13", "E14", "E19", "E20", "E25", "E26", "E27", "E31")
def test_default_files_are_the_context_model_and_one_binary_beside_it(model: Path) -> None:
    state = state_of(model, FakeCompiler(), ep_context_enable="1")
    assert sorted(path.name for path in model.parent.iterdir()) == [
        "net.onnx",
        "net_ctx.onnx",
        "net_fake.bin",
    ]
    first, second = contexts_in(model.parent / "net_ctx.onnx")
    assert attributes_of(first)["ep_cache_context"] == b"net_fake.bin"
    assert (attributes_of(first)["main_context"], attributes_of(second)["main_context"]) == (1, 0)
    assert attributes_of(first)["embed_mode"] == 0
    assert attributes_of(first)["source"] == NAME.encode()
    assert len(open_context_file(model.parent / "net_fake.bin", ep_name=NAME).names) == 2
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)


@pytest.mark.requirement("E06", "E07", "E08", "E09", "E11")
def test_nodes_say_what_they_were_made_from(model: Path) -> None:
    state_of(model, FakeCompiler(), ep_context_enable="1")
    (first, _) = contexts_in(model.parent / "net_ctx.onnx")
    attributes = attributes_of(first)
    assert attributes["ep_sdk_version"] == b"1.0"
    assert attributes["hardware_architecture"] == b"npu-3"
    assert attributes["onnx_model_filename"] == b"net.onnx"
    assert attributes["partition_name"] == first.name.encode()
    assert b'"driver_version": "7"' in attributes["notes"]  # type: ignore[operator]


@pytest.mark.requirement("E15")
def test_embedded_contexts_lie_in_the_nodes_and_no_binary_is_made(model: Path) -> None:
    state_of(model, FakeCompiler(), ep_context_enable="1", ep_context_embed_mode="1")
    assert sorted(path.name for path in model.parent.iterdir()) == ["net.onnx", "net_ctx.onnx"]
    for node in contexts_in(model.parent / "net_ctx.onnx"):
        attributes = attributes_of(node)
        assert (attributes["main_context"], attributes["embed_mode"]) == (1, 1)
        assert str(attributes["ep_cache_context"]).startswith("b'ORTPKG EPCTX")


@pytest.mark.requirement("E23", "E55")
def test_a_given_path_takes_model_and_binary(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "made.onnx"
    state_of(model, FakeCompiler(), ep_context_enable="1", ep_context_file_path=str(target))
    assert sorted(path.name for path in target.parent.iterdir()) == ["made.onnx", "made_fake.bin"]


def test_contexts_of_one_source_share_a_folder_under_names_of_their_own(
    model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    environments = {
        each: replace(ENVIRONMENT, options={"precision": each}) for each in ("fp32", "fp16")
    }
    for precision, environment in environments.items():
        options = {
            "ep_context_enable": "1",
            "ep_context_file_path": str(folder / f"{precision}_ctx.onnx"),
        }
        state_of(model, FakeCompiler(environment=environment), **options)
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{precision}_ctx{rest}"
        for precision in ("fp16", "fp32")
        for rest in (".onnx", "_fake.bin")
    ]
    for precision, environment in environments.items():
        state = state_of(folder / f"{precision}_ctx.onnx", FakeCompiler(environment=environment))
        np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)


@pytest.mark.requirement("E24", "E32")
def test_from_memory_the_path_must_be_given(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidSessionOptionError, match=r"set ep\.context_file_path"):
        state_of(model.read_bytes(), FakeCompiler(), ep_context_enable="1")
    target = tmp_path / "made.onnx"
    state_of(
        model.read_bytes(), FakeCompiler(), ep_context_enable="1", ep_context_file_path=str(target)
    )
    assert (tmp_path / "made_fake.bin").exists()
    np.testing.assert_allclose(run(state_of(target, FakeCompiler()), X)[0], EXPECTED, rtol=1e-5)


@pytest.mark.requirement("E17", "E33")
def test_from_memory_with_external_weights(model: Path, tmp_path: Path) -> None:
    proto = onnx.load(model)
    external = tmp_path / "weights"
    external.mkdir()
    onnx.save(
        proto, external / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    assert (external / "w.bin").exists()
    target = tmp_path / "out" / "made.onnx"
    entries = {"session_model_external_initializers_file_folder_path": str(external)}
    state_of(
        (external / "net.onnx").read_bytes(),
        FakeCompiler(),
        ep_context_enable="1",
        ep_context_file_path=str(target),
        **entries,
    )
    shutil.rmtree(external)
    np.testing.assert_allclose(run(state_of(target, FakeCompiler()), X)[0], EXPECTED, rtol=1e-5)


@pytest.mark.requirement("E29", "E30")
def test_the_new_files_stand_alone_and_carry_the_weights_of_the_cpu_part_only(
    model: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "made.onnx"
    state_of(model, FakeCompiler(), ep_context_enable="1", ep_context_file_path=str(target))
    shutil.rmtree(model.parent)
    assert [tensor.name for tensor in onnx.load(target).graph.initializer] == ["b"]
    moved = tmp_path / "moved"
    target.parent.rename(moved)
    np.testing.assert_allclose(
        run(state_of(moved / "made.onnx", FakeCompiler()), X)[0], EXPECTED, rtol=1e-5
    )


@pytest.mark.requirement("E18", "E30", "E55")
def test_weights_of_the_cpu_part_go_into_the_named_file(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "made.onnx"
    state_of(
        model,
        FakeCompiler(),
        ep_context_enable="1",
        ep_context_file_path=str(target),
        ep_context_model_external_initializers_file_name="cpu.bin",
    )
    (b,) = onnx.load(target, load_external_data=False).graph.initializer
    assert b.data_location == onnx.TensorProto.EXTERNAL
    assert {entry.key: entry.value for entry in b.external_data}["location"] == "cpu.bin"
    np.testing.assert_allclose(run(state_of(target, FakeCompiler()), X)[0], EXPECTED, rtol=1e-5)


@pytest.mark.requirement("E18")
def test_the_file_that_the_source_maps_its_weights_from_is_never_written_over(
    model: Path, tmp_path: Path
) -> None:
    source = tmp_path / "s" / "s.onnx"
    source.parent.mkdir()
    onnx.save(
        onnx.load(model), source, save_as_external_data=True, location="s.data", size_threshold=0
    )
    before = (source.parent / "s.data").read_bytes()
    provider = FakeCompiler()
    option = {"ep_context_model_external_initializers_file_name": "s.data"}
    with pytest.raises(
        InvalidSessionOptionError, match=r"context_model_external_initializers_file_name.*exists al"
    ):
        state_of(source, provider, ep_context_enable="1", **option)
    assert provider.compiled == []
    assert (source.parent / "s.data").read_bytes() == before
    assert {path.name for path in source.parent.iterdir()} == {"s.onnx", "s.data"}


def test_a_file_that_comes_while_the_model_is_compiled_stays(model: Path) -> None:
    class Slow(FakeCompiler):
        def compile_partition(self, fused: FusedNode) -> CompiledPartition:
            model.with_name("cpu.bin").write_bytes(b"mine")
            return super().compile_partition(fused)

    option = {"ep_context_model_external_initializers_file_name": "cpu.bin"}
    with pytest.raises(SessionError, match="exists already"):
        state_of(model, Slow(), ep_context_enable="1", **option)
    assert model.with_name("cpu.bin").read_bytes() == b"mine"
    assert {path.name for path in model.parent.iterdir()} == {"net.onnx", "cpu.bin"}


@pytest.mark.parametrize("name", ["net_ctx.onnx", "net_fake.bin"])
def test_external_initializers_have_a_file_of_their_own(model: Path, name: str) -> None:
    option = {"ep_context_model_external_initializers_file_name": name}
    with pytest.raises(InvalidSessionOptionError, match="name another file"):
        state_of(model, FakeCompiler(), ep_context_enable="1", **option)
    assert [path.name for path in model.parent.iterdir()] == ["net.onnx"]


@pytest.mark.skipif(os.name == "nt", reason="modes are of POSIX")
def test_new_files_have_the_modes_that_the_umask_leaves(model: Path) -> None:
    before = os.umask(0o027)
    try:
        state_of(model, FakeCompiler(), ep_context_enable="1")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in model.parent.glob("net_*")} == {0o640}


def test_a_binary_of_another_model_is_never_written_over(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "net.onnx"
    other.parent.mkdir()
    proto = onnx.load(model)
    proto.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")
    )
    onnx.save(proto, other)
    made, kept = tmp_path / "o" / "a_ctx.onnx", tmp_path / "o" / "kept.onnx"
    state_of(model, FakeCompiler(), ep_context_enable="1", ep_context_file_path=str(made))
    made.rename(kept)
    with pytest.raises(
        EpContextWriteError, match=r"a_ctx_fake\.bin.*exists already.*other contexts.*file_path"
    ):
        state_of(other, FakeCompiler(), ep_context_enable="1", ep_context_file_path=str(made))
    assert {path.name for path in made.parent.iterdir()} == {"kept.onnx", "a_ctx_fake.bin"}
    np.testing.assert_allclose(run(state_of(kept, FakeCompiler()), X)[0], EXPECTED, rtol=1e-5)


def test_a_binary_that_is_the_same_is_kept(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "o" / "a_ctx.onnx"
    for _ in range(2):
        target.unlink(missing_ok=True)
        state_of(model, FakeCompiler(), ep_context_enable="1", ep_context_file_path=str(target))
        np.testing.assert_allclose(run(state_of(target, FakeCompiler()), X)[0], EXPECTED, rtol=1e-5)


def test_a_foreign_file_in_the_binarys_place_is_found_before_anything_is_compiled(
    model: Path,
) -> None:
    model.with_name("net_fake.bin").write_bytes(b"holiday pictures")
    provider = FakeCompiler()
    with pytest.raises(EpContextWriteError, match=r"net_fake\.bin.*exists already"):
        state_of(model, provider, ep_context_enable="1")
    assert provider.compiled == []
    assert model.with_name("net_fake.bin").read_bytes() == b"holiday pictures"


@pytest.mark.requirement("E16")
def test_the_prefix_stands_in_node_and_partition_names(model: Path) -> None:
    state_of(model, FakeCompiler(), ep_context_enable="1", ep_context_node_name_prefix="left_")
    for node in contexts_in(model.parent / "net_ctx.onnx"):
        assert node.name.startswith("left_")
        assert attributes_of(node)["partition_name"] == node.name.encode()
    names = open_context_file(model.parent / "net_fake.bin", ep_name=NAME).names
    assert all(name.startswith("left_") for name in names)


def test_an_existing_context_model_is_never_written_over(model: Path) -> None:
    state_of(model, FakeCompiler(), ep_context_enable="1")
    before = (model.parent / "net_ctx.onnx").read_bytes()
    with pytest.raises(SessionError, match="exists already"):
        state_of(model, FakeCompiler(), ep_context_enable="1")
    assert (model.parent / "net_ctx.onnx").read_bytes() == before


def test_no_partition_means_no_file_and_a_word_about_it(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state_of(model, FakeCompiler(operators=()), ep_context_enable="1")
    assert [path.name for path in model.parent.iterdir()] == ["net.onnx"]
    assert "no context model is written" in caplog.text


@pytest.mark.requirement("E21")
def test_nodes_live_until_the_provider_ends(model: Path) -> None:
    provider = FakeCompiler()
    state_of(model, provider, ep_context_enable="1").close()
    assert len(provider.get_ep_context_nodes()) == 2


def test_a_provider_that_makes_a_node_too_few_is_named(model: Path) -> None:
    class Forgetful(FakeCompiler):
        def get_ep_context_nodes(self) -> list[Node]:
            return super().get_ep_context_nodes()[:1]

    with pytest.raises(EpContextError, match="made no EPContext node of that name"):
        state_of(model, Forgetful(), ep_context_enable="1")


def test_a_provider_that_gives_another_operator_is_named(model: Path) -> None:
    class Wrong(FakeCompiler):
        def get_ep_context_nodes(self) -> list[Node]:
            return [Graph("g").add_node("Exp", ["a"], ["b"], name="n")]

    with pytest.raises(EpContextError, match=r"must be com\.microsoft:EPContext"):
        state_of(model, Wrong(), ep_context_enable="1")


def test_the_checker_of_onnx_takes_the_context_model(model: Path) -> None:
    state_of(model, FakeCompiler(), ep_context_enable="1")
    onnx.checker.check_model(onnx.load(model.parent / "net_ctx.onnx"))
    assert "EPContext" not in TEXT


@pytest.mark.requirement("E25")
def test_partitions_of_sub_graphs_lie_in_the_same_binary(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (bool c, float[2] x) => (float[2] y)
    {
        e = Exp(x)
        y = If(c) <then_branch = t () => (float[2] p) { p = Exp(e) }, else_branch = f () => (float[2] q) { q = MatMul(e, w) }>
    }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(2, dtype=np.float32), "w"))
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    state_of(path, FakeCompiler(), ep_context_enable="1")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "net.onnx",
        "net_ctx.onnx",
        "net_fake.bin",
    ]
    assert len(open_context_file(tmp_path / "net_fake.bin", ep_name=NAME).names) == 3
    provider = FakeCompiler()
    state = state_of(tmp_path / "net_ctx.onnx", provider)
    x = np.array([1, 2], np.float32)
    np.testing.assert_allclose(run(state, np.array(True), x)[0], np.exp(np.exp(x)), rtol=1e-5)
    np.testing.assert_allclose(run(state, np.array(False), x)[0], np.exp(x), rtol=1e-5)
    assert provider.compiled == []


def test_an_existing_context_model_is_found_before_anything_is_compiled(model: Path) -> None:
    state_of(model, FakeCompiler(), ep_context_enable="1")
    provider = FakeCompiler()
    with pytest.raises(SessionError, match="exists already"):
        state_of(model, provider, ep_context_enable="1")
    assert provider.compiled == []


@pytest.mark.requirement("E25")
def test_the_needed_files_can_be_listed_from_the_main_nodes(model: Path) -> None:
    left = FakeCompiler(operators=("MatMul",), name="LeftExecutionProvider")
    right = FakeCompiler(operators=("Exp",), name="RightExecutionProvider")
    state_of(model, left, right, ep_context_enable="1")
    contexts = map(
        ep_context_attributes, ep_context_nodes(load_model(model.parent / "net_ctx.onnx").graph)
    )
    needed = {context.context_path for context in contexts if context.main_context}
    assert (
        needed
        == {"net_left.bin", "net_right.bin"}
        == {path.name for path in model.parent.glob("*.bin")}
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("shared", ["0", "1"])
def test_a_binary_that_cannot_be_written_is_no_invalid_graph(
    model: Path, number: int, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    options = {"ep_share_ep_contexts": shared, "ep_stop_share_ep_contexts": shared}
    with pytest.raises(
        EpContextWriteError, match=rf"net_fake\.bin.*{os.strerror(number)}"
    ) as caught:
        state_of(model, FakeCompiler(), ep_context_enable="1", **options)
    assert (caught.value.code, caught.value.exit_code) == (StatusCode.EP_FAIL, ExitCode.BACKEND)
    assert [path.name for path in model.parent.iterdir()] == [model.name]
