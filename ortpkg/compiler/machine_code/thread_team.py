"""The worker threads of a session, which stay inside compiled code for their whole life.

The thread that calls a run leads it; the workers help, and sleep in between. A team helps one run
at a time; a run that finds it busy is computed by one thread, so that runs of several threads
overlap.

On Linux, workers run on other cores than their leader's: if the other cores have work, the system
places a woken thread on the core that woke it, where it would take the leader's time.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.machine_code.core_placement import current_core, restrict_to, usable_core_set
from ortpkg.compiler.machine_code.executable_memory import ExecutableCode
from ortpkg.compiler.machine_code.executor_abi import (
    DISMISS_FUNCTION,
    TEAM_WORDS,
    WORK_FUNCTION,
    TeamWord,
)
from ortpkg.compiler.machine_code.system_waiting import wait_functions
from ortpkg.foundations.host.cores import usable_cores
from ortpkg.foundations.host.turns import Turn

#: More threads would not help, and each needs scratch memory in each run.
_MOST_THREADS = 256
#: Spins of a thread before it sleeps: some 200 microseconds, a few times the time of waking.
_SPINS = 10_000
#: Timeout for workers to leave compiled code after they are dismissed, which takes no time.
_MOST_LEAVING_S = 10.0


class ThreadTeam:
    """The threads of one session, shared by its compiled partitions.

    Workers are started when a run first needs them, and end when the team is closed or garbage.

    Attributes:
        thread_count: number of threads that work on a run, including the leader.
        spins: number of checks of a waiting thread before it sleeps.
    """

    def __init__(self, thread_count: int = 0) -> None:
        """Create a team of this many threads; 0 for as many as this process has cores."""
        cores = usable_cores()
        self.thread_count = min(thread_count or cores, _MOST_THREADS)
        self.spins = _SPINS if self.thread_count <= cores else 0
        self._is_closed = False
        self.forget()
        _TEAMS.add(self)

    def forget(self) -> None:
        """Reset in a fork, which lacks the threads and may have locks that they held."""
        self._turn = Turn()
        self._changes = threading.RLock()  # reentrant, since a signal handler may run a model
        self._workers: _Workers | None = None
        self._leader_core: int | None = None

    def borrow(
        self,
        holder: threading.Lock,
        code: ExecutableCode,
        functions: Mapping[str, int],
        launch: LeftLaunch | None = None,
    ) -> int:
        """Return the team's address for one run; 0 if it helps another run, or has no workers.

        Args:
            holder: lock whose holding, in a ``with`` statement, keeps the team for the run.
            code: code to run; workers stay in the code that asks first, since the executor is the
                same in
                all code.
            functions: offsets of the executor's functions in it.
            launch: words of the run, which workers may still read when it has ended; it is kept
                alive
                until they have left.
        """
        if self.thread_count < 2:
            return 0
        with self._changes:
            if self._is_closed or not self._turn.claim(holder):
                return 0
            workers = self._workers or self._make_workers(code, functions)
            if workers is None:
                self._is_closed = True
                return 0
            if launch is not None:
                workers.keep(launch)
            core = current_core()
            if core != self._leader_core:
                self._leader_core = core
                workers.avoid(core)
            return workers.address

    def _make_workers(self, code: ExecutableCode, functions: Mapping[str, int]) -> _Workers | None:
        """Start the workers; None if the system cannot start any, which must not fail a run."""
        workers = _Workers(code, functions, count=self.thread_count - 1, spins=self.spins)
        weakref.finalize(self, workers.dismiss)
        try:
            workers.start()
            self._workers = workers
        except BaseException as error:
            self._workers = None
            workers.dismiss()
            if isinstance(error, RuntimeError):
                return None
            raise  # an interrupt: the next run makes others
        return workers

    def close(self) -> None:
        """End the workers, after the run that they help; later runs use a single thread.

        If an interrupt ends the wait, a second call resumes it.
        """
        with self._changes:
            self._is_closed = True
        self._turn.wait()
        workers = self._workers
        if workers is not None:
            workers.dismiss()
            workers.join()
            self._workers = None


class LeftLaunch(Protocol):
    """A launch whose run has ended, and which workers read until they have left."""

    @property
    def helpers(self) -> int:
        """Number of workers still inside."""


class _Workers:
    """Threads inside ``work``, and the words that call them."""

    def __init__(
        self, code: ExecutableCode, functions: Mapping[str, int], *, count: int, spins: int
    ) -> None:
        self._code = code.another()
        self._words: npt.NDArray[np.int64] = np.zeros(TEAM_WORDS, np.int64)
        self._words[TeamWord.WAIT], self._words[TeamWord.WAKE] = wait_functions()
        self._words[TeamWord.SPINS] = spins
        self.address = int(self._words.ctypes.data)
        self._left: list[LeftLaunch] = []
        self._is_dismissed = False
        self._dismiss = ctypes.CFUNCTYPE(None, ctypes.c_int64)(
            code.address + functions[DISMISS_FUNCTION]
        )
        self._threads = [
            threading.Thread(
                target=_work,
                # The arguments keep memory and code alive until the last thread has left.
                args=(
                    (self._code.another(), self._left),
                    functions[WORK_FUNCTION],
                    self._words,
                    number,
                ),
                name=f"ortpkg-worker-{number}",
                daemon=True,
            )
            for number in range(1, count + 1)
        ]

    def start(self) -> None:
        """Start the threads; RuntimeError if the system cannot start more."""
        for thread in self._threads:
            thread.start()

    def avoid(self, core: int | None) -> None:
        """Restrict the threads to the cores that the caller may use now, except this one.

        If no other core is left, they stay where they are.
        """
        native_ids = [thread.native_id for thread in self._threads if thread.native_id is not None]
        restrict_to(usable_core_set() - {core}, native_ids)

    def keep(self, launch: LeftLaunch) -> None:
        """Keep a launch that begins, and earlier ones that a worker has not left."""
        self._left[:] = [
            *(left_launch for left_launch in self._left if left_launch.helpers),
            launch,
        ]

    def dismiss(self) -> None:
        """Ask the threads to leave as soon as they can."""
        if not self._is_dismissed:
            self._dismiss(self.address)
            self._is_dismissed = True
            self._code.close()

    def join(self) -> None:
        """Wait until they have left."""
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(_MOST_LEAVING_S)


def _work(
    held: tuple[ExecutableCode, list[LeftLaunch]],
    function: int,
    words: npt.NDArray[np.int64],
    number: int,
) -> None:
    """Run a worker until it is dismissed."""
    with held[0] as code:
        work = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(code.address + function)
        work(int(words.ctypes.data), number)


_TEAMS: weakref.WeakSet[ThreadTeam] = weakref.WeakSet()


def _forget_teams() -> None:
    for team in list(_TEAMS):
        team.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_teams)
