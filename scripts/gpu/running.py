"""Runs the commands of a try; ends each after its time, with every process it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.gpu.report import Outcome, Report, Row

#: Programs of ``scripts.gpu.inside`` are found from here, and so is ortpkg.
_ROOT = Path(__file__).resolve().parents[2]
_END_S = 5.0
#: Less time than this is not worth a start.
_LEAST_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Result of a command.

    Attributes:
        code: exit code; None if its time was over.
        out, err: text that it printed.
        duration_s: seconds that it ran.
    """

    code: int | None
    out: str
    err: str
    duration_s: float

    @property
    def is_done(self) -> bool:
        """True if it ended with exit code 0."""
        return self.code == 0

    @property
    def json(self) -> Any:
        """Return the JSON value that it printed, or that its last line is; None for other text."""
        for text in (self.out, (self.out.strip().splitlines() or [""])[-1]):
            try:
                return json.loads(text)
            except ValueError:
                continue
        return None

    @property
    def reason(self) -> str:
        """Return why it failed: its exit code with the last lines that it printed."""
        if self.code is None:
            return f"it did not end within {self.duration_s:.0f} s"
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return f"exit code {self.code}: {' '.join(lines[-3:])}"


@dataclass
class Trial:
    """One try of one machine.

    Attributes:
        report: report that gets the rows.
        python: interpreter of the environment.
        work: folder for packages, models and caches.
        deadline_s: time of ``time.monotonic()`` at which commands end.
        is_on_gpu: True for a try of an NVIDIA GPU.
        variables: environment variables of all commands.
        facts: results of steps that later steps use.
    """

    report: Report
    python: str
    work: Path
    deadline_s: float
    is_on_gpu: bool
    variables: Mapping[str, str]
    facts: dict[str, Any]

    def run(self, title: str, words: Sequence[str], limit_s: float) -> Ended:
        """Run a command within its limit, and write the end of its output to the log."""
        limit_s = min(limit_s, self.left_s)
        if limit_s < _LEAST_S:
            return Ended(code=None, out="", err="", duration_s=0.0)
        ended = run_bounded(words, limit_s, self.environment())
        code = "time was over" if ended.code is None else str(ended.code)
        self.report.log(
            f"{title}: {' '.join(words[:12])}",
            {f"exit code {code}, {ended.duration_s:.1f} s; stdout": ended.out, "stderr": ended.err},
        )
        return ended

    def ortpkg(self, *words: object, limit_s: float = 60.0) -> Ended:
        """Run a command of ortpkg in the environment."""
        texts = list(map(str, words))
        return self.run(f"ortpkg {texts[0]}", [self.python, "-m", "ortpkg", *texts], limit_s)

    def program(self, name: str, *words: object, limit_s: float = 60.0) -> Ended:
        """Run a program of ``scripts.gpu.inside`` in the environment."""
        texts = list(map(str, words))
        return self.run(name, [self.python, "-m", f"scripts.gpu.inside.{name}", *texts], limit_s)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.deadline_s - time.monotonic()

    def environment(self) -> dict[str, str]:
        """Return the environment variables for commands."""
        return {**os.environ, **self.variables}

    def row(
        self,
        step: str,
        on: str,
        ended: Ended,
        judge: Callable[[Any], tuple[bool, str]] | None = None,
    ) -> bool:
        """Add the row of one command; return True if its result is right.

        Args:
            step, on: columns of the row.
            ended: result of the command.
            judge: takes the JSON that it printed; returns whether it is right, and the details.
        """
        if ended.code is None and ended.duration_s == 0.0:
            self.report.add(
                Row(step=step, on=on, outcome=Outcome.NOT_TRIED, details="no time was left")
            )
            return False
        is_right, details = ended.is_done, "" if ended.is_done else ended.reason
        if judge is not None and ended.code is not None and (ended.is_done or ended.json):
            try:
                is_right, details = judge(ended.json)
            except Exception as error:  # noqa: BLE001 - an answer of another form is a row like others
                is_right, details = False, f"{type(error).__name__}: {error}; {ended.reason}"
        outcome = Outcome.YES if is_right else Outcome.NO
        self.report.add(
            Row(step=step, on=on, outcome=outcome, details=details, duration_s=ended.duration_s)
        )
        return is_right


def run_bounded(words: Sequence[str], limit_s: float, environment: Mapping[str, str]) -> Ended:
    """Run a command in a session of its own; end all its processes when the time is over."""
    start_s = time.monotonic()
    try:
        process = subprocess.Popen(
            words,
            env=dict(environment),
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=sys.platform != "win32",
        )
    except OSError as error:
        return Ended(code=127, out="", err=str(error), duration_s=time.monotonic() - start_s)
    try:
        out, err = process.communicate(timeout=limit_s)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        code = None
        end_all(process)
        try:
            out, err = process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            out, err = "", "its output stayed open"
    return Ended(code=code, out=out, err=err, duration_s=time.monotonic() - start_s)


def end_all(process: subprocess.Popen[str]) -> None:
    """End a process and all processes that it started."""
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
