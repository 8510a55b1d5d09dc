"""File operations that stop at a chosen point: by a kill, or as a full disk would."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from ortpkg.foundations.errors import AuthoringError
from ortpkg.foundations.storage.file_operations import FileOperations, NewFile

Command = Callable[[Path, FileOperations], object]
Result = TypeVar("Result")


class Killed(BaseException):
    """The process is gone: from here on, no operation happens any more."""


class FailingOperations(FileOperations):
    """Does what it is asked until one operation fails; where none is chosen, it only keeps a log.

    Args:
        index: the operation that fails, counted from 0.
        at: or the first operation of that kind on a file of that name.
        kill: every later operation fails too, as if there were no process any more.
    """

    def __init__(
        self, index: int | None = None, *, at: tuple[str, str] | None = None, kill: bool = False
    ) -> None:
        self.log: list[tuple[str, Path]] = []
        self._index = index
        self._at = at
        self._kill = kill

    def before(self, operation: str, path: Path) -> None:
        if self._index is None and (operation, path.name) == self._at:
            self._index = len(self.log)
        self.log.append((operation, path))
        if self._index is None or len(self.log) <= self._index:
            return
        if self._kill:
            raise Killed
        if len(self.log) == self._index + 1:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def faults(self, *, kill: bool) -> list[int]:
        """The operations of the log to fail at.

        All; but a process that is killed before it waits for the disk leaves what one leaves that
        is killed before the next operation.
        """
        return [
            index
            for index, operation in enumerate(self.log)
            if not (kill and operation[0].startswith("fsync") and index != len(self.log) - 1)
        ]


class Snapshots(FileOperations):
    """Keeps what stands on the disk before each operation: what a kill at that moment leaves.

    One run gives what a run to each operation would, files of which a part is written among it.
    Most operations that wait for the disk leave what stood there before.

    Attributes:
        states: a copy of ``root`` for each state that differs from the one before, in a numbered
            folder below ``folder``.
    """

    def __init__(self, root: Path, folder: Path, *, in_pieces: bool) -> None:
        self._root = root
        self._in_pieces = in_pieces
        self._folder = folder
        self._last: Hashable = None
        self.states: list[Path] = []

    def before(self, operation: str, path: Path) -> None:
        state = state_of(self._root)
        if state != self._last:
            self._last = state
            target = self._folder / str(len(self.states)) / self._root.name
            self.states.append(Path(shutil.copytree(self._root, target, symlinks=True)))

    @contextlib.contextmanager
    def new_file(self, path: Path) -> Iterator[NewFile]:
        """As ever, but (``in_pieces``) each piece is in the file as soon as it is written."""
        self.before("create", path)
        with path.open("x+b", buffering=0 if self._in_pieces else -1) as target:
            yield NewFile(self, target, path)
            self._fsync(target, path)


def stopped_at_each_operation(
    old: Path, folder: Path, command: Command, *, kill: bool, in_pieces: bool = True
) -> Iterator[tuple[Path, bool]]:
    """What a kill, or a full disk, at each operation of a command leaves of the package ``old``.

    With it, whether the command was done nevertheless. Made in ``folder``, and removed when the
    next one is asked for. ``in_pieces``: a kill leaves part-written files, too.
    """
    whole = Path(shutil.copytree(old, folder / "whole" / old.name))
    if kill:
        snapshots = Snapshots(whole, folder / "states", in_pieces=in_pieces)
        command(whole, snapshots)
        for root in snapshots.states:
            yield root, False
            shutil.rmtree(root)
        return
    counting = FailingOperations()
    command(whole, counting)
    for index in counting.faults(kill=False):
        root = Path(shutil.copytree(old, folder / "states" / str(index) / old.name))
        try:
            command(root, FailingOperations(index))
        except AuthoringError:
            yield root, False
        else:
            yield root, True
        shutil.rmtree(root)


class OncePerState(Generic[Result]):
    """What a function of a package says, asked once for all packages that are equal on the disk.

    What failed at one operation is mostly what failed at the next: to look at it again, and to
    finish it again, is most of the time of a test that fails at each.
    """

    def __init__(self, function: Callable[[Path], Result]) -> None:
        self._function = function
        self._known: dict[Hashable, Result] = {}

    def __call__(self, root: Path) -> Result:
        state = state_of(root)
        if state not in self._known:
            self._known[state] = self._function(root)
        return self._known[state]


def state_of(root: Path) -> Hashable:
    """Everything below ``root``: kinds, names, permissions, contents, and where links lead."""
    return frozenset(_entries_of(root, ""))


def _entries_of(folder: Path, prefix: str) -> Iterator[tuple[str, int, str | bytes]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name, mode = f"{prefix}{entry.name}", entry.stat(follow_symlinks=False).st_mode
            if entry.is_symlink():
                yield name, mode, str(Path(entry).readlink())
            elif entry.is_dir():
                yield name, mode, ""
                yield from _entries_of(Path(entry), f"{name}/")
            else:
                yield name, mode, Path(entry).read_bytes()


def content_of(root: Path) -> dict[str, bytes]:
    """Every file below ``root``, by its relative path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
