"""Lists a store of many packages, as a whole process, and opens one of them by name.

    python -m benchmarks.list_packages [--packages 1000] [--rounds 15]

In turns with a process that only imports ortpkg. Shows the time that passes and the processor time.
The goal: 1,000 packages in 0.3 s, the start of Python included.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ortpkg.distribution.store.blob_trees import TreeContent
from ortpkg.distribution.store.package_store import PackageStore

_LIST = """
import sys
from pathlib import Path
from ortpkg.distribution.store.installed_packages import InstalledPackages
print(len(InstalledPackages(Path(sys.argv[1])).packages()))
"""
_OPEN = """
import sys
from pathlib import Path
from ortpkg.distribution.store.installed_packages import InstalledPackages
with InstalledPackages(Path(sys.argv[1])).open("package-7") as package:
    print(package.root)
"""
_COMMAND = """
import os, sys
os.environ["ORTPKG_STORE"] = sys.argv[1]
from ortpkg.cli.app import run
sys.exit(run(["list"]))
"""
_PROGRAMS = {
    "import ortpkg": "import ortpkg",
    "list": _LIST,
    "ortpkg list": _COMMAND,
    "open by name": _OPEN,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        _fill(root, arguments.packages)
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in _PROGRAMS}
        for _ in range(arguments.rounds):
            for name, program in _PROGRAMS.items():
                costs[name].append(_cost([sys.executable, "-c", program, str(root)]))
    for name, found in costs.items():
        wall, cpu = ([each[index] * 1000 for each in found] for index in (0, 1))
        print(
            f"{name:14} {statistics.median(wall):6.0f} ms ({min(wall):.0f} to {max(wall):.0f}),"
            f" processor {statistics.median(cpu):.0f} ms (least {min(cpu):.0f})"
        )


def _fill(root: Path, count: int) -> None:
    """One tree, under many names: what a list reads does not depend on it."""
    os.fsync = os.fstat  # type: ignore[assignment] # nothing has to survive
    store = PackageStore(root)
    manifest = store.blobs.add_bytes(b"manifest")
    content = TreeContent(
        manifest=manifest,
        reference="oci://models.example/package:1",
        folder="package.ortpackage",
        documents={"manifest.json": b"{}"},
        blobs=(manifest,),
    )
    first = store.install("package-0", content, tag="1", variants=("model/cpu-int8",))
    template = (root / "names/package-0/current.json").read_text()
    for number in range(1, count):
        folder = root / "names" / f"package-{number}"
        folder.mkdir()
        (folder / "current.json").write_text(template.replace(first.name, folder.name))


def _cost(words: list[str]) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
