"""What ``--batch-latency`` makes of digits: requests a second of many clients, on against off.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m benchmarks.serving.joined
    [--clients 64] [--latency 20ms] [--rounds 7] [--backend onnxruntime]

It needs what compare.py does. Two servers take turns, and KServe's with a model that computes
nothing: runs that took no time at all would make a server about as fast as that one. Goal: 3 times
as many.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.serving.compare import Turn, asking, measure
from benchmarks.serving.models import subject
from benchmarks.serving.servers import ortpkg_server, server_by_hand

_GOAL = 3.0
_OFF, _ON, _EMPTY = "off", "on", "empty"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--latency", default="20ms")
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=2.0, help="seconds of each turn")
    arguments = parser.parse_args()
    digits = subject("digits", Path())
    digits = replace(digits, options=(*digits.options, "--backend", arguments.backend))
    inputs = digits.inputs()
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with (
        tempfile.TemporaryDirectory() as scratch,
        pool,
        server_by_hand(digits, inputs, Path(scratch)) as empty,
        ortpkg_server(digits) as off,
        ortpkg_server(digits, "--batch-latency", arguments.latency) as on,
    ):
        for protocol in ("http", "grpc"):
            turn = partial(
                asking,
                pool,
                inputs=inputs,
                protocol=protocol,
                clients=arguments.clients,
                duration_s=arguments.burst,
            )
            contenders = {
                _EMPTY: turn(empty, "empty"),
                _OFF: turn(off, digits.name),
                _ON: turn(on, digits.name),
            }
            _show(protocol, measure(contenders, arguments.rounds))


def _show(protocol: str, turns: dict[str, list[Turn]]) -> None:
    for name, own in turns.items():
        rate = statistics.median(turn.answers.rate for turn in own)
        median_s = statistics.median(turn.answers.median_s for turn in own)
        slow_s = statistics.median(turn.answers.slow_s for turn in own)
        cost_s = statistics.median(turn.processor_s for turn in own)
        print(
            f"{protocol}, {name:5}: {rate:7.1f} requests/s, p50 {1e3 * median_s:6.1f} ms, p99"
            f" {1e3 * slow_s:6.1f} ms, processor {1e6 * cost_s:5.0f} µs a request"
        )
    for name in (_ON, _EMPTY):
        ratios = sorted(
            each.answers.rate / off.answers.rate
            for each, off in zip(turns[name], turns[_OFF], strict=True)
        )
        ratio = statistics.median(ratios)
        verdict = "met" if ratio >= _GOAL else "missed"
        print(
            f"{protocol}, {name}: {ratio:.2f} x off ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            + (f": {verdict}" if name == _ON else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()
