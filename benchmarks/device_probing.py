"""What probing for devices takes: on this machine, and on a constructed large server.

    python -m benchmarks.device_probing [--runs N]

"first" is the first probe of a new process that has loaded what every selection loads, with what
the fact cache keeps; "again" is the next one in the same process. Both are processor time, which
others on the machine do not change. The goal: at most 30 ms. Backends are not asked: their answers
are cached.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_PROGRAM = """
import sys, time
import ortpkg.runtime.providers.machine_offer
start = time.process_time()
machine = ortpkg.devices.probe(sys.argv[1])
first = time.process_time()
ortpkg.devices.probe(sys.argv[1])
print(first - start, time.process_time() - first, len(machine.hardware))
"""
_GOAL_MS = 30.0


def build_server(root: Path, *, cores: int = 256, functions: int = 600, gpus: int = 8) -> None:
    """A constructed server: many cores, many PCI functions, GPUs among them."""
    _write(
        root / "proc/cpuinfo",
        "vendor_id\t: AuthenticAMD\nmodel name\t: constructed\nflags\t: avx2\n\n" * cores,
    )
    _write(root / "proc/meminfo", "MemTotal: 1000000000 kB\nMemAvailable: 900000000 kB\n")
    _write(root / "sys/devices/system/cpu/online", f"0-{cores - 1}\n")
    for cpu in range(cores):
        _write(
            root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{cpu // 2}\n"
        )
    for number in range(functions):
        folder = root / f"sys/bus/pci/devices/0000:{number >> 5:02x}:{number & 31:02x}.0"
        is_gpu = number < gpus
        _write(folder / "class", "0x030200\n" if is_gpu else "0x060400\n")
        _write(folder / "vendor", "0x10de\n" if is_gpu else "0x8086\n")
        _write(folder / "device", "0x2330\n" if is_gpu else "0x352a\n")


def measure(root: str, runs: int) -> tuple[float, float, int]:
    """Medians of the first and the next probe in ms, and the number of devices.

    The first of all runs fills caches.
    """
    firsts, nexts, devices = [], [], 0
    for run in range(runs + 1):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, root], capture_output=True, text=True, check=True
        ).stdout.split()
        if run:
            firsts.append(float(done[0]) * 1e3)
            nexts.append(float(done[1]) * 1e3)
        devices = int(done[2])
    return statistics.median(firsts), statistics.median(nexts), devices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        build_server(Path(folder))
        print(f"{'machine':<20}{'first':>12}{'again':>12}{'devices':>9}   goal {_GOAL_MS:g} ms")
        for name, root in (("this one", "/"), ("constructed server", folder)):
            first, again, devices = measure(root, runs)
            print(f"{name:<20}{first:>9.1f} ms{again:>9.1f} ms{devices:>9}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
