"""``ortpkg install`` where the store has everything already, beside ``ortpkg select``.

    python -m benchmarks.install_process [--rounds 15]

Whole processes in turns, from a layout and from a registry on loopback, into a store that has the
package, and into one that has only its blobs. Shows what each takes longer than ``select`` on a
folder: time that passes, and processor time, which other load on the machine disturbs less. The
goal: at most 100 ms more.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.repositories import repository_of
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    parse_reference,
)
from tests.registry.servers import serve

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sample_packages" / "digits.ortpackage"
_SELECT = "select a folder"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serve("in process", Path(name)) as server:
        os.environ["ORTPKG_STORE"] = str(Path(name, "store"))
        references = [f"oci-layout:{name}/layout:1", f"oci://{server.host}/models/digits:1"]
        for reference in references:
            place = parse_reference(reference)
            assert isinstance(place, LayoutReference | OciReference)
            publish(PACKAGE, repository_of(place), tags=["1"])
        script = str(Path(sysconfig.get_path("scripts"), "ortpkg"))
        layout, registry = ([script, "install", each, "--name", "p"] for each in references)
        commands = {
            _SELECT: [script, "select", str(PACKAGE)],
            "select by name": [script, "select", "p"],
            "install, of a layout": layout,
            "install, of a registry": registry,
            "install, a name anew": layout,
        }
        _cost(layout)
        costs: dict[str, list[tuple[float, float]]] = {what: [] for what in commands}
        for number in range(arguments.rounds + 1):
            for what, words in commands.items():
                if what.endswith("anew"):
                    PackageStore().uninstall("p")
                found = _cost(words)
                if number:  # the first fills caches
                    costs[what].append(found)
    _print(costs)


def _print(costs: dict[str, list[tuple[float, float]]]) -> None:
    select = costs[_SELECT]
    for what, found in costs.items():
        line = f"{what:24}"
        for index, kind in enumerate(("wall", "processor")):
            values = [each[index] * 1000 for each in found]
            more = [each - other[index] * 1000 for each, other in zip(values, select, strict=True)]
            least = min(values) - min(each[index] * 1000 for each in select)
            line += f" {kind} {statistics.median(values):5.0f} ms"
            if what != _SELECT:
                line += f" ({statistics.median(more):+.0f}, least {least:+.0f})"
        print(line)


def _cost(words: list[str]) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
