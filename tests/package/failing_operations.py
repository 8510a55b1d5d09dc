"""File operations that stop at a chosen point: by a kill, or as a full disk would."""

from __future__ import annotations

import errno
from pathlib import Path

from ortpkg.storage.file_operations import FileOperations


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
        last = len(self.log) - 1
        return [
            index
            for index, (operation, _) in enumerate(self.log)
            if not kill or index == last or not operation.startswith("fsync")
        ]


def content_of(root: Path) -> dict[str, bytes]:
    """Every file below ``root``, by its relative path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
