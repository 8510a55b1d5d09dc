"""Latency of one run: our engine, onnxruntime, onnx.reference, as multiples of onnxruntime.

    python -m benchmarks.run_latency [MODEL.onnx ...]

Without arguments: the sample package's models and the light models of the onnx package (without
weights they are all overhead, which is what they show). Set ``OPENBLAS_NUM_THREADS`` alike for all
contenders; unset ``OPENBLAS_CORETYPE``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

import ortpkg
from benchmarks.paired import Timing, time_in_turns

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_MODELS = sorted((ROOT / "sample_packages" / "digits.ortpackage" / "models").rglob("*.onnx"))
_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


def random_feeds(session: Any, *, seed: int = 0) -> dict[str, Any]:
    """Inputs for an onnxruntime session; unknown dimensions are 1."""
    generator = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for argument in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in argument.shape]
        feeds[argument.name] = generator.standard_normal(shape).astype(_DTYPES[argument.type])
    return feeds


def compare(path: Path, *, with_reference: bool) -> dict[str, Timing]:
    """Timings of one model by contender; raises AssertionError where outputs disagree."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    peer = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    ours = ortpkg.InferenceSession(path, providers=["cpu"])
    feeds = random_feeds(peer)
    for mine, theirs in zip(ours.run(None, feeds), peer.run(None, feeds), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-2, atol=5e-2)
    contenders: dict[str, Callable[[], object]] = {
        "onnxruntime": lambda: peer.run(None, feeds),
        "ortpkg": lambda: ours.run(None, feeds),
    }
    if with_reference:
        try:
            reference = ReferenceEvaluator(onnx.load(path))
        except RuntimeError as error:  # it lacks some versions of some operators
            print(f"  onnx.reference cannot run it: {error}")
        else:
            contenders["onnx.reference"] = lambda: reference.run(None, feeds)
    return time_in_turns(contenders, baseline="onnxruntime")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare run latency with onnxruntime and onnx.reference."
    )
    parser.add_argument("models", nargs="*", type=Path, default=DEFAULT_MODELS)
    parser.add_argument(
        "--no-reference", action="store_true", help="leave onnx.reference out (it is slow)"
    )
    arguments = parser.parse_args()
    for path in arguments.models:
        print(path)
        for name, timing in compare(path, with_reference=not arguments.no_reference).items():
            spread = f"{timing.ratio_low:.2f} to {timing.ratio_high:.2f}"
            print(
                f"  {name:16} {1e3 * timing.median_s:9.3f} ms  {timing.ratio:7.2f} x onnxruntime "
                f" ({spread})"
            )


if __name__ == "__main__":
    main()
