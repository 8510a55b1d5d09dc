"""A pytest plug-in that tries mutants in forks, after one run that notes what each test calls."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from tests.mutation.report import Outcome

_LIMIT_S = 120
_SURVIVED, _KILLED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A changed file, and the function in which it differs."""

    file: str
    line: int
    function: str
    code: str


class ConditionTrials:
    """Runs no test itself; ``outcomes`` by the number of the trial."""

    def __init__(self, trials: Sequence[Trial], *, workers: int) -> None:
        self._trials, self._workers = trials, workers
        self._has_failed = False
        self.outcomes: dict[int, Outcome] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test failed."""
        self._has_failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Note what all tests call, then try each mutant."""
        callers = _recorded(lambda item: self._passes([item]), session.items)
        running: dict[int, int] = {}
        for number, trial in enumerate(self._trials):
            items = callers.get((trial.file, trial.function.partition(".<locals>")[0]), [])
            if not items:
                continue
            if len(running) == self._workers:
                self._wait(running)
            running[_forked(lambda: self._ends(trial, items))] = number  # noqa: B023
        while running:
            self._wait(running)
        return True

    def _ends(self, trial: Trial, items: Sequence[pytest.Item]) -> int:
        """Return the exit status of a mutant's process."""
        try:
            change_function(trial)
        except (ValueError, SyntaxError):  # a name was bound in what is gone
            return _KILLED
        return _SURVIVED if self._passes(items) else _KILLED

    def _passes(self, items: Sequence[pytest.Item]) -> bool:
        self._has_failed = False
        for number, item in enumerate(items):
            following = items[number + 1] if number + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._has_failed:
                return False
        return True

    def _wait(self, running: dict[int, int]) -> None:
        child, status = os.wait()
        if child in running:
            has_survived = os.waitstatus_to_exitcode(status) == _SURVIVED
            outcome = Outcome.SURVIVED if has_survived else Outcome.KILLED
            self.outcomes[running.pop(child)] = outcome


def _forked(work: Callable[[], int]) -> int:
    """Run in a silent child process, which ends with the status that is returned."""
    if child := os.fork():
        return child
    status = _KILLED
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        signal.alarm(_LIMIT_S)  # a mutant that hangs is noticed
        status = work()
    finally:
        os._exit(status)


def _recorded(
    passes: Callable[[pytest.Item], bool], items: Sequence[pytest.Item]
) -> dict[tuple[str, str], list[pytest.Item]]:
    """Return the tests that call each function of a file, fast ones first."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "calls.json")
        child = _forked(lambda: _record(passes, items, kept))
        os.waitpid(child, 0)
        recorded = json.loads(kept.read_text(encoding="utf-8"))
    callers: dict[tuple[str, str], list[pytest.Item]] = {}
    for number, _, calls in sorted(recorded, key=lambda row: row[1]):
        for file, name in calls:
            callers.setdefault((file, name), []).append(items[number])
    return callers


def _record(passes: Callable[[pytest.Item], bool], items: Sequence[pytest.Item], kept: Path) -> int:
    signal.alarm(0)
    root = str(Path.cwd()) + os.sep
    called: set[tuple[str, str]] = set()

    def trace(frame: FrameType, event: str, argument: object) -> None:
        del event, argument
        code = frame.f_code
        if code.co_filename.startswith(root):
            name = code.co_qualname.partition(".<locals>")[0]
            called.add((code.co_filename[len(root) :], name))

    rows = []
    for number, item in enumerate(items):
        called.clear()
        started_s = time.perf_counter()
        threading.settrace(trace)
        sys.settrace(trace)
        has_passed = passes(item)
        sys.settrace(None)
        if has_passed:
            rows.append((number, time.perf_counter() - started_s, sorted(called)))
    kept.write_text(json.dumps(rows), encoding="utf-8")
    return 0


def change_function(trial: Trial) -> None:
    """Give the outermost function of a trial the code that it has in the changed file."""
    name = trial.function.partition(".<locals>")[0]
    module = importlib.import_module(trial.file.removesuffix(".py").replace("/", "."))
    changed = compile(trial.code, str(Path.cwd() / trial.file), "exec")
    codes = {code.co_qualname: code for code in _codes(changed)}
    owner: Any = module
    for part in name.split("."):
        owner = inspect.getattr_static(owner, part)
    _function_of(owner).__code__ = codes[name]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _function_of(attribute: Any) -> FunctionType:
    if isinstance(attribute, property):
        attribute = attribute.fget
    elif isinstance(attribute, cached_property):
        attribute = attribute.func
    elif isinstance(attribute, staticmethod | classmethod):
        attribute = attribute.__func__
    function = inspect.unwrap(attribute)
    if not isinstance(function, FunctionType):
        raise TypeError(f"{attribute!r} is no function")
    return function
