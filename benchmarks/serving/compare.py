"""``ortpkg serve`` against KServe's server with a model written by hand, and a loop of runs.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m benchmarks.serving.compare
    [digits resnet50 bert] [--clients 1 16] [--rounds 7] [--folder FOLDER]

It needs KServe, the extra ``serve`` and onnxruntime, as ``make scale`` installs them. All of them
take turns in every round. Goal: a request takes at most 150 µs more than one of that server's model
that computes nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.serving.load import Answers, Load, answers_to
from benchmarks.serving.loop import answers_of_loop
from benchmarks.serving.models import MODELS, Arrays, Subject, subject
from benchmarks.serving.requests import first_output, grpc_request, http_request
from benchmarks.serving.servers import Server, ortpkg_server, server_by_hand

PROTOCOLS = ("http", "json", "grpc")
_GOAL_S = 150e-6
_TOLERANCE = 1e-4
EMPTY, BY_HAND, OURS, LOOP = "empty model", "by hand", "ortpkg serve", "loop, no server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one contender did in its turn.

    Attributes:
        answers: of the clients.
        processor_s: of the server, for one request.
    """

    answers: Answers
    processor_s: float


def measure(contenders: Mapping[str, Callable[[], Turn]], rounds: int) -> dict[str, list[Turn]]:
    """The turns of each, after one that does not count."""
    turns: dict[str, list[Turn]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, take in contenders.items():
            turn = take()
            if number:
                turns[name].append(turn)
    return turns


def ask(pool: ProcessPoolExecutor, server: Server, load: Load) -> Turn:
    """Has the clients in the pool's process do what ``load`` says, and watches the server."""
    before_s = server.processor_s
    answers = pool.submit(answers_to, load).result()
    took_s = server.processor_s - before_s
    return Turn(answers=answers, processor_s=took_s / len(answers.latencies_s))


def asking(
    pool: ProcessPoolExecutor,
    server: Server,
    model: str,
    inputs: Arrays,
    protocol: str,
    *,
    clients: int,
    duration_s: float,
) -> Callable[[], Turn]:
    """Each call is a turn of so many clients at a model of a server."""
    load = load_of(server, model, inputs, protocol, clients=clients, duration_s=duration_s)
    return partial(ask, pool, server, load)


def load_of(
    server: Server,
    model: str,
    inputs: Arrays,
    protocol: str,
    *,
    clients: int,
    duration_s: float,
    most: int = 10**9,
) -> Load:
    """Requests for a model of a server."""
    is_grpc = protocol == "grpc"
    return Load(
        address=server.grpc if is_grpc else server.http,
        request=grpc_request(model, inputs)
        if is_grpc
        else http_request(server.http, model, inputs, is_binary=protocol == "http"),
        is_grpc=is_grpc,
        clients=clients,
        duration_s=duration_s,
        most=most,
    )


def compare(subject: Subject, arguments: argparse.Namespace) -> None:
    """Prints a table for each protocol and number of clients."""
    inputs = subject.inputs()
    with ExitStack() as stack:
        theirs = stack.enter_context(server_by_hand(subject, inputs, arguments.folder))
        ours = stack.enter_context(ortpkg_server(subject))
        context = get_context("spawn")
        clients, looping = (
            stack.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(2)
        )
        for protocol in arguments.protocols:
            loads = {
                EMPTY: (theirs, "empty"),
                BY_HAND: (theirs, "written"),
                OURS: (ours, subject.name),
            }
            for count in arguments.clients:
                turn = partial(
                    asking,
                    clients,
                    inputs=inputs,
                    protocol=protocol,
                    clients=count,
                    duration_s=arguments.burst,
                )
                contenders = {name: turn(server, model) for name, (server, model) in loads.items()}
                contenders[LOOP] = partial(_loop, looping, subject.model, inputs, arguments.burst)
                turns = measure(contenders, arguments.rounds)
                _check_same(turns, is_grpc=protocol == "grpc")
                _show(f"{subject.name}, {protocol}, {count} clients", turns)


def _loop(pool: ProcessPoolExecutor, model: Path, inputs: Arrays, duration_s: float) -> Turn:
    answers, processor_s = pool.submit(answers_of_loop, model, inputs, duration_s).result()
    return Turn(answers=answers, processor_s=processor_s / len(answers.latencies_s))


def _check_same(turns: Mapping[str, list[Turn]], *, is_grpc: bool) -> None:
    ours, theirs = (
        first_output(turns[name][-1].answers.last, is_grpc=is_grpc) for name in (OURS, BY_HAND)
    )
    np.testing.assert_allclose(ours, theirs, rtol=_TOLERANCE, atol=_TOLERANCE)


def _show(title: str, turns: Mapping[str, list[Turn]]) -> None:
    print(title)
    for name, own in turns.items():
        print(
            f"  {name:16}{_median(own, lambda t: t.answers.rate):9.1f} requests/s,"
            f" p50 {1e3 * _median(own, lambda t: t.answers.median_s):8.2f} ms,"
            f" p99 {1e3 * _median(own, lambda t: t.answers.slow_s):8.2f} ms,"
            f" processor {1e6 * _median(own, lambda t: t.processor_s):8.0f} µs a request"
        )
    rates = _ratios(turns, lambda turn: turn.answers.rate)
    costs = _ratios(turns, lambda turn: turn.processor_s)
    print(f"  ortpkg serve, times by hand: requests/s {rates}; processor time {costs}")
    added = sorted(
        ours.processor_s - empty.processor_s
        for ours, empty in zip(turns[OURS], turns[EMPTY], strict=True)
    )
    waited = statistics.median(
        ours.answers.median_s - empty.answers.median_s
        for ours, empty in zip(turns[OURS], turns[EMPTY], strict=True)
    )
    loop_s = _median(turns[LOOP], lambda turn: turn.processor_s)
    over_s = statistics.median(added)
    verdict = "met" if over_s - loop_s <= _GOAL_S else "missed"
    print(
        f"  over the empty model: processor {1e6 * over_s:+.0f} µs ({1e6 * added[0]:+.0f} to"
        f" {1e6 * added[-1]:+.0f}), {1e6 * (over_s - loop_s):+.0f} without the run itself:"
        f" {verdict}; p50 {1e6 * waited:+.0f} µs",
        flush=True,
    )


def _median(turns: list[Turn], of: Callable[[Turn], float]) -> float:
    return statistics.median(map(of, turns))


def _ratios(turns: Mapping[str, list[Turn]], of: Callable[[Turn], float]) -> str:
    found = sorted(
        of(ours) / of(theirs) for ours, theirs in zip(turns[OURS], turns[BY_HAND], strict=True)
    )
    quarter = len(found) // 4
    return f"{statistics.median(found):.2f} ({found[quarter]:.2f} to {found[-1 - quarter]:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all where left out")
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=PROTOCOLS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=1.0, help="seconds of each turn")
    parser.add_argument("--folder", type=Path, help="where models are kept that have been made")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        arguments.folder = arguments.folder or Path(scratch)
        for name in arguments.models or MODELS:
            compare(subject(name, arguments.folder), arguments)


if __name__ == "__main__":
    main()
