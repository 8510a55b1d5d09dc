"""Plug-in of pytest that ends its process where nothing else can.

pytest-timeout ends a test by code of Python, on the main thread. That does not come to run while a
call of C holds the interpreter's lock; and it is not armed for the teardown of a test that has
failed, while tests are collected, or when all is over and Python waits for threads. Here a thread
of C waits: it writes where every thread is and ends the process with exit code 1. A worker of xdist
that ends so counts as a failed test, and another one goes on.

``--timeout 0`` turns it off, as it does pytest-timeout (for debuggers).
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

_SOONEST_S = 0.001
#: xdist kills workers that have not ended by then.
_WORKERS_END_S = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the time that a process has beyond what pytest-timeout gives a test."""
    words = "seconds after the limit of a test, or after the last one, when its process is ended"
    parser.addini("ending_margin", words, default="60")


def pytest_configure(config: pytest.Config) -> None:
    """Takes what is the process's standard error before pytest captures it."""
    config.pluginmanager.register(_Ending(config, os.dup(2)))


class _Ending:
    """The clock of this process, armed anew for each test."""

    def __init__(self, config: pytest.Config, errors: int) -> None:
        limit_s = config.getoption("timeout")
        self._limit_s = float(config.getini("timeout") or 0) if limit_s is None else limit_s
        self._margin_s = float(config.getini("ending_margin"))
        self._errors = errors
        self._end_s: float | None = None

    def _arm(self, limit_s: float, workers_end_s: float = 0) -> None:
        if limit_s > 0:
            wait_s = limit_s + self._margin_s + workers_end_s
            self._end_s = time.monotonic() + wait_s
            self._start_clock(wait_s)

    def _start_clock(self, wait_s: float) -> None:
        faulthandler.dump_traceback_later(wait_s, file=self._errors, exit=True)

    def _disarm(self) -> None:
        self._end_s = None
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Iterator[None]:
        """Bounds what modules of tests do when they are loaded."""
        self._arm(self._limit_s)
        try:
            return (yield)
        finally:
            self._disarm()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Bounds a test with what comes before and after it."""
        self._arm(self._limit_s)
        try:
            return (yield)
        finally:
            self._disarm()

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Takes the limit that a mark of the test states."""
        if settings.timeout != self._limit_s:
            self._arm(settings.timeout)

    def pytest_exception_interact(self) -> None:
        """Lets the clock go on: pytest has just stopped it, and the teardown is still to come."""
        if self._end_s is not None:
            self._start_clock(max(self._end_s - time.monotonic(), _SOONEST_S))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Bounds the teardown that is left where tests end before the last one.

        The process that starts workers waits here until they have ended, and then writes its report.
        """
        starts_workers = session.config.pluginmanager.has_plugin("dsession")
        self._arm(self._limit_s, _WORKERS_END_S if starts_workers else 0)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Bounds the end of Python, which waits for threads; a worker waits for others before."""
        self._disarm()
        if self._limit_s <= 0:
            return
        if hasattr(config, "workerinput"):
            threading.Thread(target=self._start_clock_at_the_end, daemon=True).start()
        else:
            self._start_clock(self._margin_s)

    def _start_clock_at_the_end(self) -> None:
        threading.main_thread().join()
        self._start_clock(self._margin_s)
