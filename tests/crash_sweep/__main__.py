"""Stops every command at every file operation, by SIGKILL and by a full disk.

``python -m tests.crash_sweep [NAME]...``, the names as in ``scenarios.py``.

Exit status 1 where something is left that is neither the old package nor the new one, or that
running the command again does not complete.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.crash_sweep.scenarios import SCENARIOS
from tests.crash_sweep.sweep import Stop, expect, problem_of


def main(names: Sequence[str]) -> int:
    logging.disable(logging.WARNING)  # that tidying up failed is what is tried here
    if unknown := set(names) - {scenario.name for scenario in SCENARIOS}:
        print(
            f"unknown: {sorted(unknown)}; there are {[scenario.name for scenario in SCENARIOS]}",
            file=sys.stderr,
        )
        return 2
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        os.environ["ORTPKG_CACHE_DIR"] = str(Path(directory, "cache"))
        for number, scenario in enumerate(SCENARIOS):
            if names and scenario.name not in names:
                continue
            started_s = time.monotonic()
            expected = expect(scenario, Path(directory, str(number)))
            problems = [
                (index, stop, problem)
                for index in range(expected.count)
                for stop in Stop
                if (problem := problem_of(scenario, expected, index, stop))
            ]
            duration_s = time.monotonic() - started_s
            print(
                f"{scenario.name}: {expected.count} operations, {len(problems)} problems,"
                f" {duration_s:.0f} s",
                flush=True,
            )
            for index, stop, problem in problems:
                print(f"  at operation {index}, {stop}: {problem}")
            failures += len(problems)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
