"""The cache of contexts before libraries that compile to know what they take: hits do not.

What is counted is what reaches the library, in this process and in others.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from filelock import FileLock

import ortpkg
from ortpkg.cli.app import run as run_command_line
from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.foundations.errors import ExecutionProviderError, LimitExceededError
from ortpkg.foundations.storage import file_replacement
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.runtime.ep_context import ep_context_cache
from ortpkg.runtime.ep_context.cache_clearing import clearing_of
from ortpkg.runtime.ep_context.claim_refusals import kept_refusals
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache
from ortpkg.runtime.providers import native_model
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from tests.ep_context.conftest import EXPECTED, ROOT, X
from tests.ep_context.test_native_libraries import BACKENDS, BRIDGE, MIXED, OPENVINO, save

EPS = {OPENVINO: OPENVINO_EP, BRIDGE: CPU_EP}


class Compilations:
    """Counts what a library of this process is asked to compile, and to load."""

    def __init__(self, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compiled = self.imported = 0
        self._lock = threading.Lock()
        names = {OPENVINO: ("openvino_library", "OpenVinoLibrary")}
        module, name = names.get(backend, ("onnxruntime_contexts", "OptimizingLibrary"))
        library = getattr(pytest.importorskip(f"ortpkg.runtime.providers.{module}"), name)
        compile_model, import_model = library.compile_model, library.import_model

        def counted_compile(*arguments: Any) -> Any:
            with self._lock:
                self.compiled += 1
            return compile_model(*arguments)

        def counted_import(*arguments: Any) -> Any:
            with self._lock:
                self.imported += 1
            return import_model(*arguments)

        monkeypatch.setattr(library, "compile_model", counted_compile)
        monkeypatch.setattr(library, "import_model", counted_import)

    def taken(self) -> tuple[int, int]:
        """What was compiled and loaded since it was asked last."""
        found = (self.compiled, self.imported)
        self.compiled = self.imported = 0
        return found


@pytest.fixture(autouse=True)
def _own_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORTPKG_CACHE_DIR", str(tmp_path / "facts"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "contexts"


#: A model from a file is kept as a whole, one from memory partition by partition.
SOURCES = ["file", "memory"]


def from_memory(model: Path) -> bytes:
    return model.read_bytes()


def session(model: Path | bytes, folder: Path, backend: str, **changes: Any) -> InferenceSession:
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.ep_context_cache", str(folder))
    for name, value in changes.items():
        setattr(options, name, value)
    return InferenceSession(model, options, providers=[EPS[backend]], backend=backend)


def run_once(model: Path | bytes, folder: Path, backend: str, **changes: Any) -> list[Any]:
    with session(model, folder, backend, **changes) as made:
        return made.run(None, {"x": X})


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hit_compiles_nothing(
    model: Path, folder: Path, backend: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Compilations(backend, monkeypatch)
    given = from_memory(model) if source == "memory" else model
    np.testing.assert_allclose(run_once(given, folder, backend)[0], EXPECTED, rtol=1e-5)
    assert count.taken() == (1, 0)
    np.testing.assert_allclose(run_once(given, folder, backend)[0], EXPECTED, rtol=1e-5)
    assert count.taken() == (0, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_miss_writes_the_model_down_once(
    model: Path, folder: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the library; what is kept of what it made needs no second copy."""
    written: list[object] = []

    def counted(model: Any, **options: Any) -> Any:
        written.append(model)
        return to_model_proto(model, **options)

    monkeypatch.setattr(native_model, "to_model_proto", counted)
    run_once(from_memory(model), folder, backend)
    assert len(written) == 1
    assert len(list(folder.glob("*.bin"))) == 1


def test_a_model_that_is_too_large_to_be_handed_over_is_none_for_the_library(
    model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is an error if nothing of the model is small enough."""
    for most_nbytes in (10, 100):  # less than its weights; less than all of it
        monkeypatch.setattr(native_model, "_MOST_MODEL_NBYTES", most_nbytes)
        caplog.clear()
        with contextlib.ExitStack() as stack:
            if most_nbytes == 10:
                message = "takes no node of the model: .*at most 10 bytes of a model can be handed"
                stack.enter_context(pytest.raises(ExecutionProviderError, match=message))
            y = run_once(model, folder / str(most_nbytes), OPENVINO)[0]
            np.testing.assert_allclose(y, EXPECTED, rtol=1e-5)
        assert f"at most {most_nbytes} bytes of a model can be handed over" in caplog.text


@pytest.mark.parametrize("source", SOURCES)
def test_what_the_library_refused_is_not_compiled_to_hear_it_again(
    tmp_path: Path,
    folder: Path,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = save(MIXED, tmp_path / "mixed.onnx")
    given = from_memory(model) if source == "memory" else model
    count = Compilations(OPENVINO, monkeypatch)
    run_once(given, folder, OPENVINO)
    assert count.taken() == (3, 0)  # the whole, which is refused; the two parts around
    caplog.clear()
    y, _ = run_once(given, folder, OPENVINO)
    np.testing.assert_allclose(y, -np.exp(X)[:, [0, 2]], rtol=1e-5)
    assert count.taken() == (0, 2)
    assert "its library lacks ai.onnx.ml:ArrayFeatureExtractor" in caplog.text  # it is still said


def test_where_the_library_takes_nothing_the_next_session_does_not_ask_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[3, 3] x) => (float y) { y = Det(x) }'
    model = save(text, tmp_path / "det.onnx")
    count = Compilations(OPENVINO, monkeypatch)
    with pytest.raises(ExecutionProviderError, match="its library lacks ai"):
        session(model, folder, OPENVINO)
    assert count.taken() == (1, 0)
    with pytest.raises(ExecutionProviderError, match="its library lacks ai"):
        session(model, folder, OPENVINO)
    assert count.taken() == (0, 0)
    cache = EpContextCache(folder)
    assert clearing_of(cache, ep=CPU_EP).refusals == ()
    clearing_of(cache, ep=OPENVINO_EP).carry_out()
    assert list(kept_refusals(folder)) == []
    with pytest.raises(ExecutionProviderError, match="its library lacks ai"):
        session(model, folder, OPENVINO)
    assert count.taken() == (1, 0)


@pytest.mark.parametrize("error", [MemoryError("no more"), RuntimeError("std::bad_alloc")])
def test_what_failed_for_want_of_memory_is_tried_again(
    model: Path, folder: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary

    def fail(*_arguments: object) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(OpenVinoLibrary, "compile_model", fail)
        with pytest.raises(ExecutionProviderError, match="takes no node of the model"):
            run_once(model, folder, OPENVINO)
    assert list(folder.glob("*.refusal")) == []
    count = Compilations(OPENVINO, monkeypatch)
    run_once(model, folder, OPENVINO)
    assert count.taken() == (1, 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", ["{", "[]", '{"schema_version": 1}', "[" * 100_000])
def test_a_note_of_a_refusal_that_is_none_is_passed_over(
    tmp_path: Path, folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = from_memory(save(MIXED, tmp_path / "mixed.onnx"))
    run_once(model, folder, OPENVINO)
    for note in folder.glob("*.refusal"):
        note.write_text(damage)
    count = Compilations(OPENVINO, monkeypatch)
    run_once(model, folder, OPENVINO)
    assert count.taken() == (1, 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("days", [-31, 31])
def test_a_refusal_of_long_ago_or_of_a_wrong_clock_is_asked_for_again(
    tmp_path: Path, folder: Path, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = from_memory(save(MIXED, tmp_path / "mixed.onnx"))
    run_once(model, folder, OPENVINO)
    for note in folder.glob("*.refusal"):
        os.utime(note, times=(time.time() + days * 86_400,) * 2)
    count = Compilations(OPENVINO, monkeypatch)
    run_once(model, folder, OPENVINO)
    assert count.taken() == (1, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_to_explain_compiles_nothing(
    model: Path,
    tmp_path: Path,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ortpkg.create(
        tmp_path / "net.ortpackage", [ortpkg.NewVariant(model=model, name="plain", ep=EPS[backend])]
    )
    count = Compilations(backend, monkeypatch)

    def said() -> str:
        capsys.readouterr()
        assert (
            run_command_line(
                ["cache", "why", str(tmp_path / "net.ortpackage"), "--backend", backend]
            )
            == 0
        )
        assert count.taken() == (0, 0)
        return capsys.readouterr().out

    assert "not in the cache: nothing of this model is" in said()
    (path,) = (tmp_path / "net.ortpackage").glob("**/*.onnx")
    run_once(path, tmp_path / "facts" / "contexts", backend)
    count.taken()
    assert "__0: in the cache" in said()


def test_to_explain_a_model_that_was_refused_in_part_names_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(MIXED, tmp_path / "mixed.onnx")
    run_once(model, tmp_path / "facts" / "contexts", OPENVINO)
    count = Compilations(OPENVINO, monkeypatch)
    assert run_command_line(["cache", "why", str(model), "--ep", "openvino", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["sessions"]
    assert [each["is_hit"] for each in told["partitions"]] == [True, True]
    assert count.taken() == (0, 0)


def test_sessions_of_several_threads_compile_once(
    model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Compilations(OPENVINO, monkeypatch)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: run_once(model, folder, OPENVINO)[0], range(4)))
    for each in found:
        np.testing.assert_allclose(each, EXPECTED, rtol=1e-5)
    assert count.taken() == (1, 3)


# --- other processes ------------------------------------------------------------------------------

#: Compiles slowly, and writes a line for each time; at "hang" it never ends.
CHILD = """
import sys, time
from pathlib import Path
import numpy as np
from ortpkg.runtime.providers.openvino_library import OpenVinoLibrary
from tests.ep_context.conftest import X
from tests.ep_context.test_cache_of_libraries import run_once

model, folder, log, how = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
compile_model = OpenVinoLibrary.compile_model

def slow(*arguments):
    with log.open("a") as file:
        file.write("compiled\\n")
    time.sleep(3600 if how == "hang" else 1.0)
    return compile_model(*arguments)

OpenVinoLibrary.compile_model = slow
with log.open("a") as file:
    file.write("ready\\n")
while not log.with_suffix(".go").exists():
    time.sleep(0.01)
print(run_once(model, folder, "openvino")[0].tolist())
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def start(model: Path, folder: Path, log: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(how: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", CHILD, str(model), str(folder), str(log), how]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment))
        return started[-1]

    yield begin
    for each in started:
        each.kill()
        each.communicate()


def wait_for(log: Path, word: str, count: int) -> None:
    end = time.monotonic() + 120
    while not log.exists() or log.read_text().split().count(word) < count:
        assert time.monotonic() < end, f"{word} was not written {count} times"
        time.sleep(0.02)


def test_three_processes_at_once_compile_once(start: Start, log: Path) -> None:
    pytest.importorskip("openvino")
    children = [start("slow") for _ in range(3)]
    wait_for(log, "ready", 3)
    log.with_suffix(".go").touch()
    for child in children:
        out, _ = child.communicate(timeout=120)
        np.testing.assert_allclose(json.loads(out), EXPECTED, rtol=1e-5)
    assert log.read_text().split().count("compiled") == 1


def test_a_compiler_that_is_killed_lets_the_next_one_compile(
    start: Start, log: Path, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino")
    log.with_suffix(".go").touch()
    child = start("hang")
    wait_for(log, "compiled", 1)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=60)
    count = Compilations(OPENVINO, monkeypatch)
    np.testing.assert_allclose(run_once(model, folder, OPENVINO)[0], EXPECTED, rtol=1e-5)
    assert count.taken() == (1, 0)
    assert len(EpContextCache(folder).entries()) == 1


def test_the_wait_for_a_compiler_that_hangs_keeps_to_the_time_limit(
    start: Start, log: Path, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino")
    log.with_suffix(".go").touch()
    start("hang")
    wait_for(log, "compiled", 1)
    count = Compilations(OPENVINO, monkeypatch)
    with pytest.raises(
        LimitExceededError,
        match=r"waiting for another process, which compiles the same .* of 0.3 s",
    ):
        session(model, folder, OPENVINO, timeout_s=0.3)
    assert count.taken() == (0, 0)


def test_the_wait_ends_at_a_bound_of_its_own_and_then_both_compile(
    start: Start,
    log: Path,
    model: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("openvino")
    monkeypatch.setattr(ep_context_cache, "_WAIT_S", 0.3)
    monkeypatch.setattr(ep_context_cache, "_SILENT_WAIT_S", 0.1)
    log.with_suffix(".go").touch()
    start("hang")
    wait_for(log, "compiled", 1)
    count = Compilations(OPENVINO, monkeypatch)
    np.testing.assert_allclose(run_once(model, folder, OPENVINO)[0], EXPECTED, rtol=1e-5)
    assert count.taken() == (1, 0)
    assert "waiting for another process, which compiles the same for OpenVINO" in caplog.text
    assert "it is not waited for" in caplog.text


# --- damaged, and read-only -----------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("backend", "source"), [(OPENVINO, "file"), (OPENVINO, "memory"), (BRIDGE, "file")]
)
def test_a_damaged_entry_is_compiled_anew_and_mended(
    model: Path,
    folder: Path,
    backend: str,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = from_memory(model) if source == "memory" else model
    run_once(given, folder, backend)
    (path,) = folder.glob("*.bin")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    path.write_bytes(data)
    count = Compilations(backend, monkeypatch)
    np.testing.assert_allclose(run_once(given, folder, backend)[0], EXPECTED, rtol=1e-5)
    assert count.taken() == (1, 0)
    assert caplog.text.count("a cached context is dropped") == 1
    run_once(given, folder, backend)
    assert count.taken() == (0, 1)


def test_a_folder_that_can_only_be_read_is_read(
    model: Path,
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_once(model, folder, OPENVINO)

    def refuse(*_arguments: object, **_keywords: object) -> Any:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(file_replacement, "_temporary_beside", refuse)
    monkeypatch.setattr(FileLock, "acquire", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    count = Compilations(OPENVINO, monkeypatch)
    np.testing.assert_allclose(run_once(model, folder, OPENVINO)[0], EXPECTED, rtol=1e-5)
    assert count.taken() == (0, 1)
    other = tmp_path / "other.onnx"
    proto = onnx.load(model)
    (weights,) = (tensor for tensor in proto.graph.initializer if tensor.name == "w")
    weights.CopyFrom(onnx.numpy_helper.from_array(np.zeros((3, 3), np.float32), "w"))
    onnx.save(proto, other)
    run_once(other, folder, OPENVINO)  # a miss
    assert count.taken() == (1, 0)
    assert "cannot be kept" in caplog.text
