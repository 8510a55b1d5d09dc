"""Compares Loops on the numpy engine with onnxruntime: a row times a matrix, and a carried value.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m benchmarks.loops [--busy 2]

Each iteration multiplies a row of 512 by a matrix and takes the tangent. A second Loop carries
16 MB more, which its body hands through; it costs as much as the first where nothing is copied.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import onnx.parser
import onnxruntime

import ortpkg
from benchmarks.busy_machine import busy_processes
from benchmarks.paired import time_in_turns

_TEXT = """
<ir_version: 9, opset_import: ["" : 17]>
loops (float[1, 512] row, float[512, 512] matrix, float[4194304] carried) => (float[1, 512] y)
{
    trips = Constant <value = int64 {TRIPS}> ()
    OUTPUTS = Loop <body = body (int64 number, bool condition, float[1, 512] state CARRIED) =>
        (bool next_condition, float[1, 512] next_state HANDED) {
        next_condition = Identity (condition)
        product = MatMul (state, matrix)
        next_state = Tanh (product)
        HANDING
    }> (trips, , row PASSED)
}
"""
_PLAIN = {"OUTPUTS": "y", "CARRIED": "", "HANDED": "", "HANDING": "", "PASSED": ""}
_CARRYING = {
    "OUTPUTS": "y, last",
    "CARRIED": ", float[4194304] cache",
    "HANDED": ", float[4194304] next_cache",
    "HANDING": "next_cache = Identity (cache)",
    "PASSED": ", carried",
}


def loop(replacements: dict[str, str], trips: int) -> bytes:
    """Return a model with one Loop of so many iterations; the replacements fill ``_TEXT``."""
    text = _TEXT.replace("TRIPS", str(trips))
    for word, replacement in replacements.items():
        text = text.replace(word, replacement)
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def contenders(trips: int, feeds: dict[str, np.ndarray]) -> dict[str, Callable[[], object]]:
    """Return calls that run both Loops, in both libraries, all with the machine's cores."""
    runs: dict[str, Callable[[], object]] = {}
    for kind, replacements in (("row", _PLAIN), ("row and 16 MB carried", _CARRYING)):
        model = loop(replacements, trips)
        reference = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        session = ortpkg.InferenceSession(model, providers=["cpu"])
        np.testing.assert_allclose(
            session.run(None, feeds)[0], reference.run(None, feeds)[0], atol=1e-5
        )
        runs[f"{kind}, onnxruntime"] = partial(reference.run, None, feeds)
        runs[f"{kind}, numpy engine"] = partial(session.run, None, feeds)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare Loops with onnxruntime.")
    parser.add_argument("--trips", type=int, default=200)
    parser.add_argument("--busy", type=int, default=0, help="other processes that want a core")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(3)
    generator = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {
        "row": generator.standard_normal((1, 512), np.float32),
        "matrix": generator.standard_normal((512, 512), np.float32) / 32,
        "carried": np.zeros(4194304, np.float32),
    }
    runs = contenders(arguments.trips, feeds)
    with busy_processes(arguments.busy):
        timings = time_in_turns(
            runs, baseline="row, onnxruntime", budget_s=arguments.budget, settle_s=0.1
        )
    for name, timing in timings.items():
        print(
            f"{name}: {1e3 * timing.median_s:.2f} ms, {timing.ratio:.2f} of the first (least"
            f" {timing.least_ratio:.2f})"
        )


if __name__ == "__main__":
    main()
