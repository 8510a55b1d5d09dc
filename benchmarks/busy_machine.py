"""What other busy processes cost: one thread, all, and the session's choice (ADR 12).

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m benchmarks.busy_machine MODEL.onnx ...
    [--busy 0 2] [--ep llvm]

A model comes with its inputs beside it (MODEL.npz), as those of the zoo do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnxruntime

from benchmarks.zoo.compare import feeds_of, open_ours, open_theirs

_SETTLE_S = 0.1


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many processes that want a core each."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(1)
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def open_sessions(path: Path, ep: str) -> dict[str, Any]:
    """Those that are compared, by who runs the model; ``ep``: what runs it on our side."""
    cores = os.cpu_count() or 1
    return {
        "one thread": open_ours(path, 1, ep),
        "all threads": open_ours(path, cores, ep),
        "our choice": open_ours(path, 0, ep),
        "onnxruntime": open_theirs(path, cores),
    }


def measure(
    sessions: Mapping[str, Any], feeds: Mapping[str, Any], *, rounds: int
) -> dict[str, list[float]]:
    """Seconds of runs in turns, by who runs them."""
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for number in range(rounds + 2):
        for name, session in sessions.items():
            time.sleep(_SETTLE_S)
            start = time.perf_counter()
            session.run(None, dict(feeds))
            if number >= 2:
                times[name].append(time.perf_counter() - start)
    return times


def told(times: Mapping[str, Sequence[float]]) -> str:
    """Medians, and the median of the ratios to onnxruntime's run in the same turn."""
    base = times["onnxruntime"]
    return ", ".join(
        f"{name} {1e3 * statistics.median(own):.1f} ms"
        f" ({statistics.median([a / b for a, b in zip(own, base, strict=True)]):.2f})"
        for name, own in times.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time runs beside busy processes.")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ep", default="cpu", help="what runs the model on our side")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    for path in arguments.models:
        sessions, feeds = open_sessions(path, arguments.ep), feeds_of(path)
        for count in arguments.busy:
            with busy_processes(count):
                times = measure(sessions, feeds, rounds=arguments.rounds)
            print(path.stem, f"{count} busy:", told(times), flush=True)


if __name__ == "__main__":
    main()
