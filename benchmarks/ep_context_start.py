"""Session creation from a context and afresh, beside OpenVINO with its own cache.

    python -m benchmarks.ep_context_start [--ep openvino|llvm] [--rounds N] MODEL.onnx ...

The context model is made first, with its binary beside it. What is timed of it includes the check
of its digests, as of the second start: the first one also reads the whole binary, and loads it in a
child process. Goal: on OpenVINO at most 1.2 times the time with its cache directory, and 20 ms; of
machine code (llvm) at most that time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import openvino

import ortpkg
from ortpkg.foundations.ep_names import CPU_EP, LLVM_EP, OPENVINO_EP

_F32 = {"INFERENCE_PRECISION_HINT": "f32"}
_PROVIDERS = {"openvino": (OPENVINO_EP,), "llvm": (LLVM_EP, CPU_EP)}
#: Times the cache directory's, and seconds beside.
_GOALS = {"openvino": (1.2, 0.020), "llvm": (1.0, 0.0)}
#: A younger file is hashed at every start.
SETTLING_S = 2.5


def measure(path: Path, ep: str, rounds: int) -> None:
    """Prints one line for a model."""
    with tempfile.TemporaryDirectory(prefix="ortpkg-") as folder:
        context, cache = Path(folder) / "model_ctx.onnx", Path(folder) / "cache"
        os.environ["ORTPKG_CACHE_DIR"] = str(Path(folder) / "ortpkg")
        make_context(path, context, _PROVIDERS[ep])
        time.sleep(SETTLING_S)
        first_s = _timed(lambda: _open(context, ep))
        contenders: dict[str, Callable[[], object]] = {
            "context": lambda: _open(context, ep),
            "cache directory": lambda: _with_cache(path, cache),
            "afresh": lambda: _open(path, ep),
        }
        for call in contenders.values():
            call()
        times = {name: [_timed(call)] for name, call in contenders.items()}
        for _ in range(rounds - 1):
            for name, call in contenders.items():
                times[name].append(_timed(call))
    own, cached, afresh = (statistics.median(times[name]) for name in contenders)
    goal_ratio, goal_s = _GOALS[ep]
    over = sorted(
        mine - goal_ratio * theirs
        for mine, theirs in zip(times["context"], times["cache directory"], strict=True)
    )
    median_over_s = statistics.median(over)
    print(
        f"{path.stem}: context {own:.3f} s (the first time {first_s:.3f} s), cache directory"
        f" {cached:.3f} s, afresh {afresh:.3f} s; over {goal_ratio} times the cache directory:"
        f" {median_over_s * 1000:+.0f} ms ({over[len(over) // 4] * 1000:+.0f} to"
        f" {over[-1 - len(over) // 4] * 1000:+.0f}), goal {goal_s * 1000:+.0f}:"
        f" {'met' if median_over_s <= goal_s else 'missed'}"
    )


def make_context(
    path: Path, context: Path, providers: Sequence[str] = _PROVIDERS["openvino"]
) -> None:
    """Compiles a model into a context model."""
    options = ortpkg.SessionOptions()
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(context))
    ortpkg.InferenceSession(path, options, providers=[*providers]).close()


def _open(path: Path, ep: str) -> None:
    ortpkg.InferenceSession(path, providers=[*_PROVIDERS[ep]]).close()


def _with_cache(path: Path, cache: Path) -> object:
    core = openvino.Core()
    core.set_property({"CACHE_DIR": str(cache)})
    return core.compile_model(str(path), "CPU", _F32)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ep", choices=[*_PROVIDERS], default="openvino")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    for path in arguments.models:
        measure(path, arguments.ep, arguments.rounds)


if __name__ == "__main__":
    main()
