"""Context models of models with EPContext nodes: contexts move along, nothing is left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.runtime.ep_context.ep_context_file import open_context_file
from ortpkg.runtime.ep_context.ep_context_workspace import shared_workspace
from tests.ep_context.conftest import EXPECTED, B, X
from tests.ep_context.fake_compiler import NAME, FakeCompiler, run, state_of


def made_elsewhere(source: Path, target: Path, provider: FakeCompiler, **entries: str) -> None:
    """Generates from ``source`` into another folder, and takes the source's away."""
    state = state_of(
        source, provider, ep_context_enable="1", ep_context_file_path=str(target), **entries
    )
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)
    shutil.rmtree(source.parent)


@pytest.mark.requirement("E25", "E27", "E29", "E55")
@pytest.mark.parametrize("source_embeds", ["0", "1"])
@pytest.mark.parametrize("embeds", ["0", "1"])
@pytest.mark.parametrize("operators", [("Exp", "MatMul"), ("MatMul",)])
def test_contexts_are_carried_into_files_that_stand_alone(
    model: Path, tmp_path: Path, source_embeds: str, embeds: str, operators: tuple[str, ...]
) -> None:
    state_of(
        model, FakeCompiler(operators), ep_context_enable="1", ep_context_embed_mode=source_embeds
    )
    target = tmp_path / "out" / "made.onnx"
    second = FakeCompiler()
    made_elsewhere(model.with_name("net_ctx.onnx"), target, second, ep_context_embed_mode=embeds)
    # plain nodes are compiled, contexts are not
    assert len(second.compiled) == (0 if "Exp" in operators else 2)
    expected = {"made.onnx"} if embeds == "1" else {"made.onnx", "made_fake.bin"}
    assert {path.name for path in target.parent.iterdir()} == expected
    provider = FakeCompiler()
    np.testing.assert_allclose(run(state_of(target, provider), X)[0], EXPECTED, rtol=1e-5)
    assert provider.compiled == []
    for node in onnx.load(target).graph.node:
        names = [each.s for each in node.attribute if each.name == "onnx_model_filename"]
        assert names in ([], [b"net.onnx"], [b"net_ctx.onnx"])


def test_contexts_of_two_files_that_have_one_name_stay_two(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "net.onnx"
    other.parent.mkdir()
    proto = onnx.load(model)
    (w,) = (tensor for tensor in proto.graph.initializer if tensor.name == "w")
    w.CopyFrom(onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "w"))
    onnx.save(proto, other)
    for path in (model, other):
        state_of(path, FakeCompiler(), ep_context_enable="1", ep_context_embed_mode="1")
    first, second = (onnx.load(path.with_name("net_ctx.onnx")) for path in (model, other))
    first = onnx.compose.add_prefix(first, "a_", rename_nodes=True)
    second = onnx.compose.add_prefix(second, "b_", rename_nodes=True)
    merged = model.with_name("merged.onnx")
    onnx.save(onnx.compose.merge_models(first, second, io_map=[("a_y", "b_x")]), merged)
    target = tmp_path / "out" / "made.onnx"
    options = {"ep_context_enable": "1", "ep_context_node_name_prefix": "p_"}
    state_of(merged, FakeCompiler(), ep_context_file_path=str(target), **options)
    names = open_context_file(target.parent / "made_fake.bin", ep_name=NAME).names
    assert len(names) == 4
    assert all(name.startswith("p_") for name in names)
    np.testing.assert_allclose(
        run(state_of(target, FakeCompiler()), X)[0], np.exp(-np.exp(EXPECTED) + B), rtol=1e-4
    )


@pytest.mark.requirement("E43", "E48")
def test_a_group_carries_contexts_into_its_binary(model: Path, tmp_path: Path) -> None:
    other = model.with_name("other.onnx")
    shutil.copy(model, other)
    group = {"ep_context_enable": "1", "ep_share_ep_contexts": "1"}
    for path, stop in ((model, "0"), (other, "1")):
        state_of(path, FakeCompiler(), ep_stop_share_ep_contexts=stop, **group)
    out = tmp_path / "out"
    for name, stop in (("net_ctx.onnx", "0"), ("other_ctx.onnx", "1")):
        provider = FakeCompiler()
        options = {
            **group,
            "ep_stop_share_ep_contexts": stop,
            "ep_context_file_path": str(out / name),
        }
        state_of(model.with_name(name), provider, **options)
        assert provider.compiled == []
    assert shared_workspace(NAME).is_empty
    shutil.rmtree(model.parent)
    assert {path.name for path in out.iterdir()} == {
        "net_ctx.onnx",
        "other_ctx.onnx",
        "net_ctx_fake.bin",
    }
    for name in ("net_ctx.onnx", "other_ctx.onnx"):
        np.testing.assert_allclose(
            run(state_of(out / name, FakeCompiler()), X)[0], EXPECTED, rtol=1e-5
        )


def test_a_constant_that_a_context_takes_goes_along(model: Path, tmp_path: Path) -> None:
    state_of(model, FakeCompiler(), ep_context_enable="1")
    context = model.with_name("net_ctx.onnx")
    proto = onnx.load(context)
    del proto.graph.input[:]  # what was an input becomes a constant
    proto.graph.initializer.append(onnx.numpy_helper.from_array(X, "x"))
    onnx.save(proto, context)
    target = tmp_path / "out" / "made.onnx"
    state_of(context, FakeCompiler(), ep_context_enable="1", ep_context_file_path=str(target))
    shutil.rmtree(model.parent)
    np.testing.assert_allclose(run(state_of(target, FakeCompiler()))[0], EXPECTED, rtol=1e-5)
