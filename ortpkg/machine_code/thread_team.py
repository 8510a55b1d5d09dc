"""The worker threads of a session: each is inside of compiled code for its whole life.

A run is led by the thread that asks for it, and helped by the workers, which sleep in between. A
team helps one run at a time; whoever finds it lent computes alone, so that runs from several
threads go side by side.

Where the system lets a program say so (Linux), workers run on other cores than the one that their
leader is on: a system puts a thread that is woken where it was woken from, if the other cores have
work, and there it would take the leader's time.
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

from ortpkg.host.cores import usable_cores
from ortpkg.host.turns import Turn
from ortpkg.machine_code.core_placement import current_core, restrict_to, usable_core_set
from ortpkg.machine_code.executable_memory import ExecutableCode
from ortpkg.machine_code.executor_abi import (
    DISMISS_FUNCTION,
    TEAM_WORDS,
    WORK_FUNCTION,
    TeamWord,
)
from ortpkg.machine_code.system_waiting import wait_functions

#: More threads than that help nobody, and each has scratch memory in each run.
_MOST_THREADS = 256
#: How often a thread looks before it sleeps: some 200 microseconds, a few times what waking takes.
_SPINS = 10_000
#: Workers leave compiled code at once when they are dismissed.
_MOST_LEAVING_S = 10.0


class ThreadTeam:
    """The threads of one session, shared by its compiled partitions.

    Its workers are made when a run first asks for them, and end when it is closed, or nobody uses
    it any more.

    Attributes:
        thread_count: how many threads work on a run, the one that leads it among them.
        spins: how often a thread looks before it sleeps.
    """

    def __init__(self, thread_count: int = 0) -> None:
        """With so many threads; 0: as many as there are cores for this process."""
        cores = usable_cores()
        self.thread_count = min(thread_count or cores, _MOST_THREADS)
        self.spins = _SPINS if self.thread_count <= cores else 0
        self._is_closed = False
        self.forget()
        _TEAMS.add(self)

    def forget(self) -> None:
        """Starts anew in a fork, which lacks our threads and may have locks that they held."""
        self._turn = Turn()
        self._changes = threading.RLock()  # a signal handler that comes in between may run, too
        self._workers: _Workers | None = None
        self._leader_core: int | None = None

    def borrow(
        self,
        holder: threading.Lock,
        code: ExecutableCode,
        functions: Mapping[str, int],
        launch: LeftLaunch | None = None,
    ) -> int:
        """The address of the team for one run; 0 where it helps another run, or has no workers.

        Args:
            holder: the run has the team for as long as it holds this, by a ``with`` statement.
            code: that is to be run; workers stay in the code that asks first, since the executor is
                the same in all.
            functions: where the executor begins in it.
            launch: the words of the run, which workers may still be about to leave when it has
                ended; it is held until they have.
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
        """Start the workers; None where the system lets none start, which must not fail a run."""
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
        """Ends the workers, after the run that they help; runs that follow are computed alone.

        Where an interrupt ends the wait, calling it again goes on.
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
        """How many are still inside."""


class _Workers:
    """Threads inside of ``work``, and the words by which they are called."""

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
                # What it uses it holds: memory and code outlive the last thread in them.
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
        """Starts the threads. RuntimeError where the system has no more."""
        for thread in self._threads:
            thread.start()

    def avoid(self, core: int | None) -> None:
        """Has the threads run on the cores that the caller may use now, but not on that.

        Where no other core is left, they stay where they are.
        """
        native_ids = [each.native_id for each in self._threads if each.native_id is not None]
        restrict_to(usable_core_set() - {core}, native_ids)

    def keep(self, launch: LeftLaunch) -> None:
        """Holds a launch that begins, and those before it that a worker has not left."""
        self._left[:] = [
            *(left_launch for left_launch in self._left if left_launch.helpers),
            launch,
        ]

    def dismiss(self) -> None:
        """Has the threads leave as soon as they can."""
        if not self._is_dismissed:
            self._dismiss(self.address)
            self._is_dismissed = True
            self._code.close()

    def join(self) -> None:
        """Waits until they have left."""
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(_MOST_LEAVING_S)


def _work(
    held: tuple[ExecutableCode, list[LeftLaunch]],
    function: int,
    words: npt.NDArray[np.int64],
    number: int,
) -> None:
    """A worker's life."""
    with held[0] as code:
        work = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(code.address + function)
        work(int(words.ctypes.data), number)


_TEAMS: weakref.WeakSet[ThreadTeam] = weakref.WeakSet()


def _forget_teams() -> None:
    for team in list(_TEAMS):
        team.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_teams)
