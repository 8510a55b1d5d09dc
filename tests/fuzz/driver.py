"""Runs seeds in child processes: what kills one child is a finding, and the next goes on behind
it.
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the case of a seed does that none may do: a crash, a hang, an untyped error, too much
    memory.
    """

    seed: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What came of seeds: the findings, and how many cases ran."""

    findings: tuple[Finding, ...]
    count: int


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
        kind: what is attacked, see ``child.KINDS``.
        budget_s: no case begins later than this, but for the first ``least``.
        least: so many cases run in any case.
    """
    findings: list[Finding] = []
    until_s, left, count = time.time() + budget_s, list(seeds), 0
    while left and (count < least or time.time() < until_s):
        found, ran, crash = _run_child(left, [kind, op_type, str(until_s), str(least - count)])
        findings += found
        count += ran
        if crash is None:
            break
        findings.append(Finding(seed=left[max(ran - 1, 0)], problem=crash))
        left = left[max(ran, 1) :]
    return Attack(findings=tuple(findings), count=count)


def _run_child(
    seeds: Sequence[int], arguments: Sequence[str]
) -> tuple[list[Finding], int, str | None]:
    """Findings of one child, how many seeds it began, and how it died.

    None where it ended by itself.

    What it leaves in the folder for temporary files goes with it, however it ends.
    """
    command = [sys.executable, "-m", "tests.fuzz.child", *arguments]
    root = Path(__file__).resolve().parents[2]
    with (
        tempfile.TemporaryDirectory(prefix="ortpkg-fuzz-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr,
    ):
        child = subprocess.run(
            command,
            cwd=root,
            env={**os.environ, "TMPDIR": folder, "TEMP": folder, "TMP": folder},
            input="\n".join(map(str, seeds)),
            stdout=subprocess.PIPE,
            stderr=stderr,
            check=False,
            text=True,
        )
        stderr.seek(0)
        trace = stderr.read()
    ran, findings = 0, []
    for line in child.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "seed":
            ran += 1
        elif word == "finding":
            findings.append(Finding(**json.loads(rest)))
    if child.returncode == 0 and child.stdout.endswith("done\n"):
        return findings, ran, None
    return findings, ran, f"exit code {child.returncode}: {trace[-_MOST_STDERR_CHARACTERS:]}"
