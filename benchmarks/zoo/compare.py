"""The zoo on our engine and onnxruntime side by side: outputs, time, memory.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m benchmarks.zoo.compare DIRECTORY [NAME
    ...] [--ep llvm] [--openvino] [--json FILE]

Latency is a multiple of onnxruntime's on the same number of threads, in turns in one process.
Start-up and peak memory are those of fresh processes, also in turns (``--start``).
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.chosen_models import add_arguments, chosen_models
from benchmarks.paired import time_in_turns

THREADS = 2
_ROUNDS = 5
#: Until the threads of the engine that ran before sleep.
_SETTLE_S = 0.1


def open_ours(path: Path, threads: int, ep: str = "cpu") -> Any:
    import ortpkg

    options = ortpkg.SessionOptions()
    options.intra_op_num_threads = threads
    return ortpkg.InferenceSession(path, options, providers=list(dict.fromkeys((ep, "cpu"))))


def open_theirs(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


OPEN = {"ortpkg": open_ours, "onnxruntime": open_theirs}


def open_openvino(path: Path, threads: int) -> Callable[[dict[str, Any]], Any]:
    """OpenVINO's own API, told to compute in float32 (else it takes bfloat16 where it can)."""
    from ortpkg.runtime.providers.quiet_openvino import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    request = compiled.create_infer_request()
    infer: Callable[[dict[str, Any]], Any] = request.infer
    return infer


def feeds_of(path: Path) -> dict[str, Any]:
    with np.load(path.with_suffix(".npz")) as found:
        return dict(found)


def largest_error(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference relative to the largest output.

    ValueError where one has NaN and the other has not.
    """
    return max(relative_error(a, b) for a, b in zip(ours, theirs, strict=True))


def relative_error(ours: Any, theirs: Any) -> float:
    """The largest difference relative to the largest number of ``theirs``.

    NaN agrees with NaN, infinity with itself.

    ValueError where one has NaN and the other has not.
    """
    apart = np.isnan(ours) != np.isnan(theirs)
    if apart.any():
        whose = "ours" if np.isnan(ours).sum() > np.isnan(theirs).sum() else "theirs"
        raise ValueError(
            f"{apart.sum()} of {apart.size} elements are NaN in one output and not in the other"
            f" ({whose})"
        )
    with np.errstate(invalid="ignore"):
        differences = np.where((ours == theirs) | np.isnan(ours), 0, np.abs(ours - theirs))
    largest = np.max(np.abs(theirs[np.isfinite(theirs)]), initial=1e-12)
    return float(np.max(differences, initial=0) / largest)


def compare(
    path: Path, *, threads: int, budget_s: float, ep: str = "cpu", openvino: bool = False
) -> dict[str, Any]:
    """Agreement and latency of one model.

    ``ep``: what runs it on our side; ``openvino``: time OpenVINO too, in the same rounds.
    """
    feeds = feeds_of(path)
    ours, theirs = open_ours(path, threads, ep), open_theirs(path, threads)
    error = largest_error(ours.run(None, feeds), theirs.run(None, feeds))
    runs = {"onnxruntime": lambda: theirs.run(None, feeds), "ortpkg": lambda: ours.run(None, feeds)}
    if openvino:
        infer = open_openvino(path, threads)
        runs["openvino"] = lambda: infer(feeds)
    timings = time_in_turns(runs, baseline="onnxruntime", budget_s=budget_s, settle_s=_SETTLE_S)
    others = {"openvino_ratio": timings["openvino"].ratio} if openvino else {}
    return {
        **others,
        "error": error,
        "ratio": timings["ortpkg"].ratio,
        "low": timings["ortpkg"].ratio_low,
        "high": timings["ortpkg"].ratio_high,
        "ours_s": timings["ortpkg"].median_s,
        "theirs_s": timings["onnxruntime"].median_s,
    }


def start_once(name: str, path: Path, threads: int) -> dict[str, float]:
    """In a fresh process: seconds to make a session, and peak memory above the imports."""
    code = (
        f"from benchmarks.zoo.compare import measure_start; measure_start({name!r}, {str(path)!r},"
        f" {threads})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure_start(name: str, path: str, threads: int) -> None:
    """What :func:`start_once` runs in the child."""
    __import__(name)
    if name == "ortpkg":
        __import__("ortpkg.runtime.session.inference_session")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    feeds = feeds_of(Path(path))
    start = time.perf_counter()
    session = OPEN[name](Path(path), threads)
    created_s = time.perf_counter() - start
    session.run(None, feeds)
    session.run(None, feeds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"created_s": created_s, "peak_nbytes": (peak - before) * 1024}))


def compare_start(path: Path, *, threads: int) -> dict[str, Any]:
    """Session creation and peak memory as multiples of onnxruntime's: medians, in turns."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in OPEN}
    for _ in range(_ROUNDS):
        for name, runs in found.items():
            runs.append(start_once(name, path, threads))
    medians = {
        name: {
            key: statistics.median(run[key] for run in runs) for key in ("created_s", "peak_nbytes")
        }
        for name, runs in found.items()
    }
    ours, theirs = medians["ortpkg"], medians["onnxruntime"]
    return {
        "created_ratio": ours["created_s"] / theirs["created_s"],
        "created_s": ours["created_s"],
        "peak_ratio": ours["peak_nbytes"] / max(theirs["peak_nbytes"], 1),
        "peak_nbytes": ours["peak_nbytes"],
    }


def main(words: Sequence[str] | None = None) -> int:
    """Returns 1 where a model failed, or gave NaN on one engine alone; 0 otherwise."""
    parser = argparse.ArgumentParser(
        description="Compare the embedded engine with onnxruntime on the zoo."
    )
    add_arguments(parser)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--budget", type=float, default=4.0, help="seconds of measuring per model")
    parser.add_argument("--start", action="store_true", help="session creation and peak memory too")
    parser.add_argument("--ep", default="cpu", help="what runs it on our side: cpu, llvm, openvino")
    parser.add_argument("--openvino", action="store_true", help="time OpenVINO (float32) beside it")
    arguments = parser.parse_args(words)
    paths = chosen_models(arguments)
    results: dict[str, Any] = {}
    print(
        f"{'model':26}{'ours':>10}{'theirs':>10}{'ratio':>7} {'middle half':>13}{'error':>10}",
        flush=True,
    )
    for path in paths:
        try:
            found = compare(
                path,
                threads=arguments.threads,
                budget_s=arguments.budget,
                ep=arguments.ep,
                openvino=arguments.openvino,
            )
        except Exception as error:  # noqa: BLE001 - the next model is of interest all the same
            print(f"{path.stem:26}{type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        spread = f"{found['low']:.2f}-{found['high']:.2f}"
        line = (
            f"{path.stem:26}{1e3 * found['ours_s']:8.2f}ms{1e3 * found['theirs_s']:8.2f}ms"
            f"{found['ratio']:7.2f}"
            f" {spread:>13}{found['error']:10.1e}"
        )
        if arguments.openvino:
            line += f"  openvino {found['openvino_ratio']:.2f}"
        if arguments.start:
            start = compare_start(path, threads=arguments.threads)
            found |= start
            line += (
                f"  start {start['created_s']:.2f} s = {start['created_ratio']:.2f} x,"
                f" peak {start['peak_nbytes'] / 1e6:.0f} MB = {start['peak_ratio']:.2f} x"
            )
        results[path.stem] = found
        print(line, flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0 if len(results) == len(paths) else 1


if __name__ == "__main__":
    sys.exit(main())
