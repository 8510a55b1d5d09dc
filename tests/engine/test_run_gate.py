"""Runs are let into a session while it is open, and closing waits for those of this process."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from ortpkg.foundations.errors import SessionError
from ortpkg.runtime.engine.run_gate import RunGate

_MOST_S = 60


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_closing_in_a_fork_waits_for_no_run_of_the_parent() -> None:
    gate = RunGate()
    with gate.ticket():
        child = os.fork()
        if child == 0:
            signal.alarm(_MOST_S)
            gate.close()
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gate.close()
    with pytest.raises(SessionError, match="the session is closed"):
        gate.enter()


def test_closing_waits_for_runs_of_other_threads() -> None:
    gate = RunGate()
    order: list[str] = []
    inside, may_leave = threading.Event(), threading.Event()

    def run() -> None:
        ticket = gate.ticket()
        with ticket:
            gate.enter()
            inside.set()
            may_leave.wait()
            order.append("left")
        gate.leave(ticket)

    def close() -> None:
        gate.close()
        order.append("closed")

    running = threading.Thread(target=run)
    running.start()
    inside.wait()
    assert not gate.is_inside()
    closing = threading.Thread(target=close)
    closing.start()
    may_leave.set()
    closing.join()
    running.join()
    assert order == ["left", "closed"]


def test_a_run_that_an_interrupt_ends_anywhere_is_not_inside() -> None:
    gate = RunGate()
    ticket = gate.ticket()  # an interrupt comes here
    assert not gate.is_inside()
    with pytest.raises(KeyboardInterrupt), ticket:
        _fail_inside(gate)
    assert not gate.is_inside()  # although nobody called leave()
    gate.close()


def _fail_inside(gate: RunGate) -> None:
    assert gate.is_inside()
    raise KeyboardInterrupt
