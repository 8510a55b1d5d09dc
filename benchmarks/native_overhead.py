"""Inference through ortpkg's providers against calling openvino and onnxruntime directly, in interleaved pairs.

    python -m benchmarks.native_overhead [--budget S] [MODEL.onnx ...]

Without arguments: the sample package's models. Goal: a median ratio of at most 1.05 for models of more than 1 ms, and
at most 30 µs more for smaller ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnxruntime
import openvino

import ortpkg
from benchmarks.paired import Timing, time_in_turns
from benchmarks.run_latency import DEFAULT_MODELS, random_feeds

_GOAL_RATIO = 1.05
_SMALL_S = 0.001
_GOAL_S = 30e-6


def compare_openvino(path: Path, budget_s: float) -> tuple[Timing, float]:
    """Our timing relative to OpenVINO's own, and theirs in seconds."""
    feeds = random_feeds(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]))
    compiled = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    ours = ortpkg.InferenceSession(path, backend="openvino")
    contenders = {"direct": lambda: request.infer(feeds), "ortpkg": lambda: ours.run(None, feeds)}
    found = time_in_turns(contenders, baseline="direct", budget_s=budget_s, least_rounds=15)
    return found["ortpkg"], found["direct"].median_s


def compare_onnxruntime(path: Path, budget_s: float) -> tuple[Timing, float]:
    """Our timing relative to onnxruntime's own, and theirs in seconds."""
    direct = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = random_feeds(direct)
    ours = ortpkg.InferenceSession(path, backend="onnxruntime")
    contenders = {"direct": lambda: direct.run(None, feeds), "ortpkg": lambda: ours.run(None, feeds)}
    found = time_in_turns(contenders, baseline="direct", budget_s=budget_s, least_rounds=15)
    return found["ortpkg"], found["direct"].median_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for each model and library")
    arguments = parser.parse_args()
    for path in arguments.models or DEFAULT_MODELS:
        for name, compare in (("openvino", compare_openvino), ("onnxruntime", compare_onnxruntime)):
            own, direct_s = compare(path, arguments.budget)
            added_s = own.median_s - direct_s
            is_met = added_s <= _GOAL_S if direct_s < _SMALL_S else own.ratio <= _GOAL_RATIO
            print(
                f"{path.stem} on {name}: {direct_s * 1000:.3f} ms directly, {own.ratio:.3f} times that "
                f"({own.ratio_low:.3f} to {own.ratio_high:.3f}), {added_s * 1e6:+.0f} µs: "
                f"{'met' if is_met else 'missed'}"
            )


if __name__ == "__main__":
    main()
