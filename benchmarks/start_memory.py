"""Session creation and memory as machine code, from nothing and from a context, beside onnxruntime.

    python -m benchmarks.start_memory [--rounds N] MODEL.onnx ...

Each figure is the median of fresh processes, in turns: seconds to make the session; above what the
imports take, the most memory that was resident until two runs have ended, and what is resident
then (Linux). Pages of mapped files count where they are touched. Inputs come from the .npz file
beside the model, as ``benchmarks.zoo.build`` writes it. Goal: memory at most onnxruntime's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from benchmarks.ep_context_start import SETTLING_S, make_context
from benchmarks.zoo.compare import THREADS, feeds_of, open_ours, open_theirs
from ortpkg.foundations.ep_names import CPU_EP, LLVM_EP

_NOTHING, _CONTEXT, _THEIRS = "from nothing", "from a context", "onnxruntime"
#: What is loaded before memory is counted.
_IMPORTS = {
    _NOTHING: (
        "ortpkg.runtime.session.inference_session",
        "ortpkg.compiler.compiler",
        "llvmlite.binding",
    ),
    _CONTEXT: (
        "ortpkg.runtime.session.inference_session",
        "ortpkg.runtime.providers.llvm.llvm_execution_provider",
    ),
    _THEIRS: ("onnxruntime",),
}


def measure(path: Path, rounds: int) -> None:
    """Prints a line for each way to run a model."""
    with tempfile.TemporaryDirectory(prefix="ortpkg-") as folder:
        context = Path(folder) / "model_ctx.onnx"
        os.environ["ORTPKG_CACHE_DIR"] = str(Path(folder) / "cache")
        make_context(path, context, (LLVM_EP, CPU_EP))
        time.sleep(SETTLING_S)
        _in_child(_CONTEXT, context, path)  # its digests are remembered from then on
        models = {_NOTHING: path, _CONTEXT: context, _THEIRS: path}
        found: dict[str, list[list[float]]] = {way: [] for way in models}
        for _ in range(rounds):
            for way, model in models.items():
                found[way].append(_in_child(way, model, path))
    theirs = [statistics.median(each) for each in zip(*found[_THEIRS], strict=True)]
    for way, runs in found.items():
        ours = [statistics.median(each) for each in zip(*runs, strict=True)]
        ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
        print(
            f"{path.stem:24} {way:16} session {ours[0]:.3f} s ({ratios[0]:.2f}), peak"
            f" {ours[1] / 1e6:.0f} MB ({ratios[1]:.2f}), then {ours[2] / 1e6:.0f} MB"
            f" ({ratios[2]:.2f})",
            flush=True,
        )


def _in_child(way: str, model: Path, source: Path) -> list[float]:
    words = [sys.executable, "-m", "benchmarks.start_memory", "--child", way, str(model)]
    done = subprocess.run([*words, str(source)], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def _measure_here(way: str, model: Path, source: Path) -> None:
    """In a fresh process: prints seconds, and bytes at the peak and at the end."""
    for name in _IMPORTS[way]:
        import_module(name)
    feeds = feeds_of(source)
    before = _resident("VmRSS")
    start = time.perf_counter()
    session = open_theirs(model, THREADS) if way == _THEIRS else open_ours(model, THREADS, "llvm")
    created_s = time.perf_counter() - start
    session.run(None, feeds)
    session.run(None, feeds)
    print(json.dumps([created_s, _resident("VmHWM") - before, _resident("VmRSS") - before]))


def _resident(field: str) -> int:
    """Bytes: ``VmRSS`` now, ``VmHWM`` at the most."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(rf"^{field}:\s*(\d+) kB$", status, re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", choices=[*_IMPORTS], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        _measure_here(arguments.child, *arguments.models)
        return
    for path in arguments.models:
        measure(path, arguments.rounds)


if __name__ == "__main__":
    main()
