"""Session creation by a hit in the cache of contexts, by a context model, and without.

    python -m benchmarks.context_cache [--rounds N] [--backend openvino|onnxruntime] MODEL.onnx ...

The models are the zoo's (``benchmarks.zoo.build``). The context model and the cache are filled
first, and files left to settle: what is timed is each later start. Goal: a hit takes at most 1.1
times what the context model takes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import ortpkg
from ortpkg.foundations.ep_names import CPU_EP, OPENVINO_EP

_EPS = {"openvino": OPENVINO_EP, "onnxruntime": CPU_EP}
_GOAL_RATIO = 1.1
#: A younger file is hashed at every start.
_SETTLING_S = 2.5
_CONTEXT, _HIT, _NONE = "context model", "hit", "no cache"


def measure(path: Path, backend: str, rounds: int) -> None:
    """Prints one line for a model on a backend."""
    with tempfile.TemporaryDirectory(prefix="ortpkg-") as folder:
        os.environ["ORTPKG_CACHE_DIR"] = str(Path(folder) / "cache")
        context = Path(folder) / "model_ctx.onnx"
        make = partial(_make, backend=backend)
        make(path, {"ep.context_enable": "1", "ep.context_file_path": str(context)})
        miss_s = _timed(lambda: make(path, {"ortpkg.ep_context_cache": "1"}))
        time.sleep(_SETTLING_S)
        contenders: dict[str, Callable[[], None]] = {
            _CONTEXT: lambda: make(context, {}),
            _HIT: lambda: make(path, {"ortpkg.ep_context_cache": "1"}),
            _NONE: lambda: make(path, {}),
        }
        for call in contenders.values():  # the first load of a context is tried in a child process
            call()
            call()
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, call in contenders.items():
                times[name].append(_timed(call))
    medians = {name: statistics.median(own) for name, own in times.items()}
    to_context, to_none = _ratios(times[_HIT], times[_CONTEXT]), _ratios(times[_HIT], times[_NONE])
    print(
        f"{path.stem} on {backend}: "
        + ", ".join(f"{name} {took:.3f} s" for name, took in medians.items())
        + f", miss {miss_s:.3f} s; a hit is {_shown(to_context)} x the context model (goal"
        f" {_GOAL_RATIO}: {'met' if statistics.median(to_context) <= _GOAL_RATIO else 'missed'}),"
        f" {_shown(to_none)} x no cache",
        flush=True,
    )


def _make(path: Path, entries: dict[str, str], *, backend: str) -> None:
    options = ortpkg.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    ortpkg.InferenceSession(path, options, providers=[_EPS[backend]], backend=backend).close()


def _timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _ratios(own: Sequence[float], others: Sequence[float]) -> list[float]:
    return sorted(mine / theirs for mine, theirs in zip(own, others, strict=True))


def _shown(ratios: Sequence[float]) -> str:
    """The median, and the middle half."""
    quarter = len(ratios) // 4
    return f"{statistics.median(ratios):.2f} ({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--backend", choices=list(_EPS), action="append", help="default: both")
    arguments = parser.parse_args()
    for path in arguments.models:
        for backend in arguments.backend or _EPS:
            measure(path, backend, arguments.rounds)


if __name__ == "__main__":
    main()
