"""A run inside a foreign library ends when its time is up or its caller says so."""

from __future__ import annotations

import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ortpkg.foundations.errors import CancelledError, LimitExceededError
from ortpkg.foundations.isolation import run_watch
from ortpkg.foundations.isolation.run_watch import run_watched
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions


class Context:
    """The part of OpKernelContext that the watch asks."""

    def __init__(self, control: RunControl) -> None:
        self.is_watched = control.is_watched
        self.is_memory_limited = control.is_memory_limited
        self._check = control.check
        self.check_allocation = control.check_allocation

    def check_cancelled(self) -> None:
        self._check()


def endless_loop() -> bytes:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["go_on"]),
            helper.make_node("Add", ["s", "one"], ["s_next"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s_next", TensorProto.FLOAT, [1]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "forever", "x"], ["y"], body=body)],
        "endless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [
            helper.make_tensor("forever", TensorProto.BOOL, [], [True]),
            helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


@pytest.fixture(scope="module")
def session() -> InferenceSession:
    onnx.checker.check_model(onnx.load_from_string(endless_loop()))
    return InferenceSession(endless_loop(), backend="onnxruntime")


def test_a_run_in_onnxruntime_ends_when_its_time_is_up(session: InferenceSession) -> None:
    options = RunOptions()
    options.timeout_s = 0.2
    with pytest.raises(LimitExceededError, match=r"the run passed its time limit of 0\.2 s"):
        session.run(None, {"x": np.ones(1, np.float32)}, options)


def test_a_run_in_onnxruntime_ends_when_its_caller_says_so(session: InferenceSession) -> None:
    options = RunOptions()
    timer = threading.Timer(0.1, lambda: setattr(options, "terminate", True))
    timer.start()
    with pytest.raises(CancelledError, match="ended by its caller"):
        session.run(None, {"x": np.ones(1, np.float32)}, options)
    timer.join()


def test_a_call_that_ends_in_time_is_left_alone() -> None:
    stopped: list[bool] = []
    context = Context(RunControl(timeout_s=60.0))
    assert run_watched(context, lambda: 7, lambda: stopped.append(True)) == 7
    assert stopped == []


@pytest.mark.parametrize(
    ("control", "is_read"),
    [(RunControl(timeout_s=60.0), False), (RunControl(memory_limit_nbytes=1 << 40), True)],
    ids=["time limit", "memory limit"],
)
def test_memory_is_read_only_where_it_is_limited(control: RunControl, is_read: bool) -> None:
    looked, reads = threading.Event(), []

    class Looked(Context):
        """Waits until the watching thread has looked twice, so at the memory, too."""

        def check_cancelled(self) -> None:
            if self.is_seen:
                looked.set()
            self.is_seen = True

        is_seen = False

    def resident_nbytes() -> int:
        reads.append(True)
        return 0

    context = Looked(control)
    assert run_watched(
        context, lambda: looked.wait(30), lambda: None, resident_nbytes=resident_nbytes
    )
    assert bool(reads) is is_read


def test_an_error_of_the_library_itself_is_not_hidden() -> None:
    def fail() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_watched(Context(RunControl(timeout_s=60.0)), fail, lambda: None)


def test_several_calls_are_watched_at_once() -> None:
    ended = [threading.Event() for _ in range(4)]

    def run(place: int) -> None:
        def wait() -> None:
            assert ended[place].wait(30)
            raise RuntimeError("stopped")

        context = Context(RunControl(timeout_s=0.05 * (place + 1)))
        with pytest.raises(LimitExceededError):
            run_watched(context, wait, ended[place].set)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(4)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(event.is_set() for event in ended)
    assert time.monotonic() - start < 30


def _woken(monkeypatch: pytest.MonkeyPatch, watch: run_watch._Watch) -> list[bool]:
    """A list that gets an entry whenever the watching thread is notified."""
    found: list[bool] = []
    notify = watch._changed.notify

    def counted() -> None:
        found.append(True)
        notify()

    monkeypatch.setattr(watch._changed, "notify", counted)
    return found


def test_calls_that_follow_each_other_do_not_wake_the_watching_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = run_watch._Watch()
    monkeypatch.setattr(run_watch, "_WATCH", watch)
    woken = _woken(monkeypatch, watch)
    context = Context(RunControl(timeout_s=60.0))
    for _ in range(200):
        run_watched(context, lambda: None, lambda: None)
    assert woken == []


def test_a_call_after_a_long_pause_wakes_the_watching_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_watch, "_MOST_IDLE_LOOKS", 2)
    watch = run_watch._Watch()
    monkeypatch.setattr(run_watch, "_WATCH", watch)
    woken = _woken(monkeypatch, watch)
    stopped = threading.Event()
    for _ in range(2):
        stopped.clear()
        run_watched(Context(RunControl(timeout_s=60.0)), lambda: None, lambda: None)
        deadline = time.monotonic() + 30
        while not watch._is_asleep and time.monotonic() < deadline:
            time.sleep(0.005)
        assert watch._is_asleep

        with pytest.raises(LimitExceededError, match="time limit"):
            run_watched(Context(RunControl(timeout_s=0.05)), lambda: stopped.wait(30), stopped.set)
        assert woken
        woken.clear()
