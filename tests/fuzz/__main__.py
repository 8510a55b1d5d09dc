"""``python -m tests.fuzz [--seed N] [--minutes M] [--kind KIND] [--op OP] [--jobs J]``: attacks,
prints what broke.

Each batch of seeds runs in a child process, so a crash is a finding like any other. Ends with 1
where there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.fuzz.child import KINDS
from tests.fuzz.driver import Attack, attack_seeds

_BATCH = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--cases", type=int, default=0, help="stop after so many; 0: when the time is up"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--op", default="", help="only this operator")
    parser.add_argument(
        "--kind", default="", choices=("", *KINDS), help="only these; left out: each in turn"
    )
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    last = arguments.seed + arguments.cases if arguments.cases else sys.maxsize

    kinds = [arguments.kind] if arguments.kind else ["models"] if arguments.op else list(KINDS)

    def batch(work: tuple[str, int]) -> Attack:
        kind, first = work
        seeds = range(first, min(first + _BATCH, last))
        return attack_seeds(seeds, arguments.op, kind=kind, budget_s=deadline - time.monotonic())

    found = count = 0
    first = arguments.seed
    with ThreadPoolExecutor(arguments.jobs) as threads:
        while time.monotonic() < deadline and first < last:
            works = [
                (kind, first + number * _BATCH)
                for number in range(arguments.jobs)
                for kind in kinds
            ]
            first += arguments.jobs * _BATCH
            for (kind, _), attack in zip(works, threads.map(batch, works), strict=True):
                count += attack.count
                for finding in attack.findings:
                    found += 1
                    print(f"{kind}, seed {finding.seed}: {finding.problem}\n", flush=True)
    print(
        f"{count} cases ({', '.join(kinds)}; seeds {arguments.seed} to {min(first, last)}): {found}"
        " findings"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
