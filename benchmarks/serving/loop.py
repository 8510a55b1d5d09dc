"""onnxruntime called in a loop by hand: what a server's requests cost without a server."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import onnxruntime

from benchmarks.serving.load import Answers
from benchmarks.serving.models import Arrays


def answers_of_loop(model: Path, inputs: Arrays, duration_s: float) -> tuple[Answers, float]:
    """Runs one after another, and the processor time of all of them."""
    session = _session(model)
    latencies_s: list[float] = []
    processor_s, start = time.process_time(), time.perf_counter()
    while not latencies_s or time.perf_counter() < start + duration_s:
        began_s = time.perf_counter()
        session.run(None, inputs)
        latencies_s.append(time.perf_counter() - began_s)
    answers = Answers(
        latencies_s=sorted(latencies_s), duration_s=time.perf_counter() - start, last=b""
    )
    return answers, time.process_time() - processor_s


@cache
def _session(model: Path) -> Any:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
