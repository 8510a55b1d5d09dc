"""``ortpkg compile-models``: all of a group comes to lie in the folder, or nothing.

What it may replace; ``-C``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import ortpkg
from ortpkg.authoring.compiling import compile_model_files
from ortpkg.cli.app import run as run_command_line
from ortpkg.foundations.errors import AuthoringError, UsageError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.file_stamp import file_stamp
from ortpkg.machine.hardware import EpDevice
from ortpkg.package.integrity.digests import STAGING_PREFIX
from ortpkg.runtime.ep_context.ep_context_file import open_context_file
from ortpkg.runtime.ep_context.ep_context_options import SHARE_EP_CONTEXTS
from ortpkg.runtime.session import compile_models
from ortpkg.runtime.session.compile_models import CompiledModel, CompileJob, CompileRequest
from tests.ep_context.compiling import WIDTH, tree, two_models
from tests.ep_context.fake_compiler import NAME as FAKE

FILES = {"prefill_ctx.onnx", "decode_ctx.onnx", "prefill_llvm.bin"}

Compile = Callable[..., int]


@pytest.fixture
def models(tmp_path: Path, machine: Path) -> tuple[Path, Path]:
    del machine
    return two_models(tmp_path)


@pytest.fixture
def compiles(models: tuple[Path, Path], tmp_path: Path) -> Compile:
    """Compiles both models into ``out``: the exit code."""

    def call(*words: str, ep: str = "llvm") -> int:
        return run_command_line(
            [
                "compile-models",
                "-e",
                ep,
                *words,
                ",".join(map(str, models)),
                "-o",
                str(tmp_path / "out"),
            ]
        )

    return call


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def check_runs(folder: Path) -> None:
    x = np.random.default_rng(4).random((1, WIDTH), np.float32)
    for name in ("prefill", "decode"):
        plain = ortpkg.InferenceSession(folder.with_name(f"{name}.onnx")).run(None, {"x": x})[0]
        ours = ortpkg.InferenceSession(folder / f"{name}_ctx.onnx", providers=["llvm"]).run(
            None, {"x": x}
        )[0]
        np.testing.assert_allclose(ours, plain, rtol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.requirement("E45", "E49", "E51")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-i", "fault|abort"], "it was ended by SIGABRT"),
        (["-i", "fault|hang", "--timeout", "3"], "no answer within 3 s"),
        (["--memory-limit", "5MB"], "it held more than 5 MB of memory"),
        (["-i", "fault|decode"], "no such instruction"),
    ],
)
def test_a_compiler_that_fails_leaves_nothing_and_the_retry_works(
    compiles: Compile,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    before = tree(tmp_path)
    assert compiles(*words, ep=FAKE) == 6
    assert said in capsys.readouterr().err
    assert tree(tmp_path) == before
    assert not (tmp_path / "out").exists()
    assert compiles(ep=FAKE) == 0
    assert names_in(tmp_path / "out") == {"prefill_ctx.onnx", "decode_ctx.onnx", "prefill_fake.bin"}


def test_what_was_killed_while_it_put_files_in_their_places_is_undone_by_the_next(
    compiles: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")

    def killed(operations: FileOperations, operation: str, path: Path) -> None:
        if operation == "replace" and path.name == "decode_ctx.onnx":
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        FileOperations.before = killed  # type: ignore[method-assign, assignment]
        try:
            compiles()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert {"prefill_ctx.onnx", "prefill_llvm.bin"} < names_in(out)
    assert compiles("--dry-run") == 4
    assert "a command that was stopped left something to tidy up" in capsys.readouterr().err
    assert compiles() == 0
    assert names_in(out) == FILES | {"notes.txt"}
    check_runs(out)


def test_what_is_there_is_replaced_only_where_that_is_asked_for(
    compiles: Compile, models: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert compiles(ep=FAKE) == 0
    before = tree(out)
    assert compiles() == 4
    assert (
        "prefill_ctx.onnx' exists already; --overwrite replaces context models"
        in capsys.readouterr().err
    )
    assert tree(out) == before
    proto = onnx.load(models[1])
    proto.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32), "w")
    )
    onnx.save(proto, models[1])
    capsys.readouterr()
    assert compiles("--overwrite", "--dry-run", "--json") == 0
    foretold = json.loads(capsys.readouterr().out)
    assert [each["file"] for each in foretold["adds"]] == ["prefill_llvm.bin"]
    assert foretold["changes"] == ["prefill_ctx.onnx", "decode_ctx.onnx"]
    assert foretold["removes"] == ["prefill_fake.bin"]
    assert tree(out) == before
    assert compiles("--overwrite") == 0
    assert names_in(out) == FILES
    assert (out / "prefill_llvm.bin").stat().st_size == foretold["adds"][0]["nbytes"]
    check_runs(out)


def test_overwriting_the_same_changes_no_binary(compiles: Compile, tmp_path: Path) -> None:
    assert compiles() == 0
    binary = tmp_path / "out" / "prefill_llvm.bin"
    before = file_stamp(binary)
    assert compiles("--overwrite") == 0
    assert file_stamp(binary) == before
    check_runs(tmp_path / "out")


@pytest.mark.parametrize("case", ["plain model", "foreign binary", "binary of another", "link"])
def test_what_is_not_the_commands_own_is_never_replaced(
    compiles: Compile,
    models: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    if case == "plain model":
        shutil.copy(models[0], out / "prefill_ctx.onnx")
    if case == "foreign binary":
        (out / "prefill_llvm.bin").write_bytes(b"holiday pictures")
    if case == "link":
        (out / "decode_ctx.onnx").symlink_to(shutil.copy(models[1], tmp_path / "other.onnx"))
    if case == "binary of another":
        assert compiles() == 0
        shutil.copy(out / "decode_ctx.onnx", out / "third.onnx")
        proto = onnx.load(models[0])
        proto.graph.initializer[0].CopyFrom(
            onnx.numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32), "w")
        )
        onnx.save(proto, models[0])
    before = tree(out)
    assert compiles("--overwrite") == 4
    said = capsys.readouterr().err
    assert "not overwritten" in said
    assert ("'third.onnx', which stays, needs it, too" in said) is (case == "binary of another")
    assert tree(out) == before


def test_a_source_is_no_place_for_an_output(models: tuple[Path, Path]) -> None:
    jobs = (CompileJob(model=str(models[0]), output=str(models[0])),)
    with pytest.raises(UsageError, match="is one of the sources"):
        compile_model_files(CompileRequest(jobs=jobs, ep="llvm"), timeout_s=60)


def test_a_file_in_the_place_of_the_folder_is_told(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    jobs = (
        CompileJob(model=str(models[0]), output=str(tmp_path / "file" / "x" / "prefill_ctx.onnx")),
    )
    with pytest.raises(AuthoringError, match="cannot make the folder"):
        compile_model_files(CompileRequest(jobs=jobs, ep="llvm"), timeout_s=60)
    assert (tmp_path / "file").read_bytes() == b"mine"


# --- -C -------------------------------------------------------------------------------------------


@pytest.mark.requirement("E51")
def test_config_entries_reach_the_sessions_and_those_of_the_command_are_passed_over(
    compiles: Compile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = "ep.context_node_name_prefix|_part1   ep.context_enable|1\tep.context_embed_mode|1"
    assert (
        compiles("-C", entries, "-C", "ep.context_file_path|elsewhere.onnx session.log_id|a|b") == 0
    )
    said = capsys.readouterr().err
    assert "-C 'ep.context_embed_mode|1' is passed over" in said
    assert "-C 'ep.context_file_path|elsewhere.onnx' is passed over" in said
    assert "context_enable" not in said
    assert names_in(tmp_path / "out") == FILES
    names = open_context_file(
        tmp_path / "out" / "prefill_llvm.bin", ep_name="LLVMExecutionProvider"
    ).names
    assert [name.startswith("_part1") for name in names] == [True, True]
    check_runs(tmp_path / "out")


@pytest.mark.requirement("E51")
def test_config_entries_reach_onnxruntime_where_it_compiles_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []

    class Compiler:
        def __init__(self, *_made_for: object) -> None: ...

        def compile(
            self,
            _source: Path,
            _output: Path,
            *,
            config_entries: Mapping[str, str],
            **_rest: object,
        ) -> None:
            given.append(dict(config_entries))

    offered = EpDevice(ep_name="AcmeExecutionProvider", device=None, backend="onnxruntime")
    monkeypatch.setattr(compile_models, "find_ep_device", lambda *_asked, **_rest: offered)
    made = CompiledModel(output=tmp_path / "made", partitions=1, other_nodes=0, files=(), device="")
    monkeypatch.setattr(compile_models, "_described", lambda _output, _device: made)
    monkeypatch.setitem(
        sys.modules,
        "ortpkg.runtime.providers.onnxruntime_compiler",
        SimpleNamespace(OnnxRuntimeCompiler=Compiler),
    )
    jobs = tuple(
        CompileJob(model=f"{name}.onnx", output=str(tmp_path / name)) for name in ("a", "b")
    )
    request = CompileRequest(
        jobs=jobs,
        ep="acme",
        is_shared=True,
        for_onnxruntime=True,
        config_entries={"k": "v", SHARE_EP_CONTEXTS: "0"},
    )
    compile_models.compile_for_parent(asdict(request))
    assert given == [
        {"k": "v", SHARE_EP_CONTEXTS: "1"},
        {"k": "v", SHARE_EP_CONTEXTS: "1", "ep.stop_share_ep_contexts": "1"},
    ]


@pytest.mark.requirement("E51")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-C", "fast"], "-C 'fast': write \"KEY|VALUE KEY|VALUE\""),
        (["-C", "|1"], "-C '|1': write \"KEY|VALUE KEY|VALUE\""),
        (["-C", "a|1", "-C", "b|2 a|3"], "-C: 'a' is given twice"),
        (
            ["-C", "ep.context_model_external_initializers_file_name|w.bin"],
            "2 models cannot have one file",
        ),
        (["-C", "ortpkg.partition_policy|perhaps"], "ortpkg.partition_policy"),
    ],
)
def test_config_entries_in_another_form_are_wrong_usage(
    compiles: Compile,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    assert compiles(*words) == 2
    assert said in capsys.readouterr().err
    assert not [
        name for name in names_in(tmp_path) if name.startswith(STAGING_PREFIX) or name == "out"
    ]
