"""Session groups: one binary for many models, and contexts that one session leaves for another."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.compiler.machine_code.loaded_program import LoadedProgram
from ortpkg.compiler.machine_code.program_parts import load_parts
from ortpkg.compiler.machine_code.thread_team import ThreadTeam
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import (
    EpContextError,
    OrtpkgError,
    SessionError,
    StatusCode,
    TrustRequiredError,
)
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.initializers import MappedInitializer
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.engine import ep_context_model
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part, open_context_file
from ortpkg.runtime.ep_context.ep_context_workspace import EpContextWorkspace, shared_workspace
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.execution_provider import FusedNode
from ortpkg.runtime.providers.llvm import llvm_execution_provider
from ortpkg.runtime.providers.llvm.llvm_execution_provider import LLVMExecutionProvider
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from tests.ep_context.conftest import EXPECTED, X
from tests.ep_context.fake_compiler import NAME, FakeCompiler, run, state_of

GROUP = {"ep_context_enable": "1", "ep_share_ep_contexts": "1"}


@pytest.fixture
def models(model: Path) -> list[Path]:
    others = [model.with_name(f"net{number}.onnx") for number in (2, 3)]
    for other in others:
        shutil.copy(model, other)
    return [model, *others]


def generate(models: list[Path]) -> list[Path]:
    for model in models[:-1]:
        state_of(model, FakeCompiler(), **GROUP)
    state_of(models[-1], FakeCompiler(), ep_stop_share_ep_contexts="1", **GROUP)
    return [model.with_name(f"{model.stem}_ctx.onnx") for model in models]


@pytest.mark.requirement("E44", "E45", "E46", "E47", "E48", "E49", "E50")
def test_n_models_give_n_plus_one_files(models: list[Path]) -> None:
    folder = models[0].parent
    state_of(models[0], FakeCompiler(), **GROUP)
    assert not (folder / "net_fake.bin").exists()
    state_of(models[1], FakeCompiler(), **GROUP)
    state_of(models[2], FakeCompiler(), ep_stop_share_ep_contexts="1", **GROUP)
    made = {path.name for path in folder.iterdir()} - {path.name for path in models}
    assert made == {"net_ctx.onnx", "net2_ctx.onnx", "net3_ctx.onnx", "net_fake.bin"}
    assert len(open_context_file(folder / "net_fake.bin", ep_name=NAME).names) == 6
    assert shared_workspace(NAME).is_empty


@pytest.mark.requirement("E43")
def test_equal_weights_of_the_group_are_stored_once(models: list[Path]) -> None:
    generate(models)
    data = (models[0].parent / "net_fake.bin").read_bytes()
    weights = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 10]], dtype=np.float32).tobytes()
    parts = open_context_file(models[0].parent / "net_fake.bin", ep_name=NAME)
    stored = [
        name
        for name in parts.names
        for part in parts.entry(name).parts
        if part.startswith("weight")
    ]
    assert len(stored) == 3
    aligned = [place for place in range(0, len(data), 4096) if data.startswith(weights, place)]
    assert len(aligned) == 1


@pytest.mark.requirement("E52", "E53", "E54")
@pytest.mark.parametrize("closing", list(itertools.permutations(range(3))))
def test_later_sessions_need_no_file_and_any_order_of_closing_is_safe(
    models: list[Path], closing: tuple[int, ...]
) -> None:
    paths = generate(models)
    states = [state_of(paths[0], FakeCompiler(), ep_share_ep_contexts="1")]
    binary = models[0].parent / "net_fake.bin"
    assert not shared_workspace(NAME).is_empty
    binary.unlink()
    states += [state_of(path, FakeCompiler(), ep_share_ep_contexts="1") for path in paths[1:]]
    assert shared_workspace(NAME).is_empty
    for position, number in enumerate(closing):
        for still_open in closing[position:]:
            np.testing.assert_allclose(run(states[still_open], X)[0], EXPECTED, rtol=1e-5)
        states[number].close()


@pytest.mark.requirement("E53")
def test_what_was_taken_is_no_longer_there(models: list[Path]) -> None:
    paths = generate(models)
    state_of(paths[0], FakeCompiler(), ep_share_ep_contexts="1")
    (models[0].parent / "net_fake.bin").unlink()
    with pytest.raises(EpContextError, match="cannot be read"):
        state_of(paths[0], FakeCompiler(), ep_share_ep_contexts="1")


def test_of_a_binary_only_the_context_that_is_asked_for_is_compared(tmp_path: Path) -> None:
    """An index of a stranger may lead to one large place a hundred thousand times."""
    asked = []

    class Source:
        names = tuple(f"p{number}" for number in range(100_000))

        def entry(self, name: str) -> ContextEntry:
            asked.append(name)
            return ContextEntry(
                name=name,
                descriptor=ContextDescriptor(ep=NAME, sdk_version="", device=""),
                parts={},
            )

    workspace = EpContextWorkspace(NAME)
    for name in ("p7", "p8"):
        assert workspace.take(tmp_path / "net.bin", name, lambda _path: Source()).name == name
    assert asked == ["p7", "p8"]
    assert not workspace.holds(tmp_path / "net.bin", "p7")
    assert workspace.holds(tmp_path / "net.bin", "p9")


@pytest.mark.requirement("E49")
def test_after_the_last_session_the_next_is_a_first_one(models: list[Path], tmp_path: Path) -> None:
    generate(models)
    target = tmp_path / "again" / "net9_ctx.onnx"
    state_of(
        models[1],
        FakeCompiler(),
        ep_stop_share_ep_contexts="1",
        ep_context_file_path=str(target),
        **GROUP,
    )
    assert (target.parent / "net9_ctx_fake.bin").exists()


def test_models_in_different_folders_are_told_to_go_into_one(
    models: list[Path], tmp_path: Path
) -> None:
    state_of(models[0], FakeCompiler(), **GROUP)
    with pytest.raises(EpContextError, match="so that all go into one folder"):
        state_of(
            models[1],
            FakeCompiler(),
            ep_context_file_path=str(tmp_path / "elsewhere" / "net2_ctx.onnx"),
            **GROUP,
        )


def test_two_models_with_partitions_of_one_name_need_a_prefix(
    models: list[Path], tmp_path: Path
) -> None:
    twin = tmp_path / "source" / "twin" / "net.onnx"
    twin.parent.mkdir()
    shutil.copy(models[0], twin)
    state_of(models[0], FakeCompiler(), **GROUP)
    target = str(models[0].with_name("twin_ctx.onnx"))
    with pytest.raises(EpContextError, match="give each a prefix of its own"):
        state_of(twin, FakeCompiler(), ep_context_file_path=target, **GROUP)


@pytest.mark.requirement("E49")
@pytest.mark.parametrize("failing", ["compile", "option", "binary"])
def test_a_failing_session_ends_its_group_and_the_next_group_starts_clean(
    models: list[Path], failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FakeCompiler):
        def compile_partition(self, fused: FusedNode) -> CompiledPartition:
            raise RuntimeError("out of tiles")

    folder = models[0].parent
    external = {"ep_context_model_external_initializers_file_name": "first.data"}
    state_of(models[0], FakeCompiler(), **GROUP, **external)
    options = {**GROUP, "ep_stop_share_ep_contexts": "1"}
    if failing == "option":
        options["ep_context_embed_mode"] = "perhaps"
    if failing == "binary":
        (folder / "net_fake.bin").write_bytes(b"mine")
    with pytest.raises(OrtpkgError):
        state_of(models[1], Broken() if failing == "compile" else FakeCompiler(), **options)
    assert shared_workspace(NAME).is_empty
    assert "session group of FakeExecutionProvider is given up" in caplog.text
    assert "net_ctx.onnx" in caplog.text
    left = {path.name for path in folder.iterdir()} - {path.name for path in models}
    assert left == ({"net_fake.bin"} if failing == "binary" else set())
    paths = generate(models[1:])
    assert (folder / "net2_fake.bin").exists()
    np.testing.assert_allclose(run(state_of(paths[1], FakeCompiler()), X)[0], EXPECTED, rtol=1e-5)


def test_a_model_that_does_not_load_ends_its_group(models: list[Path]) -> None:
    state_of(models[0], FakeCompiler(), **GROUP)
    options = SessionOptions()
    for key in ("ep.context_enable", "ep.share_ep_contexts"):
        options.add_session_config_entry(key, "1")
    with pytest.raises(OrtpkgError, match="nowhere"):
        InferenceSession(models[0].with_name("nowhere.onnx"), options, providers=[NAME])
    assert shared_workspace(NAME).is_empty
    assert not models[0].with_name("net_ctx.onnx").exists()


def _group_options(*, is_last: bool = False) -> SessionOptions:
    options = SessionOptions()
    for key in (
        "ep.context_enable",
        "ep.share_ep_contexts",
        *(["ep.stop_share_ep_contexts"] if is_last else []),
    ):
        options.add_session_config_entry(key, "1")
    return options


def _not_yours(_contexts: Any) -> None:
    raise TrustRequiredError("not yours", what="a context")


@pytest.mark.requirement("E49")
@pytest.mark.parametrize("failing", ["model", "provider", "provider option", "option", "contexts"])
def test_a_session_that_fails_before_its_providers_exist_ends_its_group(
    models: list[Path], tmp_path: Path, failing: str
) -> None:
    workspace = shared_workspace(LLVM_EP)
    workspace.abandon()
    own = tmp_path / "own_ctx.onnx"
    with_context = InferenceSession(models[2], _group_less(own), providers=["llvm"])
    with_context.close()
    InferenceSession(models[0], _group_options(), providers=["llvm"]).close()
    assert models[0].with_name("net_ctx.onnx").exists()
    options = _group_options(is_last=True)
    source: Path = models[1]
    wishes: dict[str, Any] = {"providers": ["llvm"]}
    if failing == "model":
        source = models[0].with_name("nowhere.onnx")
        wishes = {"backend": "llvm"}
    elif failing == "provider":
        wishes = {"providers": ["llvm", "NoSuchExecutionProvider"], "enable_fallback": False}
    elif failing == "provider option":
        wishes = {
            "providers": [("llvm", {}), ("openvino", {"no_such_option": "1"})],
            "enable_fallback": False,
        }
    elif failing == "option":
        options.memory_limit_nbytes = -1
    else:
        source = own
        wishes["check_contexts"] = _not_yours
    with pytest.raises(OrtpkgError):
        InferenceSession(source, options, **wishes)
    assert workspace.is_empty
    assert not models[0].with_name("net_ctx.onnx").exists()
    assert not models[0].with_name("net_llvm.bin").exists()
    InferenceSession(models[1], _group_options(is_last=True), providers=["llvm"]).close()
    assert models[1].with_name("net2_llvm.bin").exists()


def _group_less(path: Path) -> SessionOptions:
    options = SessionOptions()
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(path))
    return options


@pytest.mark.parametrize("has_twin", [False, True])
def test_nothing_stays_of_a_group_whose_last_model_cannot_be_saved(
    models: list[Path],
    has_twin: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = models[0].parent
    if has_twin:  # the very same binary is there already, and others may need it
        generate(models[:2])
        for made in ("net_ctx.onnx", "net2_ctx.onnx"):
            (folder / made).unlink()
    state_of(models[0], FakeCompiler(), **GROUP)

    def full(*_arguments: Any, **_options: Any) -> None:
        assert (folder / "net_fake.bin").exists()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ep_context_model, "save_model", full)
    with pytest.raises(SessionError, match="No space left") as caught:
        state_of(models[1], FakeCompiler(), ep_stop_share_ep_contexts="1", **GROUP)
    assert caught.value.code is StatusCode.FAIL
    left = {path.name for path in folder.iterdir()} - {path.name for path in models}
    assert left == ({"net_fake.bin"} if has_twin else set())
    assert "session group of FakeExecutionProvider is given up" in caplog.text
    assert "net_ctx.onnx" in caplog.text
    monkeypatch.undo()
    assert shared_workspace(NAME).is_empty
    paths = generate(models[1:])
    np.testing.assert_allclose(run(state_of(paths[1], FakeCompiler()), X)[0], EXPECTED, rtol=1e-5)


def test_what_someone_made_of_a_context_model_since_is_not_removed_with_its_group(
    models: list[Path],
) -> None:
    state_of(models[0], FakeCompiler(), **GROUP)
    made = models[0].with_name("net_ctx.onnx")
    made.write_bytes(b"mine")
    group = shared_workspace(NAME).abandon()
    assert group is not None
    assert group.removed == ()
    assert made.read_bytes() == b"mine"


@pytest.mark.requirement("E42")
def test_models_that_point_at_one_external_file_share_its_data(tmp_path: Path) -> None:
    weights = np.random.default_rng(5).random((64, 64), np.float32)
    paths = []
    for name in ("prefill", "decode"):
        proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
            {name} (float[2, 64] x) => (float[2, 64] y) {{ y = MatMul(x, w) }}""")
        proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(
            proto, paths[-1], save_as_external_data=True, location=f"{name}.bin", size_threshold=0
        )
    second = onnx.load(paths[1], load_external_data=False)
    second.graph.initializer[0].external_data[0].value = "prefill.bin"
    onnx.save(second, paths[1])
    (tmp_path / "decode.bin").unlink()
    x = np.ones((2, 64), np.float32)
    for path in paths:
        model = load_model(path)
        initializer = model.graph.initializers["w"]
        assert isinstance(initializer, MappedInitializer)
        assert isinstance(initializer.source, MappedFile)
        assert initializer.source.path.name == "prefill.bin"
        assert not initializer.numpy().flags.owndata  # the file's own pages
        np.testing.assert_allclose(run(state_of(path), x)[0], x @ weights, rtol=1e-5)
    state_of(paths[0], FakeCompiler(), **GROUP)
    state_of(paths[1], FakeCompiler(), ep_stop_share_ep_contexts="1", **GROUP)
    stored = (tmp_path / "prefill_fake.bin").read_bytes()
    assert (
        len(
            [
                place
                for place in range(0, len(stored), 4096)
                if stored.startswith(weights.tobytes(), place)
            ]
        )
        == 1
    )


@pytest.mark.requirement("E43", "E52", "E53")
def test_sessions_of_a_group_map_one_set_of_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = np.random.default_rng(6).random((512, 512), np.float32)
    contexts = []
    for number, name in enumerate(("prefill", "decode")):
        proto = onnx.parser.parse_model(
            f"""<ir_version: 10, opset_import: ["" : 21]>
            {name} (float[2, 512] x) => (float[2, 512] y) {{ e = {"Abs" if number else "Neg"}(x)  y = MatMul(e, w) }}"""
        )
        proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        path = tmp_path / f"{name}.onnx"
        onnx.save(proto, path)
        stop = {"ep_stop_share_ep_contexts": "1"} if number else {}
        state_of(path, LLVMExecutionProvider(), **GROUP, **stop)
        contexts.append(path.with_name(f"{name}_ctx.onnx"))
    size = sum(
        path.stat().st_size
        for path in tmp_path.iterdir()
        if "_ctx" in path.name or path.suffix == ".bin"
    )
    assert size < 1.1 * weights.nbytes + 4 * 4096  # one set, and pages that the small parts begin
    loaded: list[LoadedProgram] = []

    def load(parts: Mapping[str, Part], team: ThreadTeam) -> LoadedProgram:
        loaded.append(load_parts(parts, team))
        return loaded[-1]

    monkeypatch.setattr(llvm_execution_provider, "load_parts", load)
    for context in contexts:
        state_of(context, LLVMExecutionProvider(), ep_share_ep_contexts="1")
    assert len(loaded) == 2
    packed = [array for program in loaded for array, _ in program._constants]
    addresses = {array.ctypes.data for array in packed if array.nbytes >= weights.nbytes}
    assert len(addresses) == 1


@pytest.mark.requirement("E53")
def test_what_an_older_binary_left_is_not_taken_for_a_newer_one(models: list[Path]) -> None:
    paths = generate(models)
    # leaves the contexts of the others
    state_of(paths[0], FakeCompiler(), ep_share_ep_contexts="1")
    for path in (*paths, models[0].parent / "net_fake.bin"):
        path.unlink()
    for model in models:
        proto = onnx.load(model)
        (w,) = (tensor for tensor in proto.graph.initializer if tensor.name == "w")
        w.CopyFrom(numpy_helper.from_array(np.zeros((3, 3), np.float32), "w"))
        onnx.save(proto, model)
    generate(models)
    expected = run(state_of(models[1], FakeCompiler()), X)[0]
    found = run(state_of(paths[1], FakeCompiler(), ep_share_ep_contexts="1"), X)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
