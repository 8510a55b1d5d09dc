"""Runs seeds in child processes: what kills one child is a finding, and the next goes on behind it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MOST_STDERR_CHARACTERS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the case of a seed does that none may do: a crash, a hang, an untyped error, too much memory."""

    seed: int
    problem: str


def attack_seeds(
    seeds: Sequence[int], op_type: str = "", *, kind: str = "models", deadline: float | None = None
) -> list[Finding]:
    """All findings of ``seeds``.

    Args:
        seeds: of the cases.
        op_type: of random models, only those of that operator.
        kind: what is attacked, see ``child.KINDS``.
        deadline: on ``time.monotonic``'s clock; ends it before the next child.
    """
    findings: list[Finding] = []
    left = list(seeds)
    while left and (deadline is None or time.monotonic() < deadline):
        found, reached, crash = _run_child(left, kind, op_type)
        findings += found
        if crash is None:
            break
        findings.append(Finding(seed=reached, problem=crash))
        left = left[left.index(reached) + 1 :]
    return findings


def _run_child(seeds: Sequence[int], kind: str, op_type: str) -> tuple[list[Finding], int, str | None]:
    """Findings of one child, the last seed it began, and how it died; None where it reached the end."""
    command = [sys.executable, "-m", "tests.fuzz.child", kind, op_type]
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        child = subprocess.run(
            command,
            cwd=root,
            input="\n".join(map(str, seeds)),
            stdout=subprocess.PIPE,
            stderr=stderr,
            check=False,
            text=True,
        )
        stderr.seek(0)
        trace = stderr.read()
    reached, findings = seeds[0], []
    for line in child.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "seed":
            reached = int(rest)
        elif word == "finding":
            findings.append(Finding(**json.loads(rest)))
    if child.returncode == 0 and child.stdout.endswith("done\n"):
        return findings, reached, None
    return findings, reached, f"exit code {child.returncode}: {trace[-_MOST_STDERR_CHARACTERS:]}"
