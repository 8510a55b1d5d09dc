"""Attacks with seeds in its own process: ``python -m tests.fuzz.child KIND OP UNTIL LEAST``.

``KIND`` is one of :data:`tests.fuzz.kinds.BATCHES`; ``OP`` may be empty, for any. The seeds come
on standard input;
after the first ``LEAST`` none is begun when it is later than ``UNTIL``, on ``time.time``'s clock,
and none after SIGINT or SIGTERM.

Prints one line of JSON per finding, the seed it is at, and now and then the processor time it took
so far, flushed, so that whoever started it knows what killed it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial

from tests.fuzz.kinds import HANG_S, MEMORY_LIMIT_NBYTES, NOTHING

#: What the process may grow by in one case.
_MOST_GROWTH_KIB = (int(1.2 * MEMORY_LIMIT_NBYTES) + 100_000_000) >> 10
#: How late a hang may be noticed, so that not each case sets the alarm anew.
_ARMED_S = 0.25
#: So many cases from one line on processor time to the next.
_REPORTED_CASES = 100


def main(arguments: list[str]) -> int:
    kind, op_type, until_s, least = arguments
    seeds = [int(line) for line in sys.stdin]
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.getLogger("ortpkg").addHandler(logging.NullHandler())
    _limit_address_space()
    attack = _attack_of(kind)
    stops: list[int] = []
    armed_s = -math.inf
    for number_of_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number_of_signal, lambda number, _frame: stops.append(number))
    for number, seed in enumerate(seeds):
        if stops or (number >= int(least) and time.time() > float(until_s)):
            break
        if number % _REPORTED_CASES == 0:
            print(f"processor {time.process_time()}", flush=True)
        print(f"seed {seed}", flush=True)
        if time.monotonic() > armed_s + _ARMED_S:  # a thread each time
            faulthandler.dump_traceback_later(HANG_S + _ARMED_S, exit=True)
            armed_s = time.monotonic()
        problem = _watched(seed, partial(attack, seed, op_type, kind))
        if problem is not None:
            print("finding " + json.dumps({"seed": seed, "problem": problem}), flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"processor {time.process_time()}\ndone", flush=True)
    return 0


def _attack_of(kind: str) -> Callable[[int, str, str], str | None]:
    """What is done with each seed."""
    if kind == NOTHING:
        return lambda *_case: time.sleep(0.001)
    from tests.fuzz import attacks  # a second of processor time, which the driver's tests need not

    attacks.prepare(kind)
    return attacks.attack


def _watched(seed: int, attack: Callable[[], str | None]) -> str | None:
    """What is wrong with the case of that seed, or with the memory that it took."""
    before_kib = _peak_kib(forget=True)
    if str(seed) == os.environ.get("ORTPKG_FUZZ_CRASH_AT"):
        os.abort()  # for the driver's own test
    if str(seed) == os.environ.get("ORTPKG_FUZZ_SLEEP_AT"):
        time.sleep(10 * HANG_S)
    if str(seed) == os.environ.get("ORTPKG_FUZZ_INTERRUPT_AT"):
        os.kill(os.getppid(), signal.SIGINT)
    for at in filter(None, os.environ.get("ORTPKG_FUZZ_FILL", "").split(",")):
        if at.startswith(f"{seed}="):
            bytearray(b"1") * (int(at.partition("=")[2]) << 20)
    problem = attack()
    grown_kib = _peak_kib() - before_kib
    if problem is None and grown_kib > _MOST_GROWTH_KIB:
        return f"memory: grew by {grown_kib >> 10} MiB"
    return problem


if sys.platform == "win32":

    def _limit_address_space() -> None:
        """Windows has no such limit."""

    def _peak_kib(*, forget: bool = False) -> int:
        return 0

else:
    import resource

    def _limit_address_space() -> None:
        """What takes more than this ends as a MemoryError here, not as a machine without memory."""
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))

    def _peak_kib(*, forget: bool = False) -> int:
        """The most memory so far; ``forget`` begins anew (on Linux).

        So no case hides behind a larger one before it.
        """
        if sys.platform != "linux":
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak >> 10 if sys.platform == "darwin" else peak
        forgetting, status = _memory_files()
        if forget:
            os.pwrite(forgetting, b"5", 0)
        # getrusage counts what the parent had when it started this process, too.
        return int(os.pread(status, 4096, 0).partition(b"VmHWM:")[2].split(maxsplit=1)[0])

    @cache
    def _memory_files() -> tuple[int, int]:
        """Open for as long as the process lives."""
        return os.open("/proc/self/clear_refs", os.O_WRONLY), os.open(
            "/proc/self/status", os.O_RDONLY
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
