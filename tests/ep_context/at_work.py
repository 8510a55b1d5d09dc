"""When another process's fake compiler began, and when that process ended: as events."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path


class AtWork:
    """A named pipe for ``FAKE_MARK``, which the compiler keeps open as long as it lives."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._events = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._unended = os.open(
            path, os.O_WRONLY
        )  # until the other side has opened it, it would be at its end

    def begins(self, command: subprocess.Popen[str]) -> None:
        """Waits until it compiles.

        AssertionError where ``command``, whose standard error is a pipe, ends before.
        """
        assert command.stderr is not None
        said = b""
        while self._events not in select.select([self._events, command.stderr.fileno()], [], [])[0]:
            words = os.read(command.stderr.fileno(), 4096)
            said += words
            assert words, f"it never began to compile: {said.decode()}"
        os.read(self._events, 4096)
        os.close(self._unended)

    def ends(self) -> None:
        """Waits until its process is no more."""
        os.set_blocking(self._events, True)
        while os.read(self._events, 4096):
            continue
        os.close(self._events)
