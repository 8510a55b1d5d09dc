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

from ortpkg.authoring.package_checks import validate
from ortpkg.errors import OrtpkgError, Severity
from ortpkg.package.changes.recovery import recover
from ortpkg.package.integrity.digests import STAGING_PREFIX, check_digests
from ortpkg.package.reader import open_package
from ortpkg.storage.file_operations import FileOperations
from tests.crash_sweep.scenarios import Scenario

_NEEDS_SPACE = ("create", "write", "fsync", "make_directory")

Before = Callable[[FileOperations, str, Path], None]


class Stop(StrEnum):
    """How a command is stopped."""

    KILL = "killed"
    FULL_DISK = "full disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a scenario starts from (a folder to copy), how many operations it has, and what it makes
    of its target.
    """

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
    return Expectation(
        origin=origin,
        count=count,
        before=state_of(origin / scenario.target),
        after=state_of(whole / scenario.target),
        new=content_of(whole / scenario.target),
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
        state = state_of(target)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what is wrong
        return f"cannot be read: {error}"
    if scenario.is_stepwise:
        allowed = [
            content_of(expected.origin / scenario.target),
            expected.new,
            *([{}] if scenario.may_lack else []),
        ]
        if strays := _strays(content_of(target), *allowed):
            return f"neither old nor new: {strays}"
        if flaw := scenario.flaw(target):
            return flaw
    elif state not in (expected.before, expected.after):
        return f"neither the old package nor the new one: {state}"
    # It refuses where only tidying up was left; then the next command on the package does that.
    with contextlib.suppress(OrtpkgError):
        scenario.run(folder)
    if target.is_dir():
        recover(target)
    if content_of(target) != expected.new:
        return f"running it again does not complete it: {_strays(content_of(target), expected.new)}"
    return ""


def state_of(target: Path) -> object:
    """What a reader sees: a file's bytes, or a package that is valid and intact.

    None where there is none.
    """
    if target.is_file():
        return target.read_bytes()
    if not (target / "manifest.json").exists():
        return None
    errors = [str(finding) for finding in validate(target) if finding.severity is Severity.ERROR]
    package = open_package(target)
    variants = [
        (
            component.name,
            variant.name,
            str(variant.model_path and variant.model_path.relative_to(package.root)),
        )
        for component in package.components
        for variant in component.variants
    ]
    differences = [(each.kind, each.file) for each in check_digests(target)]
    return package.format, package.description, variants, errors, differences


def content_of(target: Path) -> dict[str, bytes]:
    """Every file, without what is staged."""
    if not target.is_dir():
        return {"": target.read_bytes()} if target.exists() else {}
    files = {
        path.relative_to(target).as_posix(): path
        for path in sorted(target.rglob("*"))
        if path.is_file()
    }
    return {
        name: path.read_bytes()
        for name, path in files.items()
        if not name.startswith(STAGING_PREFIX)
    }


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
    original = FileOperations.before
    FileOperations.before = function  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        FileOperations.before = original  # type: ignore[method-assign]
