"""Runs seeds in child processes: what kills one is a finding, and the next goes on."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MOST_STDERR_CHARACTERS = 3000
_RUNNING: set[subprocess.Popen[str]] = set()
_ENDED: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What no case may do: a crash, a hang, an untyped error, too much memory."""

    seed: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What came of seeds: the findings, how many cases ran, and for how long."""

    findings: tuple[Finding, ...]
    count: int
    duration_s: float = 0.0
    #: Of the children, with what it takes to start them; 0.0 where the system does not say.
    processor_s: float = 0.0


def attack_seeds(
    seeds: Sequence[int],
    op_type: str = "",
    *,
    kind: str = "models",
    budget_s: float = math.inf,
    least: int = 0,
) -> Attack:
    """Attacks with ``seeds``, in their order.

    Args:
        seeds: of the cases.
        op_type: of random models, only those of that operator.
        kind: what is attacked, see ``kinds.KINDS``.
        budget_s: no case begins later than this, but for the first ``least``.
        least: so many cases run in any case.
    """
    findings: list[Finding] = []
    began_s, left, count, processor_s = time.time(), list(seeds), 0, 0.0
    until_s = began_s + budget_s
    while left and (count < least or time.time() < until_s):
        child = _run_child(left, [kind, op_type, str(until_s), str(least - count)])
        findings += child.findings
        count += child.count
        processor_s += child.processor_s
        if child.crash is None:
            break
        findings.append(Finding(seed=left[max(child.count - 1, 0)], problem=child.crash))
        left = left[max(child.count, 1) :]
    return Attack(
        findings=tuple(findings),
        count=count,
        duration_s=time.time() - began_s,
        processor_s=processor_s,
    )


def end_children() -> None:
    """Lets the children that run begin no further case; what they did until then counts."""
    for child in list(_RUNNING):
        _ENDED.add(child)  # it may not have begun to listen
        child.terminate()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    """What a child told: how many seeds it began, how it died (None: by itself)."""

    findings: list[Finding]
    count: int
    processor_s: float
    crash: str | None


def _run_child(seeds: Sequence[int], arguments: Sequence[str]) -> _Child:
    """Runs seeds in one child.

    What it leaves in the folder for temporary files goes with it, however it ends.
    """
    command = [sys.executable, "-m", "tests.fuzz.child", *arguments]
    root = Path(__file__).resolve().parents[2]
    with (
        tempfile.TemporaryDirectory(prefix="ortpkg-fuzz-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr,
    ):
        with subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, "TMPDIR": folder, "TEMP": folder, "TMP": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as child:
            _RUNNING.add(child)
            told, _ = child.communicate("\n".join(map(str, seeds)))
            _RUNNING.discard(child)
        stderr.seek(0)
        trace = stderr.read()
    count, findings, processor_s = 0, [], 0.0
    for line in told.splitlines():
        word, _, rest = line.partition(" ")
        if word == "seed":
            count += 1
        elif word == "finding":
            findings.append(Finding(**json.loads(rest)))
        elif word == "processor":
            processor_s = float(rest)
    is_whole = (child.returncode == 0 and told.endswith("done\n")) or child in _ENDED
    crash = f"exit code {child.returncode}: {trace[-_MOST_STDERR_CHARACTERS:]}"
    return _Child(
        findings=findings,
        count=count,
        processor_s=processor_s,
        crash=None if is_whole else crash,
    )
