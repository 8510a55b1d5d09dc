"""Runs a range of seeds in child processes: what kills one child is a finding, and the next goes on behind it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_MOST_STDERR_CHARACTERS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the model of a seed does that no model may do: a crash, a hang, an untyped error, too much memory."""

    seed: int
    problem: str


def attack_range(first: int, stop: int, op_type: str = "", *, deadline: float | None = None) -> list[Finding]:
    """All findings of the seeds in [first, stop); of operator ``op_type``, where one is named.

    ``deadline``, on ``time.monotonic``'s clock, ends it before the next child.
    """
    findings: list[Finding] = []
    while first < stop and (deadline is None or time.monotonic() < deadline):
        found, reached, crash = _run_child(first, stop, op_type)
        findings += found
        if crash is None:
            break
        findings.append(Finding(seed=reached, problem=crash))
        first = reached + 1
    return findings


def _run_child(first: int, stop: int, op_type: str) -> tuple[list[Finding], int, str | None]:
    """Findings of one child, the last seed it began, and how it died; None where it reached the end."""
    command = [sys.executable, "-P", "-m", "tests.fuzz.child", str(first), str(stop), *([op_type] if op_type else [])]
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        child = subprocess.run(
            [command[0], *command[2:]], cwd=root, stdout=subprocess.PIPE, stderr=stderr, check=False, text=True
        )
        stderr.seek(0)
        trace = stderr.read()
    reached, findings = first, []
    for line in child.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "seed":
            reached = int(rest)
        elif word == "finding":
            findings.append(Finding(**json.loads(rest)))
    if child.returncode == 0 and child.stdout.endswith("done\n"):
        return findings, reached, None
    return findings, reached, f"exit code {child.returncode}: {trace[-_MOST_STDERR_CHARACTERS:]}"
