"""A session with its native library in a child process: limits hold, crashes are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP
from ortpkg.foundations.errors import (
    CancelledError,
    ExecutionProviderError,
    InvalidSessionOptionError,
    LimitExceededError,
    OrtpkgError,
    RunError,
    SessionError,
)
from ortpkg.foundations.isolation import worker as worker_module
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions, SessionOptions
from tests.isolation.test_run_watch import endless_loop

BACKENDS = ["onnxruntime", "openvino"]
pytestmark = pytest.mark.usefixtures("warm_processes")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="exact memory of another process")

MLP = """
<ir_version: 10, opset_import: ["" : 17]>
mlp (float[N, 4] x, bool c) => (float[N, 3] y, float[N, 4] doubled, bool not_c)
<float[4, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}>
{
    doubled = Add(x, x)
    product = MatMul(doubled, w)
    y = Relu(product)
    not_c = Not(c)
}
"""
STRINGS = """
<ir_version: 10, opset_import: ["" : 17]>
echo (string[N, 2] x) => (string[N, 2] y) { y = Identity(x) }
"""
#: Takes 4 bytes per element several times, whatever its input says.
HUNGRY = """
<ir_version: 10, opset_import: ["" : 17]>
hungry (float[1] x, int64[1] n) => (float total) {
    a = Expand(x, n)
    b = Exp(a)
    c = Sin(b)
    d = Add(b, c)
    total = ReduceSum<keepdims = 0>(d)
}
"""
#: One kernel that takes as long as its input says.
LONG = """
<ir_version: 10, opset_import: ["" : 17]>
long (float[N, N] x) => (float[N, N] y) { y = MatMul(x, x) }
"""
#: OpenVINO folds it to 4 GB while it loads, which takes it a minute.
BOMB = """
<ir_version: 10, opset_import: ["" : 17]>
bomb (float[1] x) => (float[M] y)
<int64[1] n = {500000000}, float[1] one = {1}>
{
    a = Expand(one, n)
    b = Exp(a)
    y = Add(b, x)
}
"""


def data_of(text: str) -> bytes:
    data: bytes = onnx.parser.parse_model(text).SerializeToString()
    return data


def isolated(text: str, backend: str, **options: Any) -> InferenceSession:
    pytest.importorskip(backend)
    return InferenceSession(data_of(text), SessionOptions(**options), backend=backend, isolate=True)


def hungry_feed(elements: int) -> dict[str, Any]:
    return {"x": np.ones(1, np.float32), "n": np.array([elements], np.int64)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_computes_as_in_this_process(backend: str) -> None:
    feed = {"x": np.array([[1, 2, 3, -4]], np.float32), "c": np.array(True)}
    with isolated(MLP, backend) as session:
        for rows in (1, 3, 0):
            fed = {**feed, "x": np.repeat(feed["x"], rows, axis=0)}
            y, doubled, not_c = session.run(None, fed)
            np.testing.assert_array_equal(doubled, 2 * fed["x"])
            assert (y.shape, y.dtype, not_c.shape, not_c.dtype) == (
                (rows, 3),
                np.float32,
                (),
                np.bool_,
            )
            assert y.flags.writeable
        planned = {
            value.name: (value.size, value.nbytes)
            for value in session.get_plan({"N": 3}).graph.values
        }
        assert planned["doubled"] == ("16*N", 48)
        assert session.get_placement().describe().startswith("1 of 1 EPs: ")
        assert (
            f"({backend}, CPU): 4 of 4 nodes, 48 B of weights" in session.get_placement().describe()
        )


def test_texts_cross_over() -> None:
    texts = np.array([["a", "ü€"], ["", "line\nbreak"]], dtype=object)
    with isolated(STRINGS, "onnxruntime") as session:
        (found,) = session.run(None, {"x": texts})
    assert found.tolist() == texts.tolist()


def child_of(session: InferenceSession) -> subprocess.Popen[bytes]:
    (model,) = session._providers[0]._library._models  # type: ignore[attr-defined]
    child: subprocess.Popen[bytes] = model._worker._child
    assert child.poll() is None
    return child


def assert_was_killed(child: subprocess.Popen[bytes]) -> None:
    """It was ended while it computed: one that comes to its end answers and stays.

    How long that took, load decides.
    """
    status = child.wait(timeout=60)
    assert status == (-signal.SIGKILL if os.name == "posix" else 1)


@linux_only
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_native_kernel_that_passes_the_memory_limit_is_ended(backend: str) -> None:
    with isolated(HUNGRY, backend) as session:
        options = RunOptions(memory_limit_nbytes=100_000_000)
        child = child_of(session)
        with pytest.raises(LimitExceededError, match="passes its memory limit of 100 MB") as caught:
            session.run(None, hungry_feed(400_000_000), options)
        assert caught.value.limit == "memory"
        assert_was_killed(child)
        # The next run has a new child.
        assert session.run(None, hungry_feed(10), options)[0] == pytest.approx(
            10 * (np.e + np.sin(np.e)), rel=1e-5
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_native_kernel_that_never_looks_up_is_ended_at_its_time(backend: str) -> None:
    with isolated(LONG, backend) as session:
        child = child_of(session)
        with pytest.raises(LimitExceededError, match=r"the run passed its time limit of 0\.5 s"):
            session.run(None, {"x": np.ones((9000, 9000), np.float32)}, RunOptions(timeout_s=0.5))
        assert_was_killed(child)


def test_terminate_ends_a_native_kernel() -> None:
    pytest.importorskip("onnxruntime")
    options = RunOptions()
    with InferenceSession(endless_loop(), backend="onnxruntime", isolate=True) as session:
        threading.Timer(0.2, setattr, (options, "terminate", True)).start()
        with pytest.raises(CancelledError):
            session.run(None, {"x": np.ones(1, np.float32)}, options)


@linux_only
def test_a_model_that_unfolds_while_it_loads_is_ended() -> None:
    with pytest.raises(
        LimitExceededError, match=r"loading the model takes .* memory limit of 200 MB"
    ):
        isolated(BOMB, "openvino", memory_limit_nbytes=200_000_000)


def test_a_model_that_takes_too_long_to_load_is_ended() -> None:
    # On a busy machine the limit may be passed while the model is read here, before a child has it.
    with pytest.raises(
        LimitExceededError,
        match=r"(loading the model|making the session) passed .* limit of 20 ms",
    ):
        isolated(MLP, "onnxruntime", timeout_s=0.02)


def end_child_of(session: InferenceSession, how: signal.Signals) -> None:
    os.kill(child_of(session).pid, how)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    ("how", "told"),
    [
        (signal.SIGSEGV, "it was ended by SIGSEGV"),
        (signal.SIGABRT, "it was ended by SIGABRT"),
        (signal.SIGKILL, "it was ended by SIGKILL, as the system does where memory runs out"),
    ],
)
def test_a_crash_during_a_run_is_an_error_and_the_next_run_works(
    how: signal.Signals, told: str
) -> None:
    pytest.importorskip("onnxruntime")
    with InferenceSession(endless_loop(), backend="onnxruntime", isolate=True) as session:
        threading.Timer(0.3, end_child_of, (session, how)).start()
        with pytest.raises(
            RunError, match=f"the process in which onnxruntime ran the model is no more: {told}"
        ):
            session.run(None, {"x": np.ones(1, np.float32)})
        with pytest.raises(LimitExceededError):
            session.run(None, {"x": np.ones(1, np.float32)}, RunOptions(timeout_s=0.2))


@pytest.mark.skipif(os.name != "posix", reason="a script as interpreter")
def test_a_library_that_crashes_while_it_is_loaded_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    pytest.importorskip("onnxruntime")
    crashing = tmp_path / "python"
    crashing.write_text("#!/bin/sh\necho 'no such symbol' >&2\nkill -ABRT $$\n", encoding="ascii")
    crashing.chmod(0o755)
    monkeypatch.setenv("ORTPKG_PYTHON", str(crashing))
    with pytest.raises(
        ExecutionProviderError,
        match="onnxruntime cannot be loaded: it was ended by SIGABRT; its last",
    ):
        isolated(MLP, "onnxruntime")
    monkeypatch.setenv("ORTPKG_PYTHON", str(tmp_path / "missing"))
    with pytest.raises(
        ExecutionProviderError, match=r"for onnxruntime: ORTPKG_PYTHON is .*: No such file"
    ):
        isolated(MLP, "onnxruntime")


def test_a_model_that_the_library_refuses_goes_to_the_next_provider_as_ever() -> None:
    pytest.importorskip("openvino")
    providers = [(OPENVINO_EP, {"device_type": "NO_SUCH_DEVICE"})]
    feed = {"x": np.ones((1, 4), np.float32), "c": np.array(True)}
    with InferenceSession(
        data_of(MLP), providers=providers, isolate=True, allow_fallback=True
    ) as session:
        idle, embedded = session.get_placement().entries
        assert (idle.node_count, embedded.backend, embedded.is_fallback) == (0, "embedded", True)
        assert "NO_SUCH_DEVICE" in idle.reason
        session.run(None, feed)


def test_options_of_the_devices_that_were_chosen_reach_the_child() -> None:
    pytest.importorskip("openvino")
    device = EpDevice(
        ep_name=OPENVINO_EP,
        backend="openvino",
        device=None,
        ep_options={"device_type": "NO_SUCH_DEVICE"},
    )
    with pytest.raises(ExecutionProviderError, match=r"takes no node .*NO_SUCH_DEV"):
        InferenceSession(data_of(MLP), ep_devices=[(device, {})], isolate=True)


@pytest.mark.parametrize(
    ("providers", "backend", "error", "message"),
    [
        (
            [(OPENVINO_EP, {"nonsense": "1"})],
            None,
            InvalidSessionOptionError,
            "has no option 'nonsense'",
        ),
        (
            ["NoSuchExecutionProvider"],
            "onnxruntime",
            ExecutionProviderError,
            "NoSuchExecutionProvider",
        ),
    ],
)
def test_what_the_library_does_not_know_is_an_error_at_creation(
    providers: Any, backend: str | None, error: type[OrtpkgError], message: str
) -> None:
    for each in BACKENDS:
        pytest.importorskip(each)
    with pytest.raises(error, match=message):
        InferenceSession(data_of(MLP), providers=providers, backend=backend, isolate=True)


def test_the_embedded_engine_needs_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "start_process", None)
    feed = {"x": np.ones((1, 4), np.float32), "c": np.array(True)}
    with InferenceSession(data_of(MLP), providers=[CPU_EP], isolate=True) as session:
        y, doubled, not_c = session.run(None, feed)

    assert (y.tolist(), doubled.tolist(), bool(not_c)) == ([[4, 4, 4]], [[2, 2, 2, 2]], False)


@pytest.mark.sampled(2)
@pytest.mark.requirement("D09")
@pytest.mark.parametrize("isolate", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_threads_run_while_one_closes(backend: str, isolate: bool) -> None:
    pytest.importorskip(backend)
    session = InferenceSession(data_of(MLP), backend=backend, isolate=isolate)
    wrong: list[str] = []

    def work(value: float) -> None:
        feed = {"x": np.full((2, 4), value, np.float32), "c": np.array(True)}
        try:
            while True:
                if not (session.run(["doubled"], feed)[0] == 2 * value).all():
                    wrong.append("a foreign result")
        except SessionError as error:
            if "closed" not in str(error):
                wrong.append(str(error))

    threads = [threading.Thread(target=work, args=[float(number)]) for number in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    session.close()
    session.close()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_the_limit_of_a_run_that_waits_for_another_ends_only_itself() -> None:
    pytest.importorskip("onnxruntime")
    with InferenceSession(endless_loop(), backend="onnxruntime", isolate=True) as session:
        options = RunOptions()
        how: list[type[BaseException]] = []

        def run_long() -> None:
            with pytest.raises(OrtpkgError) as caught:
                session.run(None, {"x": np.ones(1, np.float32)}, options)
            how.append(caught.type)

        long = threading.Thread(target=run_long)
        long.start()
        time.sleep(0.2)
        with pytest.raises(LimitExceededError, match=r"time limit of 0\.3 s"):
            session.run(None, {"x": np.ones(1, np.float32)}, RunOptions(timeout_s=0.3))
        assert long.is_alive()
        assert how == []
        options.terminate = True
        long.join(60)
        assert [issubclass(kind, CancelledError) for kind in how] == [True]
