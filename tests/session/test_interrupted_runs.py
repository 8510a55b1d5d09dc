"""Interrupts at every moment of a run: the session runs on with all threads, and closes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import SessionError
from ortpkg.foundations.isolation import polling
from ortpkg.runtime.kernels import blas_threads
from tests.session.conftest import model_of, options_of

#: Two products that threads share, and nodes beside each other for parallel execution.
MODEL = """
g (float[N, 64] x, float[64, 64] w) => (float[N, 64] y) {
  a = MatMul(x, w)
  b = MatMul(x, w)
  c = Relu(a)
  d = Neg(b)
  y = Add(c, d)
}
"""
FEED = {
    "x": np.linspace(-1, 1, 512 * 64, dtype=np.float32).reshape(512, 64),
    "w": np.eye(64, dtype=np.float32),
}
ENGINES: dict[str, dict[str, Any]] = {
    "numpy": {},
    "numpy, two threads": {"intra_op_num_threads": 2},
    "numpy, limited": {"timeout_s": 600.0, "memory_limit_nbytes": 1 << 33},
    "numpy, parallel": {
        "execution_mode": ortpkg.ExecutionMode.ORT_PARALLEL,
        "inter_op_num_threads": 3,
    },
    "machine code": {"providers": ["LLVMExecutionProvider"], "intra_op_num_threads": 2},
    "machine code, limited": {
        "providers": ["LLVMExecutionProvider"],
        "intra_op_num_threads": 2,
        "timeout_s": 600.0,
    },
}
_MOST_S = 60


def session_on(engine: str) -> ortpkg.InferenceSession:
    """Make a session of the model on one of the engines."""
    options = dict(ENGINES[engine])
    providers = options.pop("providers", ["CPUExecutionProvider"])
    return ortpkg.InferenceSession(
        model_of(MODEL).SerializeToString(), options_of(**options), providers=providers
    )


class Interrupt(BaseException):
    """Raised by a handler of a signal."""


class _InterruptAt:
    """Raises at one of the moments at which the interpreter looks for signals.

    These are the beginning of each Python function, and the end of each call of a C function.
    """

    def __init__(self, moment: int) -> None:
        self.left = moment
        self.has_come = False

    def __call__(self, _frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "c_return"):
            return
        self.left -= 1
        if self.left == -1 and not self.has_come:
            self.has_come = True
            raise Interrupt


def interrupted(moment: int, call: Callable[[], object]) -> bool:
    """Call it; an exception comes after so many moments. Return False if it ended before."""
    interrupt = _InterruptAt(moment)
    try:
        sys.setprofile(interrupt)
        call()
        interrupt.left = -2  # what follows is ours
        sys.setprofile(None)
    except Interrupt:
        sys.setprofile(None)
    return interrupt.has_come


def assert_as_before(session: ortpkg.InferenceSession, expected: np.ndarray[Any, Any]) -> None:
    """Check that a run computes what it did, with all threads, and that nothing is left taken."""
    (y,) = session.run(None, FEED)
    np.testing.assert_array_equal(y, expected)
    assert not session._state.is_inside()
    assert not blas_threads._counts.requests
    assert not blas_threads._counts.is_changed
    assert not [lock for lock, _ in polling._runs.checks if lock.locked()]
    for provider in session._providers:
        if (team := getattr(provider, "_team", None)) is not None:
            assert not team._turn._holder.locked()
            assert not team._is_closed
            assert team._workers is not None


def close_in_time(session: ortpkg.InferenceSession) -> None:
    """Close the session from another thread, which must not have to wait."""
    closing = threading.Thread(target=session.close, daemon=True)
    closing.start()
    closing.join(_MOST_S)
    assert not closing.is_alive(), "close() waits for a run that has ended"


#: An interrupt in the middle of a finalizer cannot be raised: the interpreter prints it.
PRINTED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@PRINTED
@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupt_at_any_moment_of_a_run_leaves_the_session_whole(engine: str) -> None:
    session = session_on(engine)
    for _ in range(3):  # what only the first runs do is behind us
        (expected,) = session.run(None, FEED)
    moment = 0
    while True:
        has_come = interrupted(moment, lambda: session.run(None, FEED))
        assert_as_before(session, expected)
        if not has_come:
            break
        moment += 1
    assert moment > 20, "a run has more moments than that"
    close_in_time(session)


@PRINTED
def test_an_interrupt_at_any_moment_of_the_first_run_leaves_the_session_whole() -> None:
    expected = None
    for moment in range(0, 400, 7):
        session = session_on("machine code")
        interrupted(moment, partial(session.run, None, FEED))
        (y,) = session.run(None, FEED)
        expected = y if expected is None else expected
        assert_as_before(session, expected)
        close_in_time(session)


@PRINTED
def test_an_interrupt_at_any_moment_of_close_leaves_it_to_be_called_again() -> None:
    moment, has_come = 0, True
    while has_come:
        session = session_on("machine code")
        session.run(None, FEED)
        has_come = interrupted(moment, session.close)
        close_in_time(session)
        assert session._is_released
        with pytest.raises(SessionError, match="closed"):
            session.run(None, FEED)
        moment += 3
    assert [t.name for t in threading.enumerate() if t.name.startswith("ortpkg-worker")] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_closing_in_the_middle_of_a_run_closes_when_it_ends(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_on(engine)
    (expected,) = session.run(None, FEED)
    run_inside = session._state.executable._run_inside
    closed = []

    def close_first(*arguments: Any) -> Any:
        session.close()  # as a handler of a signal does that comes now
        closed.append(session._is_released)
        return run_inside(*arguments)

    monkeypatch.setattr(session._state.executable, "_run_inside", close_first)
    (y,) = session.run(None, FEED)
    np.testing.assert_array_equal(y, expected)
    assert closed == [False]
    assert session._is_released
    with pytest.raises(SessionError, match="closed"):
        session.run(None, FEED)


def test_providers_are_not_exchanged_in_the_middle_of_a_run() -> None:
    with session_on("numpy") as session:
        plain = session._state.executable._execute

        def exchange(instructions: Any, frame: Any) -> None:
            with pytest.raises(SessionError, match="in the middle of one"):
                session.set_providers(["CPUExecutionProvider"])
            plain(instructions, frame)

        session._state.executable._execute = exchange
        session.run(None, FEED)


PROGRAM = """
import os, random, signal, sys, threading, time
import numpy as np
import ortpkg
from tests.session.test_interrupted_runs import FEED, assert_as_before, close_in_time, session_on

engine, is_async, count = sys.argv[1], sys.argv[2] == "async", int(sys.argv[3])
random.seed(engine)


class Deadline(Exception):
    pass


def end_process(_number, _frame):
    sys.exit(3)


class Handler:
    def raise_deadline(self, number, frame):
        raise Deadline(number)


signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, end_process)
signal.signal(signal.SIGALRM, Handler().raise_deadline)
OWN = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: SystemExit, signal.SIGALRM: Deadline}
session = session_on(engine)
(expected,) = session.run(None, FEED)
began = time.perf_counter()
for _ in range(10):
    session.run(None, FEED)
run_s = (time.perf_counter() - began) / 10
caught = 0
for number in range(count):
    wanted = random.choice(list(OWN))
    sender = threading.Timer(random.uniform(0, run_s), os.kill, (os.getpid(), wanted))
    done = threading.Event()
    try:
        sender.start()
        if is_async:
            session.run_async(None, FEED, lambda *_: done.set())
            done.wait(60)
        else:
            session.run(None, FEED)
        sender.join()
        time.sleep(60)
    except BaseException as error:
        assert type(error) is OWN[wanted], repr(error)
        caught += 1
        if is_async:
            done.wait(0.2)  # for ever, where the signal came before the run began
    sender.join()
    assert_as_before(session, expected)
    if number % 50 == 49:
        close_in_time(session)
        session = session_on(engine)
        session.run(None, FEED)
close_in_time(session)
print(caught)
"""


@pytest.mark.sampled(2)
@pytest.mark.skipif(os.name != "posix", reason="signals that a process sends itself")
@pytest.mark.parametrize(
    ("engine", "how"), [*((engine, "run") for engine in ENGINES), ("numpy", "async")]
)
@pytest.mark.usefixtures("warm_processes")
def test_hundreds_of_signals_leave_the_session_whole(engine: str, how: str) -> None:
    count = int(os.environ.get("ORTPKG_TEST_INTERRUPTS", "60"))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, engine, how, str(count)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert (done.returncode, done.stdout) == (0, f"{count}\n"), done.stderr
