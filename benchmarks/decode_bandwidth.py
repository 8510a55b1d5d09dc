"""A step of a decoder as machine code: times onnxruntime's, and the part of memory's bandwidth.

    python -m benchmarks.decode_bandwidth DIRECTORY/gpt2_decode.onnx [--threads 2] [--budget 6]

A step of one token reads each weight once, so memory's bandwidth bounds it. In each round come
onnxruntime, the step in float32, the step with weights rounded to bfloat16 where the CPU multiplies
these, and a copy of 256 MiB, which reads them and writes as many. The error is the largest
difference from onnxruntime's outputs, relative to their largest number.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import ortpkg
from benchmarks.paired import time_in_turns
from benchmarks.zoo.compare import feeds_of, largest_error, open_theirs
from ortpkg.foundations.errors import InvalidSessionOptionError

_COPIED_NBYTES = 256 << 20
_SETTLE_S = 0.1
#: Precision → bytes of one weight.
_PRECISIONS = {"f32": 4, "bf16": 2}


def open_step(path: Path, threads: int, precision: str) -> Any:
    options = ortpkg.SessionOptions()
    options.intra_op_num_threads = threads
    own = {"precision": precision}
    return ortpkg.InferenceSession(
        path, options, providers=["llvm", "cpu"], provider_options=[own, {}]
    )


def copying(threads: int) -> Callable[[], object]:
    """A copy shared by threads."""
    source = np.ones(_COPIED_NBYTES, np.uint8)
    target = np.zeros_like(source)
    share = -(-_COPIED_NBYTES // threads)
    parts = [slice(first, first + share) for first in range(0, _COPIED_NBYTES, share)]
    pool = ThreadPoolExecutor(threads)

    def copy(part: slice) -> None:
        target[part] = source[part]

    return lambda: list(pool.map(copy, parts))


def compare(path: Path, *, threads: int, budget_s: float) -> None:
    feeds = feeds_of(path)
    peer = open_theirs(path, threads)
    expected = peer.run(None, feeds)
    calls: dict[str, Callable[[], object]] = {
        "onnxruntime": lambda: peer.run(None, feeds),
        "copy": copying(threads),
    }
    errors: dict[str, float] = {}
    for precision in _PRECISIONS:
        try:
            session = open_step(path, threads, precision)
        except InvalidSessionOptionError as error:
            print(f"{precision}: {error}")
            continue
        errors[precision] = largest_error(session.run(None, feeds), expected)
        calls[precision] = lambda session=session: session.run(None, feeds)  # type: ignore[misc]
    found = time_in_turns(calls, baseline="onnxruntime", budget_s=budget_s, settle_s=_SETTLE_S)
    copy_rate = 2 * _COPIED_NBYTES / found["copy"].median_s
    print(f"{path.stem}, {threads} threads; a copy reads and writes {copy_rate / 1e9:.1f} GB/s")
    weight_count = path.with_name(f"{path.name}.data").stat().st_size / 4
    for name, timing in found.items():
        if name == "copy":
            continue
        rate = weight_count * _PRECISIONS.get(name, 4) / timing.median_s
        shown = f", error {errors[name]:.0e}" if name in errors else ""
        print(
            f"{name:12} {1e3 * timing.median_s:6.1f} ms, {timing.ratio:.2f} x onnxruntime"
            f" ({timing.ratio_low:.2f} to {timing.ratio_high:.2f}), weights at"
            f" {rate / 1e9:.1f} GB/s, {rate / copy_rate:.0%} of the copy's{shown}"
        )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Hold a decode step against memory's bandwidth.")
    parser.add_argument("model", type=Path, help="with its inputs in an .npz beside it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of measuring")
    arguments = parser.parse_args(words)
    compare(arguments.model, threads=arguments.threads, budget_s=arguments.budget)


if __name__ == "__main__":
    main()
