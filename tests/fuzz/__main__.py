"""``python -m tests.fuzz [--seed N] [--minutes M] [--kind KIND]...``: attacks, prints what broke.

Each batch of seeds runs in a child process, so a crash is a finding like any other, and is one
line of a log, so what ran counts however this ends: ``--report`` adds the log up. On SIGINT or
SIGTERM the batches end behind the case they are at. Ends with 1 where there is a finding.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.driver import attack_seeds, end_children
from tests.fuzz.kinds import BATCHES, KINDS
from tests.fuzz.tally import Batch, Tally, append, read

_LOG = Path(__file__).resolve().parents[2] / "build" / "fuzz.jsonl"


def main() -> int:
    arguments = _parser().parse_args()
    before = read(arguments.log)
    if arguments.report:
        print(Tally(before).table())
        return 1 if any(batch.findings for batch in before) else 0
    kinds = arguments.kind or (["models"] if arguments.op else list(KINDS))
    first = arguments.seed
    if first is None:
        first = max((batch.first + batch.count for batch in before), default=0)
    tally = _attack(arguments, kinds, first)
    print(tally.table())
    return 1 if tally.has_findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first; left out: behind the log's last")
    parser.add_argument(
        "--cases", type=int, default=0, help="stop after so many; 0: when the time is up"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--op", default="", help="only this operator")
    parser.add_argument(
        "--kind", action="append", choices=BATCHES, help="only these; left out: each in turn"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--log", type=Path, default=_LOG, help="a line for each batch")
    parser.add_argument("--report", action="store_true", help="only add up what is in the log")
    return parser


def _attack(arguments: argparse.Namespace, kinds: Sequence[str], first: int) -> Tally:
    """Attacks until the time or the seeds are up; no worker waits for another."""
    deadline_s = time.monotonic() + 60 * arguments.minutes
    is_over = threading.Event()

    def end(*_signal: object) -> None:
        is_over.set()
        end_children()

    waiting = works(kinds, first, first + arguments.cases if arguments.cases else sys.maxsize)
    tally, lock = Tally(), threading.Lock()

    def work() -> None:
        while time.monotonic() < deadline_s and not is_over.is_set():
            with lock:
                kind, seeds = next(waiting, ("", range(0)))
            if not seeds:
                return
            left_s = deadline_s - time.monotonic()
            attack = attack_seeds(seeds, arguments.op, kind=kind, budget_s=left_s)
            batch = Batch.of(kind, seeds.start, attack)
            with lock:
                append(arguments.log, batch)
                tally.add(batch)
                for finding in attack.findings:
                    print(f"{kind}, seed {finding.seed}: {finding.problem}\n", flush=True)
                print(tally.line(kind), flush=True)

    with _on_interrupt(end), ThreadPoolExecutor(arguments.jobs) as threads:
        for done in [threads.submit(work) for _ in range(arguments.jobs)]:
            done.result()
    return tally


@contextmanager
def _on_interrupt(act: Callable[..., None]) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, act) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def works(kinds: Sequence[str], first: int, last: int) -> Iterator[tuple[str, range]]:
    """Batches of all kinds, always of the kind that is furthest behind."""
    reached = dict.fromkeys(kinds, first)
    begun = dict.fromkeys(kinds, 0)
    while reached:
        kind = min(reached, key=lambda kind: begun[kind])
        seeds = range(reached[kind], min(reached[kind] + BATCHES[kind], last))
        begun[kind] += 1
        reached[kind] = seeds.stop
        if seeds.stop == last:
            del reached[kind]
        if seeds:
            yield kind, seeds


if __name__ == "__main__":
    sys.exit(main())
