"""Inference through ortpkg's providers against openvino and onnxruntime called directly.

    python -m benchmarks.native_overhead [--budget S] [MODEL.onnx ...]

Without arguments: a model of one node, and the sample package's models. Goal: a median ratio of at
most 1.05 for models of more than 1 ms, and at most 30 µs more for smaller ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx.parser
import onnxruntime

import ortpkg
from benchmarks.paired import Timing, time_in_turns
from benchmarks.run_latency import DEFAULT_MODELS, random_feeds
from ortpkg.runtime.providers.quiet_openvino import openvino

_GOAL_RATIO = 1.05
_SMALL_S = 0.001
_GOAL_S = 30e-6
_ONE_NODE = """<ir_version: 10, opset_import: ["" : 20]>
g (float[1, 8] x) => (float[1, 8] y) { y = Relu(x) }"""


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
    contenders = {
        "direct": lambda: direct.run(None, feeds),
        "ortpkg": lambda: ours.run(None, feeds),
    }
    found = time_in_turns(contenders, baseline="direct", budget_s=budget_s, least_rounds=15)
    return found["ortpkg"], found["direct"].median_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument(
        "--budget", type=float, default=5.0, help="seconds for each model and library"
    )
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        _compare_all(
            arguments.models or [_one_node(Path(folder, "one")), *DEFAULT_MODELS], arguments.budget
        )


def _one_node(folder: Path) -> Path:
    """A model that costs nearly nothing to compute."""
    folder.mkdir()
    path = folder / "node.onnx"
    onnx.save(onnx.parser.parse_model(_ONE_NODE), path)
    return path


def _compare_all(paths: Iterable[Path], budget_s: float) -> None:
    for path in paths:
        for name, compare in (("openvino", compare_openvino), ("onnxruntime", compare_onnxruntime)):
            own, direct_s = compare(path, budget_s)
            is_met = own.added_s <= _GOAL_S if direct_s < _SMALL_S else own.ratio <= _GOAL_RATIO
            print(
                f"{path.parent.name}/{path.stem} on {name}: {direct_s * 1000:.3f} ms directly,"
                f" {own.ratio:.3f} times that ({own.ratio_low:.3f} to {own.ratio_high:.3f}),"
                f" {own.added_s * 1e6:+.1f} µs ({own.added_low_s * 1e6:+.1f} to"
                f" {own.added_high_s * 1e6:+.1f}): {'met' if is_met else 'missed'}"
            )


if __name__ == "__main__":
    main()
