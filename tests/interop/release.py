"""The parent's side: an onnxruntime release in a child that is restarted after crashes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.interop.protocol import Outcome, Walk
from tests.interop.wheels import REPOSITORY, library_of, minor_of

_ANSWER_WITHIN_S = 60.0


class Release:
    """An onnxruntime release that can be asked to walk through packages; close it after use.

    Every call of onnxruntime runs in a child, in a scratch directory of its own: 1.28 to 1.30 write
    where a package tells them to, and a crash must end no more than the child.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.minor = minor_of(version)
        self._library = library_of(version)
        self._scratch = tempfile.TemporaryDirectory(prefix="ortpkg-interop-")
        self._errors = (self.scratch / "stderr.txt").open("ab")
        self._child: subprocess.Popen[str] | None = None

    @property
    def compat(self) -> str:
        """The name by which ortpkg follows its rules."""
        return f"onnxruntime-1.{self.minor}"

    @property
    def scratch(self) -> Path:
        """The child's current directory."""
        return Path(self._scratch.name)

    def walk(self, wanted: Walk) -> Outcome:
        """What the release makes of it.

        An :class:`Outcome` with ``crash`` set where its process ended or hung.
        """
        child = self._running_child()
        assert child.stdin is not None
        assert child.stdout is not None
        timer = threading.Timer(_ANSWER_WITHIN_S, child.kill)
        timer.start()
        try:
            child.stdin.write(wanted.dump() + "\n")
            child.stdin.flush()
            answer = child.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if answer:
            return Outcome.load(answer)
        return Outcome(version=self.version, crash=self._end_child())

    def close(self) -> None:
        """Ends the child and removes its scratch directory."""
        self._end_child()
        self._errors.close()
        self._scratch.cleanup()

    def _running_child(self) -> subprocess.Popen[str]:
        if self._child is None:
            # HOME: the library keeps files of its own there, which are no business of the tests'
            # user.
            environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(self.scratch)}
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.interop.child", str(self._library)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=self.scratch,
                env=environment,
                text=True,
                encoding="utf-8",
            )
        return self._child

    def _end_child(self) -> str:
        """Why it ended."""
        if self._child is None:
            return ""
        child, self._child = self._child, None
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not read any more
                    pipe.close()
        code = child.wait(_ANSWER_WITHIN_S)
        errors = (self.scratch / "stderr.txt").read_text(encoding="utf-8", errors="replace")
        return f"the process ended with {code}: {errors[-2000:].strip()}"
