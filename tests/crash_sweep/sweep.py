"""Stops a command at a chosen file operation, in a process of its own, and looks at what is left.

Either the process kills itself with SIGKILL right before the operation: nothing of ours runs any
more, no ``finally``, no handler. Or the disk is full from that operation on: what needs space fails
with ENOSPC, what frees it does not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from unittest import mock

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.foundations.host.directories import cache_directory
from ortpkg.foundations.storage import file_replacement
from ortpkg.foundations.storage.file_operations import FileOperations
from tests.crash_sweep.scenario import Scenario

_NEEDS_SPACE = ("create", "write", "fsync", "make_directory", "append", "link", "clone")

Before = Callable[[FileOperations, str, Path], None]


class Stop(StrEnum):
    """How a command is stopped."""

    KILL = "killed"
    FULL_DISK = "full disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a scenario starts from, how many operations it has, and what it makes."""

    origin: Path
    count: int
    before: object
    after: object
    new: dict[str, bytes]


def expect(scenario: Scenario, folder: Path) -> Expectation:
    """Runs the scenario once to its end, in a copy below ``folder``."""
    origin, whole = folder / "origin", folder / "whole"
    origin.mkdir(parents=True)
    scenario.prepare(origin)
    shutil.copytree(origin, whole)
    count = 0

    def counting(operations: FileOperations, operation: str, path: Path) -> None:
        nonlocal count
        count += 1

    with _before(counting):
        scenario.run(whole)
    scenario.tidy(whole / scenario.target)
    return Expectation(
        origin=origin,
        count=count,
        before=scenario.state(origin / scenario.target),
        after=scenario.state(whole / scenario.target),
        new=scenario.content(whole / scenario.target),
    )


def problem_of(scenario: Scenario, expected: Expectation, index: int, stop: Stop) -> str:
    """What is wrong after the scenario was stopped at operation ``index``; "" for nothing."""
    folder = expected.origin.parent / "stopped"
    shutil.copytree(expected.origin, folder)
    try:
        status = _run_in_a_process(scenario, folder, index, stop)
        if stop is Stop.KILL and status != -signal.SIGKILL:
            return f"the process was not killed: status {status}"
        if stop is Stop.FULL_DISK and status not in (0, 1):
            return f"the process ended with status {status}"
        return _problem_of_what_is_left(scenario, expected, folder)
    finally:
        shutil.rmtree(folder)


def _problem_of_what_is_left(scenario: Scenario, expected: Expectation, folder: Path) -> str:
    target = folder / scenario.target
    try:
        state = scenario.state(target)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what is wrong
        return f"cannot be read: {error}"
    if scenario.is_stepwise:
        allowed = [
            scenario.content(expected.origin / scenario.target),
            expected.new,
            *([{}] if scenario.may_lack else []),
        ]
        if strays := _strays(scenario.content(target), *allowed):
            return f"neither old nor new: {strays}"
    elif state not in (expected.before, expected.after):
        return f"neither the old package nor the new one: {state}"
    if flaw := scenario.flaw(target):
        return flaw
    # It refuses where only tidying up was left; then the next command on the package does that.
    with contextlib.suppress(OrtpkgError):
        scenario.run(folder)
    scenario.tidy(target)
    if strays := _strays(scenario.content(target), expected.new):
        return f"running it again does not complete it: {strays}"
    return ""


def _strays(found: dict[str, bytes], *allowed: dict[str, bytes]) -> list[str]:
    names = sorted({*found, *(name for each in allowed for name in each)})
    return [name for name in names if found.get(name) not in [each.get(name) for each in allowed]]


def _run_in_a_process(scenario: Scenario, folder: Path, index: int, stop: Stop) -> int:
    """The status of a child process that runs the scenario and is stopped.

    Negative for a signal.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 3
        try:
            with _before(_stopping(index, stop)):
                scenario.run(folder)
            status = 0
        except OrtpkgError:
            status = 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _stopping(index: int, stop: Stop) -> Before:
    count = 0

    def before(operations: FileOperations, operation: str, path: Path) -> None:
        nonlocal count
        count += 1
        if count <= index:
            return
        if stop is Stop.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if operation in _NEEDS_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    return before


@contextlib.contextmanager
def _before(function: Before) -> Iterator[None]:
    """Has ``function`` called before each operation, and each step of replacing a file.

    Caches apart: what they write depends on what ran before.
    """
    begin, finish = file_replacement._temporary_beside, file_replacement.rename_over
    operations = FileOperations()

    def announce(path: Path, *steps: str) -> None:
        for step in () if path.is_relative_to(cache_directory()) else steps:
            function(operations, step, path)

    def begin_announced(path: Path) -> tuple[int, Path]:
        announce(path, "create")
        return begin(path)

    def finish_announced(source: Path, target: Path) -> None:
        announce(target, "write", "replace")
        finish(source, target)

    with (
        mock.patch.object(FileOperations, "before", function),
        mock.patch.object(file_replacement, "_temporary_beside", begin_announced),
        mock.patch.object(file_replacement, "rename_over", finish_announced),
    ):
        yield
