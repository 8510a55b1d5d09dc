"""What other busy processes cost: one thread, all, and the session's choice (ADR 12).

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m benchmarks.busy_machine MODEL.onnx ...
    [--busy 0 2]

A model comes with its inputs beside it (MODEL.npz), as those of the zoo do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnxruntime

import ortpkg
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


def measure(path: Path, *, rounds: int) -> dict[str, float]:
    """Median seconds of a run, by who runs it."""
    feeds, cores = feeds_of(path), os.cpu_count() or 1
    sessions = {
        "one thread": open_ours(path, 1),
        "all threads": open_ours(path, cores),
        "our choice": ortpkg.InferenceSession(path, providers=["cpu"]),
        "onnxruntime": open_theirs(path, cores),
    }
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for number in range(rounds + 2):
        for name, session in sessions.items():
            time.sleep(_SETTLE_S)
            start = time.perf_counter()
            session.run(None, feeds)
            if number >= 2:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own) for name, own in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time runs beside busy processes.")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    for path in arguments.models:
        for count in arguments.busy:
            with busy_processes(count):
                found = measure(path, rounds=arguments.rounds)
            print(
                path.stem,
                f"{count} busy:",
                ", ".join(f"{name} {1e3 * s:.0f} ms" for name, s in found.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()
