"""``ortpkg select`` as a process, beside Python that imports onnxruntime and selects.

    python -m benchmarks.select_process [PKG] [--component NAME] [--rounds N]

In turns, with byte code, a warm cache of probes and no records of this machine, which are looked
at where somebody has measured the package. Shows the time that passes, and the processor time of
the process and its children, which other load on the machine disturbs less; last, the ratio of the
least processor times of both. The goal: at most 0.8 of that of the process with onnxruntime.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_THEIRS = """
import sys
from pathlib import Path
import onnxruntime
from benchmarks.onnxruntime_peer import OnnxRuntimePeer
library = next(Path(onnxruntime.__file__).with_name("capi").glob("libonnxruntime*"))
print(OnnxRuntimePeer(library).open_and_select(Path(sys.argv[1]), sys.argv[2]))
"""
RATIO = "ratio (middle half; all)"
BASELINE = "import onnxruntime, open, select"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process with its children, in seconds."""

    wall: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Whole processes that open a package and select a variant, in turns."
    )
    parser.add_argument(
        "package", nargs="?", type=Path, default=ROOT / "sample_packages" / "digits.ortpackage"
    )
    parser.add_argument("--component", default="classifier")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    package = str(arguments.package.resolve())
    script = Path(sysconfig.get_path("scripts"), "ortpkg")
    commands = {
        BASELINE: [sys.executable, "-c", _THEIRS, package, arguments.component],
        "ortpkg select": [str(script), "select", package],
        "python -m ortpkg select": [sys.executable, "-m", "ortpkg", "select", package],
        "python (nothing)": [sys.executable, "-c", "pass"],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as no_records:
        for command in commands.values():  # byte code, the page cache and the cache of probes
            _run(command, no_records)
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                costs[name].append(_run(command, no_records))
    print(f"{'':34}  {'time':>9}  {RATIO:32}  {'processor':>9}  {RATIO:32}  of the least")
    for name, own in costs.items():
        base = costs[BASELINE]
        wall = _ratios([mine.wall / theirs.wall for mine, theirs in zip(own, base, strict=True)])
        cpu = _ratios([mine.cpu / theirs.cpu for mine, theirs in zip(own, base, strict=True)])
        times = [
            1e3 * statistics.median(each)
            for each in ([one.wall for one in own], [one.cpu for one in own])
        ]
        least = min(one.cpu for one in own) / min(one.cpu for one in base)
        print(
            f"{name:34}  {times[0]:6.0f} ms  {wall:32}  {times[1]:6.0f} ms  {cpu:32}  {least:.2f}"
        )


def _run(command: list[str], state: str) -> Cost:
    # Installed packages have their byte code; some machines for development write none.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env["ORTPKG_STATE_DIR"] = state
    before, start = _processor_time(), time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT, env=env
    )
    return Cost(time.perf_counter() - start, _processor_time() - before)


def _processor_time() -> float:
    """Of all children that have ended.

    Finer than ``os.times``, which counts in hundredths of a second.
    """
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _ratios(ratios: list[float]) -> str:
    ordered = sorted(ratios)
    quarter = len(ordered) // 4
    middle = f"{ordered[quarter]:.2f} to {ordered[-1 - quarter]:.2f}"
    return f"{statistics.median(ordered):5.2f} ({middle}; {ordered[0]:.2f} to {ordered[-1]:.2f})"


if __name__ == "__main__":
    main()
