"""A worker serves until it is ended; how it ends is told."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ortpkg.foundations.isolation.worker import (
    Buffer,
    Message,
    Worker,
    WorkerCallError,
    WorkerEndedError,
)

MAKE = "tests.isolation.worker_functions:make"
ARGUMENTS = {"greeting": "Hello"}


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker(MAKE, ARGUMENTS)
    yield worker
    worker.close()


def ask(worker: Worker, action: str, **header: object) -> Message:
    return worker.call(Message(header={"action": action, **header}))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ends(pid: int) -> bool:
    """Whether the process ends, sooner or later."""
    deadline = time.monotonic() + 60
    while is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_requests_and_replies_carry_json_and_bytes_of_any_size(worker: Worker) -> None:
    buffers: list[Buffer] = [b"", b"abc", bytearray(range(256)) * 20_000]
    reply = worker.call(Message(header={"action": "greet", "name": "World"}, buffers=buffers))
    assert reply.header["said"] == "Hello, World"
    assert [bytes(each) for each in reply.buffers] == [bytes(each) for each in reversed(buffers)]


def test_what_the_handler_raises_is_told_and_the_worker_goes_on(worker: Worker) -> None:
    with pytest.raises(WorkerCallError, match="no such thing") as caught:
        ask(worker, "raise")
    assert caught.value.kind == "LookupError"
    assert ask(worker, "greet", name="again").header["said"] == "Hello, again"


def test_a_handler_that_cannot_be_made_is_told() -> None:
    worker = Worker("tests.isolation.worker_functions:fail", {})
    with pytest.raises(WorkerCallError, match="there is no handler"):
        ask(worker, "greet", name="x")
    worker.close()


def test_a_worker_that_exits_is_told_with_its_last_words(worker: Worker) -> None:
    with pytest.raises(
        WorkerEndedError, match="it ended with status 3; its last words: 'last words'"
    ):
        ask(worker, "print and exit")
    assert not worker.is_alive
    with pytest.raises(WorkerEndedError, match="it ended with status 3"):
        ask(worker, "greet", name="x")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_crash_is_told_by_its_signal(worker: Worker) -> None:
    with pytest.raises(WorkerEndedError, match="it was ended by SIGSEGV"):
        ask(worker, "crash")


def test_killing_ends_a_call_that_never_would(worker: Worker) -> None:
    threading.Timer(0.2, worker.kill, ["enough"]).start()
    start = time.monotonic()
    with pytest.raises(WorkerEndedError, match="enough"):
        ask(worker, "sleep")
    assert time.monotonic() - start < 10


def test_closing_ends_a_call_under_way_and_may_come_twice(worker: Worker) -> None:
    threading.Timer(0.2, worker.close).start()
    with pytest.raises(WorkerEndedError, match="it was closed"):
        ask(worker, "sleep")
    worker.close()
    worker.close()
    with pytest.raises(WorkerEndedError, match="it was closed"):
        ask(worker, "greet", name="x")


def test_calls_of_many_threads_get_their_own_replies(worker: Worker) -> None:
    wrong: list[str] = []

    def work(name: str) -> None:
        for _ in range(20):
            said = ask(worker, "greet", name=name).header["said"]
            if said != f"Hello, {name}":
                wrong.append(said)

    threads = [threading.Thread(target=work, args=[f"thread {number}"]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_memory_of_a_worker_is_its_own(worker: Worker) -> None:
    ask(worker, "greet", name="x")
    if sys.platform == "linux":
        assert 1_000_000 < worker.resident_nbytes() < 1_000_000_000


@pytest.mark.skipif(os.name != "posix", reason="process ids")
def test_a_worker_that_nobody_has_any_more_ends() -> None:
    worker = Worker(MAKE, ARGUMENTS)
    pid = ask(worker, "pid").header["pid"]
    del worker
    gc.collect()
    assert ends(pid)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_neither_uses_nor_ends_the_worker_of_its_parent(worker: Worker) -> None:
    ask(worker, "greet", name="x")

    def in_fork() -> None:
        worker.kill("from the fork")
        worker.close()
        os._exit(7 if worker.is_alive else 0)

    fork = multiprocessing.get_context("fork").Process(target=in_fork, daemon=True)
    fork.start()
    fork.join(20)
    assert fork.exitcode == 0
    assert ask(worker, "greet", name="parent").header["said"] == "Hello, parent"


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_worker_does_not_outlive_a_parent_that_was_killed() -> None:
    program = (
        "from ortpkg.foundations.isolation.worker import Worker, Message\n"
        f"worker = Worker({MAKE!r}, {ARGUMENTS!r})\n"
        "print(worker.call(Message(header={'action': 'pid'})).header['pid'], flush=True)\n"
        "worker.call(Message(header={'action': 'sleep'}))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    time.sleep(0.2)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert ends(pid)
