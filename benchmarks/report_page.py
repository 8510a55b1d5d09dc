"""Makes reports of packages: how long that takes, and how large the pages are.

    python -m benchmarks.report_page [--rounds 3]

Each page is made in a process that has made one before; the last row is a whole command. Goals: 2 s
without measurements, 3 MB for a package of 20 variants.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx

from benchmarks.report_models import bert_like_model, chain_model
from benchmarks.tape_plugin import tape_plugin
from ortpkg import ModelPackage, NewVariant, ReportWishes, create
from ortpkg.report.report_wishes import DrawnGraphs

_SAMPLES = Path("sample_packages")
_PROFILES = ("snapdragon-x-laptop", "plain-server")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(f"{'page':<52} {'least':>8} {'processor':>10} {'size':>9}")
    with tempfile.TemporaryDirectory() as folder, tape_plugin() as tape:
        for what, package, wishes in _cases(Path(folder), tape):
            _tell(what, rounds, lambda: ModelPackage(package).report(wishes))  # noqa: B023
        _tell("ortpkg report digits: a whole command", rounds, lambda: _command(Path(folder)))


def _cases(folder: Path, tape: str) -> Iterator[tuple[str, Path, ReportWishes]]:
    """(what, package, wishes); what comes first also warms up what a process loads once."""
    yield "digits, 2 profiles", _SAMPLES / "digits.ortpackage", ReportWishes(profiles=_PROFILES)
    yield "tinychar", _SAMPLES / "tinychar.ortpackage", ReportWishes()
    bert = _package(folder / "bert", bert_like_model())
    yield "BERT of 1,471 nodes", bert, ReportWishes()
    yield "the same on three providers", bert, ReportWishes(eps=(tape, "llvm"))
    yield "10,000 nodes", _package(folder / "chain", chain_model(10_000)), ReportWishes()
    twenty = _package(folder / "twenty", bert_like_model(), variants=20)
    yield "20 variants of the BERT, the chosen one's graph", twenty, ReportWishes()
    yield (
        "20 variants of the BERT, graphs of all",
        twenty,
        ReportWishes(graphs=DrawnGraphs.ALL),
    )


def _package(folder: Path, model: onnx.ModelProto, variants: int = 1) -> Path:
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    create(
        folder / "p.ortpackage",
        [
            NewVariant(model=folder / "model.onnx", name=f"variant-{number}", ep="cpu")
            for number in range(variants)
        ],
    )
    return folder / "p.ortpackage"


def _command(folder: Path) -> str:
    page = folder / "digits.html"
    command = [sys.executable, "-m", "ortpkg", "report", str(_SAMPLES / "digits.ortpackage")]
    subprocess.run([*command, "-o", str(page), "--overwrite"], check=True, capture_output=True)
    return page.read_text(encoding="utf-8")


def _tell(what: str, rounds: int, make: Callable[[], str]) -> None:
    make()
    costs = []
    for _ in range(rounds):
        started, cpu = time.perf_counter(), time.process_time()
        page = make()
        costs.append((time.perf_counter() - started, time.process_time() - cpu))
    least, least_cpu = min(wall for wall, _ in costs), min(cpu for _, cpu in costs)
    print(f"{what:<52} {least:6.2f} s {least_cpu:8.2f} s {len(page.encode()) / 1000:6.0f} kB")


if __name__ == "__main__":
    main()
