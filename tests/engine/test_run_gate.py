"""Runs are let into a session while it is open, and closing waits for those of this process."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from ortpkg.engine.run_gate import RunGate
from ortpkg.errors import SessionError

_MOST_S = 60


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_closing_in_a_fork_waits_for_no_run_of_the_parent() -> None:
    gate = RunGate()
    with gate:
        child = os.fork()
        if child == 0:
            signal.alarm(_MOST_S)
            gate.close()
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gate.close()
    with pytest.raises(SessionError, match="the session is closed"), gate:
        pass
