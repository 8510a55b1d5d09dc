"""The cache of contexts: exactly one miss for each thing that matters, none for what does not."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortpkg.cli.app import run as run_command_line
from ortpkg.compiler.machine_code.abi import ABI_VERSION
from ortpkg.foundations.errors import CompileError
from ortpkg.foundations.storage import file_replacement
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.ep_context import partition_digests as digests
from ortpkg.runtime.ep_context.cache_outcome import CacheOutcome
from ortpkg.runtime.ep_context.cached_sessions import SessionCache
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache, context_key
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import FusedNode
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from ortpkg.runtime.session.session_state import create_session_state
from tests.ep_context.conftest import EXPECTED, X
from tests.ep_context.fake_compiler import ENVIRONMENT, FakeCompiler, run, state_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "contexts"


def session(
    model: Path, folder: Path, provider: FakeCompiler | None = None, **entries: str
) -> FakeCompiler:
    """A session with the cache in ``folder``, run once; the provider tells what it did."""
    provider = provider or FakeCompiler()
    state = state_of(model, provider, ortpkg_ep_context_cache=str(folder), **entries)
    np.testing.assert_allclose(run(state, X)[0], EXPECTED, rtol=1e-5)
    state.close()
    return provider


def explained(model: Path, folder: Path, provider: FakeCompiler) -> list[CacheOutcome]:
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", str(folder))
    create_session_state(
        load_model(model), options, [provider, CPUExecutionProvider()], explains_cache=True
    )
    assert provider.compiled == provider.imported == []
    return provider.cache_outcomes


def test_the_second_session_compiles_nothing(model: Path, folder: Path) -> None:
    first = session(model, folder)
    assert (len(first.compiled), first.imported) == (2, [])
    second = session(model, folder)
    assert (second.compiled, len(second.imported)) == ([], 2)
    assert [outcome.is_hit for outcome in second.cache_outcomes] == [True, True]


def test_without_the_entry_nothing_is_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    state_of(model, FakeCompiler())
    assert not (tmp_path / "cache" / "contexts").exists()
    state_of(model, FakeCompiler(), ortpkg_ep_context_cache="1")
    assert len(list((tmp_path / "cache" / "contexts").glob("*.bin"))) == 2


CHANGES: dict[str, Mapping[str, Any]] = {
    "sdk_version": {"sdk_version": "1.1"},
    "driver_version": {"driver_version": "8"},
    "device": {"device": "GPU.1"},
    "architecture": {"architecture": "npu-4"},
    "options": {"options": {"mode": "exact"}},
}


@pytest.mark.requirement("E40")
@pytest.mark.parametrize("field", CHANGES)
def test_each_thing_that_matters_is_one_miss_that_names_it(
    model: Path, folder: Path, field: str
) -> None:
    session(model, folder)
    changed = replace(ENVIRONMENT, **CHANGES[field])
    for outcome in explained(model, folder, FakeCompiler(environment=changed)):
        assert not outcome.is_hit
        assert outcome.mismatch is not None
        assert outcome.mismatch.field == field
    missed = session(model, folder, FakeCompiler(environment=changed))
    assert (len(missed.compiled), missed.imported) == (2, [])
    for environment in (changed, ENVIRONMENT):  # both are kept: going back is no miss
        found = session(model, folder, FakeCompiler(environment=environment))
        assert (found.compiled, len(found.imported)) == ([], 2)


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("what", "field"), [("weights", "weights_digest"), ("graph", "graph_digest")]
)
def test_another_model_at_the_same_path_is_a_miss(
    model: Path, folder: Path, what: str, field: str
) -> None:
    session(model, folder)
    proto = onnx.load(model)
    if what == "weights":
        (w,) = (tensor for tensor in proto.graph.initializer if tensor.name == "w")
        w.CopyFrom(onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "w"))
    else:
        proto.graph.node[0].input[:] = ["x", "w"]
        proto.graph.node.insert(1, onnx.helper.make_node("Exp", ["m"], ["more"], name="more"))
        proto.graph.node[2].input[:] = ["more"]
    onnx.save(proto, model)
    first, _ = explained(model, folder, FakeCompiler())
    assert first.mismatch is not None
    assert first.mismatch.field == field


@pytest.mark.parametrize("change", ["name", "place", "time", "log id", "threads", "unused option"])
def test_what_does_not_matter_is_no_miss(model: Path, folder: Path, change: str) -> None:
    session(model, folder)
    entries: dict[str, str] = {}
    provider = FakeCompiler()
    if change == "name":
        model = model.rename(model.with_name("renamed.onnx"))
    elif change == "place":
        (model.parent / "other").mkdir()
        model = Path(shutil.copy(model, model.parent / "other"))
    elif change == "time":
        model.touch()
    elif change == "log id":
        entries["session_log_id"] = "another"
    elif change == "threads":
        entries["session_intra_op.allow_spinning"] = "0"
    else:
        provider.options["profiling_level"] = "3"  # of which the descriptor says nothing
    again = session(model, folder, provider, **entries)
    assert (again.compiled, len(again.imported)) == ([], 2)


@pytest.mark.parametrize("damage", ["flipped", "truncated", "foreign", "empty", "gone"])
def test_a_damaged_entry_is_compiled_anew_and_mended(
    model: Path, folder: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    session(model, folder)
    for path in folder.glob("*.bin"):
        data = bytearray(path.read_bytes())
        path.unlink()
        if damage == "flipped":
            data[-10] ^= 1
        elif damage == "truncated":
            del data[len(data) // 2 :]
        elif damage == "foreign":
            data[:] = b"\x7fELF" + bytes(5000)
        elif damage == "empty":
            data.clear()
        if damage != "gone":
            path.write_bytes(data)
    again = session(model, folder)
    assert (len(again.compiled), again.imported) == (2, [])
    assert "a cached context is dropped" in caplog.text
    assert len(session(model, folder).imported) == 2


def test_an_entry_that_the_library_refuses_is_compiled_anew(model: Path, folder: Path) -> None:
    session(model, folder)

    def fail() -> None:
        raise RuntimeError("not of my tribe")

    again = session(model, folder, FakeCompiler(on_import=fail))
    assert len(again.compiled) == 2


def test_a_provider_that_keeps_nothing_runs_all_the_same(
    model: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(FakeCompiler):
        def export_context(
            self, compiled: CompiledPartition, fused: FusedNode
        ) -> Mapping[str, Part]:
            del compiled, fused
            raise CompileError("makes no contexts", ep_name=self.name)

    session(model, folder, Forgetful())
    assert "cannot be kept" in caplog.text
    assert EpContextCache(folder).entries() == []


def test_a_cache_that_cannot_be_written_is_no_obstacle(model: Path, folder: Path) -> None:
    folder.write_text("a file stands where the directory would be")
    assert len(session(model, folder).compiled) == 2


@pytest.mark.parametrize("suffix", [".bin", ".json"])
def test_a_disk_that_is_full_keeps_nothing_and_is_no_obstacle(
    model: Path,
    folder: Path,
    suffix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    original = file_replacement._temporary_beside

    def full(path: Path) -> tuple[int, Path]:
        if path.suffix == suffix:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(path)

    monkeypatch.setattr(file_replacement, "_temporary_beside", full)
    assert len(session(model, folder).compiled) == 2
    assert "cannot be kept" in caplog.text
    assert EpContextCache(folder).entries() == []


def test_two_sessions_at_once_compile_once(model: Path, folder: Path) -> None:
    both = threading.Barrier(2)

    class Slow(FakeCompiler):
        has_met = False

        def describe_environment(self) -> ContextDescriptor:
            if not self.has_met:
                self.has_met = True
                both.wait(timeout=30)
            return super().describe_environment()

    providers = [Slow(), Slow()]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda provider: session(model, folder, provider), providers))
    assert sorted(len(provider.compiled) + len(provider.imported) for provider in providers) == [
        2,
        2,
    ]
    assert sum(len(provider.compiled) for provider in providers) == 2


def entry(number: int, nbytes: int = 10_000) -> ContextEntry:
    descriptor = replace(ENVIRONMENT, graph_digest=str(number))
    return ContextEntry(name="p", descriptor=descriptor, parts={"blob": bytes([number]) * nbytes})


def test_what_was_used_least_recently_goes_first(folder: Path) -> None:
    cache = EpContextCache(folder, most_nbytes=3 * 16_000)
    for number in range(3):
        cache.write(entry(number), model="m")
        path = folder / f"{context_key(entry(number).descriptor)}.json"
        past = path.stat().st_mtime_ns - (10 - number) * 10**9
        os.utime(path, ns=(past, past))
    assert cache.read(entry(0).descriptor) is not None  # used just now
    cache.write(entry(3), model="m")
    left = {each.descriptor.graph_digest for each in cache.entries()}
    assert left == {"0", "2", "3"}


def test_an_entry_larger_than_the_cache_is_kept_alone(folder: Path) -> None:
    cache = EpContextCache(folder, most_nbytes=5_000)
    cache.write(entry(0), model="m")
    cache.write(entry(1), model="m")
    assert [each.descriptor.graph_digest for each in cache.entries()] == ["1"]


def test_notes_that_are_none_are_passed_over(folder: Path) -> None:
    cache = EpContextCache(folder)
    cache.write(entry(0), model="m")
    (folder / "a.json").write_text("[" * 100_000)
    (folder / "b.json").write_text('{"schema_version": 99}')
    (folder / "c.json").write_text(json.dumps({"schema_version": 1, "descriptor": 3}))
    assert len(cache.entries()) == 1


# --- digests of weights ---------------------------------------------------------------------------


@pytest.fixture
def external(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The model with its weights in a file; every digest is remembered at once."""
    monkeypatch.setattr(digests, "_LEAST_REMEMBERED_NBYTES", 0)
    monkeypatch.setattr("ortpkg.foundations.storage.file_stamp._LEAST_AGE_NS", 0)
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "facts"))
    onnx.save(
        onnx.load(model), model, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    return model.with_name("w.bin")


def test_weights_in_a_file_are_hashed_once(
    model: Path, folder: Path, external: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(model, folder)
    assert external.exists()

    def fail(*_arguments: object) -> str:
        raise AssertionError("hashed again")

    monkeypatch.setattr(digests, "_weights_digest", fail)
    assert len(session(model, folder).imported) == 2


def test_weights_in_memory_are_hashed_once_and_not_for_a_key_beside(
    model: Path, folder: Path, external: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = onnx.load(model).SerializeToString()
    assert external.exists()
    asked: list[object] = []
    monkeypatch.setattr(digests, "_LEAST_REMEMBERED_NBYTES", 1)
    monkeypatch.setattr(digests, "read_fact", lambda *key: asked.append(key))
    monkeypatch.setattr(digests, "write_fact", lambda *key, **_: asked.append(key))
    session(data, folder)
    assert asked == []
    session(model, folder)
    assert len(asked) > 0


def test_other_bytes_of_the_same_length_are_a_miss(
    model: Path, folder: Path, external: Path
) -> None:
    session(model, folder)
    data = bytearray(external.read_bytes())
    data[3] ^= 1
    external.unlink()
    external.write_bytes(data)
    first, _ = explained(model, folder, FakeCompiler())
    assert first.mismatch is not None
    assert first.mismatch.field == "weights_digest"


# --- the command ----------------------------------------------------------------------------------


def test_the_command_lists_explains_and_clears(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))

    def said(*words: str) -> str:
        assert run_command_line(["cache", *words]) == 0
        return capsys.readouterr().out

    assert "is empty" in said()
    assert "not in the cache: nothing of this model is" in said("why", str(model), "--ep", "llvm")
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", "1")
    InferenceSession(model, options, providers=["llvm"])
    assert "LLVMExecutionProvider" in said("list")
    assert "partition LLVM__1: in the cache" in said("why", str(model), "--ep", "llvm")
    told = json.loads(said("list", "--json"))
    assert told["entries"][0]["descriptor"]["sdk_version"] == f"machine code ABI {ABI_VERSION}"
    assert said("clear", "--ep", "openvino") == "0 contexts deleted\n"
    assert said("clear", "--keep", "1GB") == "0 contexts deleted\n"
    assert said("clear") == "1 context deleted\n"
    assert "is empty" in said("list")


@pytest.mark.parametrize("damage", ["empty", "truncated", "junk", "a changed byte", "note", "gone"])
def test_what_is_damaged_is_called_so_and_can_be_cleared(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: str,
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", "1")
    InferenceSession(model, options, providers=["llvm"])
    (binary,) = (tmp_path / "cache" / "contexts").glob("*.bin")
    data = binary.read_bytes()
    note = binary.with_suffix(".json")
    if damage == "note":
        note.write_text("{")
    elif damage == "gone":
        binary.unlink()
    else:
        other = {"empty": b"", "junk": b"junk", "truncated": data[: len(data) // 2]}
        changed = other.get(damage, data[:-1] + b"\x7f")
        binary.unlink()
        binary.write_bytes(changed)

    def said(*words: str) -> str:
        assert run_command_line(["cache", *words]) == 0
        return capsys.readouterr().out

    assert "damaged in the cache" in said("why", str(model), "--ep", "llvm")
    partition = json.loads(said("why", str(model), "--ep", "llvm", "--json"))["sessions"][0][
        "partitions"
    ][0]
    assert (partition["is_hit"], bool(partition["damage"])) == (False, True)
    is_told = damage != "a changed byte"  # for that all of it would have to be read
    told = json.loads(said("list", "--json"))
    assert [each["key"] for each in told["damaged"]] == ([binary.stem] if is_told else [])
    assert ("is damaged" in said("list")) is is_told
    assert said("clear", "--ep", "openvino") == "0 contexts deleted\n"
    assert said("clear") == (
        "1 context deleted, 1 of these damaged\n" if is_told else "1 context deleted\n"
    )
    assert not binary.exists()
    assert not note.exists()


@pytest.mark.parametrize("state", ["dead", "at work", "unlocked and young", "unlocked and old"])
def test_what_a_killed_writer_left_is_listed_and_cleared_and_what_is_being_written_is_not(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "contexts"
    cache = EpContextCache(folder)
    cache.write(entry(0), model="m")
    key = context_key(entry(1).descriptor)
    temporary = folder / f".{key}.bin.0123456789ab"
    temporary.write_bytes(b"half")
    if state == "unlocked and old":
        os.utime(temporary, (0, 0))

    def said(*words: str) -> str:
        assert run_command_line(["cache", *words]) == 0
        return capsys.readouterr().out

    is_left = state in ("dead", "unlocked and old")
    if state == "dead":
        (folder / f"{key}.lock").touch()
    with cache.lock(entry(1).descriptor) if state == "at work" else contextlib.nullcontext():
        told = json.loads(said("list", "--json"))
        assert [each["nbytes"] for each in told["leftovers"]] == ([4] if is_left else [])
        assert (len(told["entries"]), told["damaged"]) == (1, [])
        assert ("1 file that killed sessions left half written" in said("list")) is is_left
        assert said("clear", "--ep", "openvino") == "0 contexts deleted\n"
        assert temporary.exists()
        told_when_cleared = said("clear")
    assert ("1 file that killed sessions left" in told_when_cleared) is is_left
    assert temporary.exists() is not is_left


def test_keeping_a_context_clears_what_killed_writers_left(folder: Path) -> None:
    cache = EpContextCache(folder)
    cache.write(entry(0), model="m")
    temporary = folder / f".{context_key(entry(0).descriptor)}.json.0123456789ab"
    temporary.write_bytes(b"{")
    os.utime(temporary, (0, 0))
    cache.write(entry(1), model="m")
    assert not temporary.exists()
    assert len(cache.entries()) == 2


def test_keeping_a_context_clears_what_a_killed_writer_of_the_same_left(folder: Path) -> None:
    cache = EpContextCache(folder)
    descriptor = entry(0).descriptor
    temporary = folder / f".{context_key(descriptor)}.bin.0123456789ab"
    with cache.lock(descriptor):
        temporary.write_bytes(b"half")
        cache.write(entry(0), model="m")
    assert not temporary.exists()
    assert len(cache.entries()) == 1


@pytest.mark.parametrize("kind", ["session", "session.onnx", "refusal"])
@pytest.mark.parametrize("age_s", [10, 1000])
def test_small_files_that_killed_sessions_left_are_cleared_after_minutes(
    folder: Path, kind: str, age_s: int
) -> None:
    cache = EpContextCache(folder)
    cache.write(entry(0), model="m")
    temporary = folder / f".{context_key(entry(1).descriptor)}.{kind}.0123456789ab"
    temporary.write_bytes(b"half")
    then_s = time.time() - age_s
    os.utime(temporary, (then_s, then_s))
    SessionCache(cache).write(
        "0" * 40, b"", contexts=[context_key(entry(0).descriptor)], data={}, details={}
    )
    assert temporary.exists() is (age_s < 600)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["why"], "name a package"),
        (["why", "model.onnx"], "needs --ep"),
        (["list", "model.onnx"], "takes no package or model"),
        (["clear", "--keep", "much"], "--keep is no size"),
        (["clear", "--keep", "1GB", "--ep", "cpu"], "goes without --ep"),
    ],
)
def test_wrong_usage_is_told(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["cache", *words]) == 2
    assert message in capsys.readouterr().err
