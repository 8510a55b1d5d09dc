"""OpenVINO and onnxruntime as compilers: which sub-graphs they take, and contexts of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.foundations.errors import CompileError, EpContextError, KernelNotFoundError, StatusCode
from ortpkg.graph.graph import Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType
from ortpkg.runtime.ep_context.ep_context_file import open_context_file
from ortpkg.runtime.ep_context.ep_context_workspace import shared_workspace
from ortpkg.runtime.ep_context.mapped_context import map_context
from ortpkg.runtime.providers import first_load
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.ep_registry import find_factory
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    NodeComputeInfo,
)
from ortpkg.runtime.providers.isolated_model import IsolatedLibrary
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.session_state import create_session_state
from tests.ep_context.conftest import EXPECTED, X
from tests.ep_context.fake_compiler import FakeCompiler, run, state_of

OPENVINO, BRIDGE = "openvino", "onnxruntime"
BACKENDS = [OPENVINO, BRIDGE]

#: Has an operator, ArrayFeatureExtractor, that OpenVINO lacks, between two that it has.
MIXED = """
<ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
g (float[2, 3] x) => (float[2, 2] y, float[2, 3] e)
<int64[2] columns = {0, 2}>
{
    e = Exp(x)
    f = ai.onnx.ml.ArrayFeatureExtractor(e, columns)
    y = Neg(f)
}"""
BRANCHES = """
<ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
g (bool c, float[2, 3] x, int64[2] columns) => (float[2, 2] y) {
    e = Exp(x)
    y = If(c) <
        then_branch = t () => (float[2, 2] a) {
            n = Neg(e)
            m = Mul(n, x)
            a = ai.onnx.ml.ArrayFeatureExtractor(m, columns)
        },
        else_branch = f () => (float[2, 2] b) {
            g = ai.onnx.ml.ArrayFeatureExtractor(e, columns)
            b = Abs(g)
        }
    >
}"""
STRINGS = """
<ir_version: 10, opset_import: ["" : 17]>
g (float[2, 3] x, string[N] s) => (float[2, 3] y, string[N] t) { a = Exp(x) y = Neg(a) t = Identity(s) }"""


def provider(backend: str, **options: str) -> ExecutionProvider:
    pytest.importorskip(backend)
    name = OPENVINO_EP if backend == OPENVINO else CPU_EP
    return find_factory(name, backend=backend).create([], options)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    for name in (OPENVINO_EP, CPU_EP):
        shared_workspace(name).abandon()
        shared_workspace(name).clear()


@pytest.fixture
def openvino_context(model: Path) -> Path:
    """A context model of OpenVINO with its blob beside it, its source gone."""
    state_of(model, provider(OPENVINO), ep_context_enable="1").close()
    model.unlink()
    return model.parent / "net_ctx.onnx"


def save(text: str, path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(text), path)
    return path


# --- claims ---------------------------------------------------------------------------------------


@pytest.mark.requirement("P06", "P08")
def test_an_operator_that_the_library_lacks_is_left_and_the_rest_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = state_of(save(MIXED, tmp_path / "mixed.onnx"), provider(OPENVINO))
    assert [(each.provider, each.op_types) for each in state.partitions] == [
        (OPENVINO_EP, ("Exp",)),
        (OPENVINO_EP, ("Neg",)),
        (CPU_EP, ("ArrayFeatureExtractor",)),
    ]
    y, e = run(state, X)
    np.testing.assert_allclose(e, np.exp(X), rtol=1e-5)
    np.testing.assert_allclose(y, -np.exp(X)[:, [0, 2]], rtol=1e-5)
    assert "its library lacks ai.onnx.ml:ArrayFeatureExtractor" in caplog.text


def test_an_operator_that_openvino_names_with_its_version_is_left_without_trying_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says "Det-17"."""
    pytest.importorskip(OPENVINO)
    from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary

    text = """<ir_version: 10, opset_import: ["" : 17]> g (float[3, 3] x) => (float[3, 3] y, float d) {
        e = Exp(x) n = Neg(e) a = Abs(n) s = Sin(a) d = Det(e) y = Sqrt(s)
    }"""
    compile_model = OpenVinoLibrary.compile_model
    compiled: list[str] = []

    def counted(*arguments: Any) -> Any:
        compiled.append("")
        return compile_model(*arguments)

    monkeypatch.setattr(OpenVinoLibrary, "compile_model", counted)
    state = state_of(save(text, tmp_path / "det.onnx"), provider(OPENVINO))
    left = [each.op_types for each in state.partitions if not each.fused_node]
    assert (left, len(compiled)) == ([("Det",)], 2)


def test_branches_of_a_node_that_the_library_refuses_are_taken_in_parts(tmp_path: Path) -> None:
    state = state_of(save(BRANCHES, tmp_path / "branches.onnx"), provider(OPENVINO))
    taken = {
        (each.graph_path.rpartition(".")[2], each.op_types)
        for each in state.partitions
        if each.fused_node
    }
    assert taken == {("", ("Exp",)), ("then_branch", ("Neg", "Mul")), ("else_branch", ("Abs",))}
    columns = np.array([0, 2])
    (y,) = run(state, np.array(True), X, columns)
    np.testing.assert_allclose(y, (-np.exp(X) * X)[:, columns], rtol=1e-5)
    (y,) = run(state, np.array(False), X, columns)
    np.testing.assert_allclose(y, np.exp(X)[:, columns], rtol=1e-5)


def test_values_that_cannot_cross_the_border_leave_their_nodes_out(tmp_path: Path) -> None:
    state = state_of(save(STRINGS, tmp_path / "strings.onnx"), provider(OPENVINO))
    assert [(each.provider, each.op_types) for each in state.partitions] == [
        (OPENVINO_EP, ("Exp", "Neg")),
        (CPU_EP, ("Identity",)),
    ]
    texts = np.array(["a"], dtype=object)
    y, t = run(state, X, texts)
    np.testing.assert_allclose(y, -np.exp(X), rtol=1e-5)
    assert t.tolist() == ["a"]


CASTS = """
<ir_version: 10, opset_import: ["" : 17]>
g (float[2, 3] x) => (float[2, 3] y)
{ e = Exp(x) r = Round(e) t = Cast <to = 8> (r) f = Cast <to = 1> (t) y = Neg(f) }"""


def test_only_the_nodes_around_a_value_that_the_library_cannot_have_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = state_of(save(CASTS, tmp_path / "casts.onnx"), provider(OPENVINO))
    assert {(each.provider, each.op_types) for each in state.partitions} == {
        (OPENVINO_EP, ("Exp", "Round")),
        (CPU_EP, ("Cast", "Cast")),
        (OPENVINO_EP, ("Neg",)),
    }
    assert "leaves nodes to other execution providers" in caplog.text
    np.testing.assert_allclose(run(state, X)[0], -np.round(np.exp(X)), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_that_the_library_takes_stays_one_partition_and_is_compiled_once(
    model: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = provider(backend)
    library = chosen._library  # type: ignore[attr-defined]
    calls: list[object] = []
    compile_model = library.compile_model

    def counted(made: Any) -> Any:
        calls.append(made)
        return compile_model(made)

    monkeypatch.setattr(library, "compile_model", counted)
    state = state_of(model, chosen)
    assert [len(each.node_names) for each in state.partitions] == [5]
    assert len(calls) == 1
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)


def test_a_node_that_fails_alone_is_left_where_the_library_names_no_operator(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = provider(OPENVINO)
    library = chosen._library  # type: ignore[attr-defined]
    compile_model = library.compile_model

    def refuses_neg(made: Any) -> Any:
        if any(node.op_type == "Neg" for node in onnx.load_from_string(made.data).graph.node):
            raise RuntimeError("something about nothing")
        return compile_model(made)

    monkeypatch.setattr(library, "compile_model", refuses_neg)
    state = state_of(model, chosen)
    assert {(each.provider, each.op_types) for each in state.partitions} == {
        (OPENVINO_EP, ("MatMul", "Exp")),
        (OPENVINO_EP, ("Add", "Exp")),
        (CPU_EP, ("Neg",)),
    }
    assert "something about nothing" in caplog.text
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)


def test_a_library_that_refuses_everything_leaves_the_model_to_the_cpu(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = provider(OPENVINO)

    def refuse(_model: object) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(chosen._library, "compile_model", refuse)  # type: ignore[attr-defined]
    state = state_of(model, chosen)
    assert {each.provider for each in state.partitions} == {CPU_EP}
    assert (
        "(openvino) takes no node: OpenVINOExecutionProvider cannot compile the model: 'out of"
        " order'" in caplog.text
    )
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)


BRANCHES_OF_TEXT = """
<ir_version: 10, opset_import: ["" : 17]>
g (bool c, float[2, 3] x) => (float[2, 3] y)
{
    e = Exp(x)
    y = If(c) <
        then_branch = t () => (float[2, 3] p) { t = Cast <to = 8> (e) p = Cast <to = 1> (t) },
        else_branch = f () => (float[2, 3] q) { q = Neg(e) }
    >
}"""


def test_a_node_with_such_values_inside_is_left_out_and_its_branches_are_taken_in_parts(
    tmp_path: Path,
) -> None:
    state = state_of(save(BRANCHES_OF_TEXT, tmp_path / "branches.onnx"), provider(OPENVINO))
    taken = {
        (each.graph_path.rpartition(".")[2], each.op_types)
        for each in state.partitions
        if each.fused_node
    }
    assert taken == {("", ("Exp",)), ("else_branch", ("Neg",))}
    np.testing.assert_allclose(run(state, np.array(True), X)[0], np.exp(X), rtol=1e-5)


# --- contexts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("embed", ["0", "1"])
@pytest.mark.requirement("E05", "E15", "E29", "E31", "E36", "E37")
def test_a_context_runs_without_its_source_and_compiles_nothing(
    model: Path, tmp_path: Path, backend: str, embed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_of(model, provider(backend), ep_context_enable="1", ep_context_embed_mode=embed).close()
    model.unlink()
    moved = tmp_path / "moved"
    model.parent.rename(moved)
    names = {path.name for path in moved.iterdir()}
    assert names == {"net_ctx.onnx"} | (
        {f"net_{'openvino' if backend == OPENVINO else 'cpu'}.bin"} if embed == "0" else set()
    )
    chosen = provider(backend)
    monkeypatch.setattr(chosen._library, "compile_model", None)  # type: ignore[attr-defined]
    for _ in range(2):  # through a child first, then directly
        np.testing.assert_allclose(
            run(state_of(moved / "net_ctx.onnx", chosen), X)[0], EXPECTED, rtol=1e-5
        )


@pytest.mark.requirement("E14", "E38")
def test_from_memory_with_the_path(openvino_context: Path) -> None:
    data = openvino_context.read_bytes()
    with pytest.raises(EpContextError, match=r"set ep\.context_file_path"):
        state_of(data, provider(OPENVINO))
    state = state_of(data, provider(OPENVINO), ep_context_file_path=str(openvino_context))
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)
    with pytest.raises(EpContextError, match="cannot be read"):
        state_of(
            data,
            provider(OPENVINO),
            ep_context_file_path=str(openvino_context.parents[1] / "net_ctx.onnx"),
        )


@pytest.mark.requirement("E25", "E39")
def test_partitions_of_a_mixed_model_share_one_binary_and_the_plain_nodes_run_on_the_cpu(
    tmp_path: Path,
) -> None:
    path = save(MIXED, tmp_path / "mixed.onnx")
    state_of(path, provider(OPENVINO), ep_context_enable="1").close()
    names = open_context_file(tmp_path / "mixed_openvino.bin", ep_name=OPENVINO_EP).names
    assert len(names) == 2
    state = state_of(tmp_path / "mixed_ctx.onnx", provider(OPENVINO))
    assert sorted(each.provider for each in state.partitions) == [CPU_EP, OPENVINO_EP, OPENVINO_EP]
    np.testing.assert_allclose(run(state, X)[0], -np.exp(X)[:, [0, 2]], rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_node_that_is_no_main_one_has_its_context_from_the_main_one(
    model: Path, backend: str
) -> None:
    state_of(model, provider(backend), ep_context_enable="1").close()
    proto = onnx.load(model.parent / "net_ctx.onnx")
    (node,) = proto.graph.node
    again = onnx.NodeProto()
    again.CopyFrom(node)
    again.output[0], again.name = "again", "again"
    kept = [
        each for each in again.attribute if each.name not in ("main_context", "ep_cache_context")
    ]
    del again.attribute[:]
    again.attribute.extend([*kept, onnx.helper.make_attribute("main_context", 0)])
    proto.graph.node.append(again)
    output = proto.graph.output.add()
    output.CopyFrom(proto.graph.output[0])
    output.name = "again"
    onnx.save(proto, model.parent / "twice.onnx")
    for found in run(state_of(model.parent / "twice.onnx", provider(backend)), X):
        np.testing.assert_allclose(found, EXPECTED, rtol=1e-5)


@pytest.mark.requirement("E10", "E41")
def test_contexts_of_two_compilers_in_one_model_run_on_both(model: Path) -> None:
    left = FakeCompiler(operators=("MatMul",), name="LeftExecutionProvider")
    state_of(model, left, provider(OPENVINO), ep_context_enable="1").close()
    assert {path.name for path in model.parent.iterdir()} == {
        "net.onnx",
        "net_ctx.onnx",
        "net_left.bin",
        "net_openvino.bin",
    }
    left = FakeCompiler(name="LeftExecutionProvider")
    state = state_of(model.parent / "net_ctx.onnx", left, provider(OPENVINO))
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)
    assert sorted(each.provider for each in state.partitions) == [
        "LeftExecutionProvider",
        OPENVINO_EP,
    ]


@pytest.mark.requirement("E10", "E35")
def test_a_node_that_nobody_takes_names_its_source_and_who_was_asked(
    openvino_context: Path,
) -> None:
    with pytest.raises(
        KernelNotFoundError,
        match=(
            r"holds what 'OpenVINOExecutionProvider' compiled, and no execution provider of this"
            r" session takes it; "
            r"asked: CPUExecutionProvider \(onnxruntime\), CPUExecutionProvider \(embedded\)"
        ),
    ):
        state_of(openvino_context, provider(BRIDGE))


@pytest.mark.requirement("E10")
def test_a_node_of_another_backends_provider_of_the_same_name_names_that_backend(
    model: Path,
) -> None:
    state_of(model, provider(BRIDGE), ep_context_enable="1").close()
    with pytest.raises(
        KernelNotFoundError,
        match=(
            r"holds what 'CPUExecutionProvider' compiled, and that of this session, of backend"
            r" 'embedded', takes no "
            r"contexts: its maker is that of backend 'onnxruntime'; asked: CPUExecutionProvider$"
        ),
    ):
        state_of(model.parent / "net_ctx.onnx")


@pytest.mark.requirement("E28")
def test_a_context_runs_with_renamed_repeated_and_constant_inputs(tmp_path: Path) -> None:
    path = save(
        '<ir_version: 10, opset_import: ["" : 17]> g (float[2] a, float[2] b, float[2] c) =>'
        " (float[2] y, float[2] z) { s = Sub(a, b) y = Mul(s, c) z = Exp(s) }",
        tmp_path / "three.onnx",
    )
    state_of(path, provider(OPENVINO), ep_context_enable="1").close()
    proto = onnx.load(tmp_path / "three_ctx.onnx")
    (node,) = proto.graph.node
    node.input[:] = ["p", "q", "p"]
    node.output[:] = ["unused", "out"]
    proto.graph.ClearField("input")
    proto.graph.ClearField("output")
    proto.graph.input.append(onnx.helper.make_tensor_value_info("p", 1, [2]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("out", 1, [2]))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "q"))
    onnx.save(proto, tmp_path / "renamed.onnx")
    p = np.array([3, 5], np.float32)
    (out,) = run(state_of(tmp_path / "renamed.onnx", provider(OPENVINO)), p)
    np.testing.assert_allclose(out, np.exp(p - [1, 2]), rtol=1e-5)


# --- stale, damaged, dangerous --------------------------------------------------------------------


@pytest.mark.requirement("E40")
def test_another_version_of_openvino_makes_its_contexts_stale(
    openvino_context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openvino.get_version", lambda: "2099.1.0-1-abc")
    with pytest.raises(
        EpContextError, match=r"its SDK version was '20.*', here it is '2099\.1\.0-1-abc'"
    ) as caught:
        state_of(openvino_context, provider(OPENVINO))
    assert caught.value.code is StatusCode.INVALID_GRAPH


@pytest.mark.requirement("E40")
def test_a_patch_of_onnxruntime_takes_contexts_and_another_minor_version_does_not(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    state_of(model, provider(BRIDGE), ep_context_enable="1").close()
    major, minor = onnxruntime.__version__.split(".")[:2]
    monkeypatch.setattr(onnxruntime, "__version__", f"{major}.{minor}.99")
    state_of(model.parent / "net_ctx.onnx", provider(BRIDGE)).close()
    monkeypatch.setattr(onnxruntime, "__version__", f"{major}.{int(minor) + 1}.0")
    with pytest.raises(EpContextError, match="its SDK version was"):
        state_of(model.parent / "net_ctx.onnx", provider(BRIDGE))


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("options", "is_stale"),
    [
        ({"precision": "ACCURACY"}, True),
        ({"num_streams": "2"}, True),
        ({"precision": "FP32"}, False),
        ({"num_of_threads": "1"}, False),
        ({"cache_dir": "ov_cache"}, False),
    ],
)
def test_only_options_that_change_what_is_compiled_make_a_context_stale(
    openvino_context: Path, options: dict[str, str], is_stale: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(openvino_context.parent)
    if is_stale:
        with pytest.raises(EpContextError, match="its provider options were"):
            state_of(openvino_context, provider(OPENVINO, **options))
    else:
        state_of(openvino_context, provider(OPENVINO, **options)).close()


@pytest.mark.requirement("E40")
def test_weights_that_differ_are_told_apart_by_the_descriptor(model: Path) -> None:
    state_of(model, provider(OPENVINO), ep_context_enable="1").close()
    proto = onnx.load(model)
    changed = onnx.numpy_helper.to_array(proto.graph.initializer[0]).copy()
    changed[0, 0] += 1
    proto.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(changed, proto.graph.initializer[0].name)
    )
    other = model.with_name("other.onnx")
    onnx.save(proto, other)
    state_of(other, provider(OPENVINO), ep_context_enable="1").close()
    files = [
        open_context_file(model.with_name(f"{name}_openvino.bin"), ep_name=OPENVINO_EP)
        for name in ("net", "other")
    ]
    first, second = (file.descriptor(file.names[0]) for file in files)
    assert first.weights_digest != second.weights_digest
    assert first.graph_digest == second.graph_digest


def _truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


def _bare(_data: bytes) -> bytes:
    return b"\x00" * 8192


@pytest.mark.requirement("E40")
@pytest.mark.parametrize("damage", [_truncated, _flipped, _bare])
def test_damaged_and_foreign_binaries_never_reach_the_library(
    openvino_context: Path, damage: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = openvino_context.parent / "net_openvino.bin"
    binary.write_bytes(damage(binary.read_bytes()))
    chosen = provider(OPENVINO)
    monkeypatch.setattr(chosen._library, "import_model", None)  # type: ignore[attr-defined]
    with pytest.raises(EpContextError) as caught:
        state_of(openvino_context, chosen)
    assert caught.value.code is StatusCode.INVALID_GRAPH


@pytest.mark.requirement("E40")
def test_a_blob_that_the_library_refuses_is_an_invalid_graph(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = provider(OPENVINO)
    library = chosen._library  # type: ignore[attr-defined]
    export = library.export_model
    monkeypatch.setattr(
        library, "export_model", lambda *args: {**export(*args), "blob": b"no blob at all" * 100}
    )
    state_of(model, chosen, ep_context_enable="1").close()
    with pytest.raises(EpContextError, match="cannot load the context of partition") as caught:
        state_of(model.parent / "net_ctx.onnx", provider(OPENVINO))
    assert caught.value.code is StatusCode.INVALID_GRAPH


def test_a_library_that_cannot_keep_a_model_is_told_without_its_own_codes(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = provider(OPENVINO)

    def refuse(*_: object) -> None:
        raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Unable to compile any nodes.")

    monkeypatch.setattr(chosen._library, "export_model", refuse)  # type: ignore[attr-defined]
    said = "OpenVINOExecutionProvider cannot compile the model: 'Unable to compile any nodes.'"
    with pytest.raises(CompileError, match=f"^{re.escape(said)}$"):
        state_of(model, chosen, ep_context_enable="1")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("abort", "in the child process that tried first: it was ended by SIGABRT"),
        ("hang", "in the child process that tried first: it did not end within 3 s"),
        ("exit", "in the child process that tried first: it ended with status 0"),
        ("raise", "in the child process that tried first: 'driver is in a mood'"),
    ],
)
def test_a_blob_that_ends_its_library_ends_a_child_only(
    openvino_context: Path, fault: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ortpkg.runtime.providers.isolated_model._FUNCTION",
        "tests.ep_context.faulty_backend:open_backend",
    )
    monkeypatch.setattr(first_load, "FIRST_LOAD_TIMEOUT_S", 3.0)
    monkeypatch.setenv("FAULTY_BACKEND", fault)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with pytest.raises(EpContextError, match=message) as caught:
        state_of(openvino_context, provider(OPENVINO))
    assert caught.value.code is StatusCode.INVALID_GRAPH


def test_the_child_is_asked_once_for_each_context(
    openvino_context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_of(openvino_context, provider(OPENVINO)).close()
    monkeypatch.setattr(first_load, "backend_worker", None)
    state = state_of(openvino_context, provider(OPENVINO))
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)


@pytest.mark.requirement("E26", "E47", "E50", "E52", "E53")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_group_makes_one_binary_and_the_second_session_reads_no_file(
    model: Path, backend: str
) -> None:
    other = model.with_name("other.onnx")
    shutil.copy(model, other)
    shared = {"ep_context_enable": "1", "ep_share_ep_contexts": "1"}
    state_of(model, provider(backend), **shared).close()
    state_of(other, provider(backend), **shared, ep_stop_share_ep_contexts="1").close()
    made = {path.name for path in model.parent.iterdir()} - {"net.onnx", "other.onnx"}
    binary = f"net_{'openvino' if backend == OPENVINO else 'cpu'}.bin"
    assert made == {"net_ctx.onnx", "other_ctx.onnx", binary}
    first = state_of(model.parent / "net_ctx.onnx", provider(backend), ep_share_ep_contexts="1")
    (model.parent / binary).unlink()
    second = state_of(model.parent / "other_ctx.onnx", provider(backend), ep_share_ep_contexts="1")
    first.close()
    np.testing.assert_allclose(run(second, X)[0], EXPECTED, rtol=1e-5)


# --- contexts that onnxruntime itself has made ----------------------------------------------------

_FOREIGN = """
<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[2, 3] x) => (float[2, 3] y) {{
    a = com.microsoft.EPContext <embed_mode = 0, source = "{source}", ep_cache_context = "{path}">(x)
    y = Exp(a)
}}"""


class _OrtSession:
    """Stands for onnxruntime's session on a provider that knows its own contexts."""

    made: ClassVar[list[tuple[onnx.ModelProto, Any]]] = []

    def __init__(self, data: bytes, options: Any, providers: object) -> None:
        del providers
        self.made.append((onnx.load_from_string(data), options))

    def run(self, _outputs: object, feeds: dict[str, Any], _options: object) -> list[Any]:
        return list(feeds.values())


def _foreign_model(folder: Path, path: str = "qnn.bin") -> Path:
    (folder / "qnn.bin").write_bytes(b"a context of another kind")
    return save(_FOREIGN.format(source="QNN", path=path), folder / "foreign.onnx")


@pytest.mark.requirement("E10", "E36")
def test_a_model_with_contexts_of_onnxruntimes_own_passes_through_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["QNNExecutionProvider", CPU_EP]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", _OrtSession)
    monkeypatch.setattr(first_load, "_load", lambda *_: "")
    _OrtSession.made.clear()
    path = _foreign_model(tmp_path)
    state = state_of(path, find_factory("QNNExecutionProvider", backend=BRIDGE).create([], {}))
    (given, options), *_ = _OrtSession.made
    assert [node.op_type for node in given.graph.node] == ["EPContext", "Exp"]
    assert options.get_session_config_entry("ep.context_file_path") == str(path)
    assert [each.op_types for each in state.partitions] == [("EPContext", "Exp")]
    np.testing.assert_array_equal(run(state, X)[0], X)


@pytest.mark.parametrize(
    "content", [b"", b"A context", b"a context"], ids=["empty", "before ours", "after ours"]
)
def test_a_judged_context_is_onnxruntimes_whatever_it_begins_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["QNNExecutionProvider", CPU_EP]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", _OrtSession)
    monkeypatch.setattr(first_load, "_load", lambda *_: "")
    path, file = _foreign_model(tmp_path), tmp_path / "qnn.bin"
    file.write_bytes(content)
    chosen = find_factory("QNNExecutionProvider", backend=BRIDGE).create([], {})
    state = create_session_state(
        load_model(path), SessionOptions(), [chosen], judged_contexts={file: map_context(file)}
    )
    assert [each.op_types for each in state.partitions] == [("EPContext", "Exp")]


def test_a_context_that_crashes_onnxruntime_crashes_a_child_process_and_not_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["QNNExecutionProvider", CPU_EP]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", None)
    asked = []

    def crash(entry: Any, *_: Any) -> str:
        asked.append(dict(entry.digests))
        return "it was ended by SIGSEGV"

    monkeypatch.setattr(first_load, "_load", crash)
    path = _foreign_model(tmp_path)
    for content in (b"a context of another kind", b"a changed one"):
        (tmp_path / "qnn.bin").write_bytes(content)
        with pytest.raises(
            EpContextError, match="in the child process that tried first: it was ended by SIGSEGV"
        ):
            state_of(path, find_factory("QNNExecutionProvider", backend=BRIDGE).create([], {}))
    assert asked[0] != asked[1], "what was tried is known by the content of its files"


def test_a_foreign_context_that_onnxruntime_fails_to_load_is_an_invalid_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")

    class Refusing:
        def __init__(self, *_arguments: object, **_keywords: object) -> None:
            raise RuntimeError("Failed to create context from binary")

    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["QNNExecutionProvider", CPU_EP]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", Refusing)
    # it went well in a child process, once
    monkeypatch.setattr(first_load, "_load", lambda *_arguments: "")
    chosen = find_factory("QNNExecutionProvider", backend=BRIDGE).create([], {})
    with pytest.raises(
        EpContextError, match=r"cannot load the contexts of the model.*Failed to create"
    ) as caught:
        state_of(_foreign_model(tmp_path), chosen)
    assert caught.value.code is StatusCode.INVALID_GRAPH


@pytest.mark.parametrize("location", ["../qnn.bin", "/etc/passwd"])
def test_a_foreign_context_outside_of_the_folder_is_not_handed_on(
    tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["QNNExecutionProvider", CPU_EP]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", None)
    chosen = find_factory("QNNExecutionProvider", backend=BRIDGE).create([], {})
    with pytest.raises(EpContextError, match="leaves the model's folder"):
        state_of(_foreign_model(tmp_path, location), chosen)


# --- providers that do not do what they should ----------------------------------------------------


def test_a_wrong_number_of_compute_functions_fails_the_session(model: Path) -> None:
    class Short(FakeCompiler):
        def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
            return super().compile(fused_nodes)[:-1]

    with pytest.raises(CompileError, match="returned 1 compute functions for 2 fused nodes"):
        state_of(model, Short())


@pytest.mark.parametrize("nothing", [None, 5])
def test_a_compiler_that_returns_nothing_fails_the_session(model: Path, nothing: Any) -> None:
    class Empty(FakeCompiler):
        def compile_partition(self, fused: FusedNode) -> CompiledPartition:
            del fused
            return nothing  # type: ignore[no-any-return]

    with pytest.raises(
        CompileError, match=r"compile_partition returned (NoneType|int), which has no compute"
    ):
        state_of(model, Empty())


def test_a_node_that_is_claimed_twice_goes_to_the_first_claim_and_the_log_says_so(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Greedy(FakeCompiler):
        def get_capability(
            self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
        ) -> list[ComputeCapability]:
            claims = super().get_capability(viewer, types_of)
            return [*claims, *claims]

    state = state_of(model, Greedy())
    assert sorted(name for each in state.partitions for name in each.op_types) == [
        "Add",
        "Exp",
        "Exp",
        "MatMul",
        "Neg",
    ]
    assert f"{Greedy().name} claims node" in caplog.text
    assert "twice in one answer" in caplog.text
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)


def test_a_compiler_that_raises_fails_the_session_with_its_words(model: Path) -> None:
    class Broken(FakeCompiler):
        def compile_partition(self, fused: FusedNode) -> CompiledPartition:
            raise RuntimeError(f"no tiling for {fused.node.op_type}")

    with pytest.raises(CompileError, match=r"cannot compile partition .*no tiling for"):
        state_of(model, Broken())


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_isolated_library_makes_and_loads_contexts_in_its_child(
    model: Path, backend: str
) -> None:
    pytest.importorskip(backend)
    name = OPENVINO_EP if backend == OPENVINO else CPU_EP

    def isolated() -> ExecutionProvider:
        return NativeExecutionProvider(name, IsolatedLibrary(name, backend=backend))

    maker = isolated()
    state_of(model, maker, ep_context_enable="1").close()
    maker.close()
    model.unlink()
    loader = isolated()
    state = state_of(model.parent / "net_ctx.onnx", loader)
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)
    state.close()
    loader.close()
