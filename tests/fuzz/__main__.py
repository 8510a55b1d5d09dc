"""``python -m tests.fuzz [--seed N] [--minutes M] [--op OP] [--jobs J]``: attacks the engine, prints what broke.

Each batch of seeds runs in a child process, so a crash is a finding like any other. Ends with 1 where there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.fuzz.driver import Finding, attack_seeds

_BATCH = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--cases", type=int, default=0, help="stop after so many; 0: when the time is up")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--op", default="", help="only this operator")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    last = arguments.seed + arguments.cases if arguments.cases else sys.maxsize

    def batch(first: int) -> list[Finding]:
        if time.monotonic() > deadline or first >= last:
            return []
        return attack_seeds(range(first, min(first + _BATCH, last)), arguments.op, deadline=deadline)

    found = 0
    first = arguments.seed
    with ThreadPoolExecutor(arguments.jobs) as threads:
        while time.monotonic() < deadline and first < last:
            starts = [first + number * _BATCH for number in range(arguments.jobs)]
            first += arguments.jobs * _BATCH
            for findings in threads.map(batch, starts):
                for finding in findings:
                    found += 1
                    print(f"seed {finding.seed}: {finding.problem}\n", flush=True)
    print(f"seeds {arguments.seed} to {min(first, last)}: {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
