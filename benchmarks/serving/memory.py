"""The memory of ``ortpkg serve`` over many requests for digits, over HTTP and gRPC in turns.

    python -m benchmarks.serving.memory [--requests 100000] [--clients 16] [--protocols http grpc]
    [-- OPTION ...]

It needs the extra ``serve``. Goal: flat: what it has at the end is at most 2 % and 4 MiB more than
after the first tenth of the requests.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.serving.compare import PROTOCOLS, ask, load_of
from benchmarks.serving.models import subject
from benchmarks.serving.servers import ortpkg_server

_PARTS = 10
_LONGEST_S = 600.0
_MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("options", nargs="*", help="of ortpkg serve")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=("http", "grpc"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        digits = subject("digits", Path(scratch))
    inputs = digits.inputs()
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    resident: list[int] = []
    with pool, ortpkg_server(digits, *arguments.options) as server:
        answered = 0
        for part in range(_PARTS):
            load = load_of(
                server,
                digits.name,
                inputs,
                arguments.protocols[part % len(arguments.protocols)],
                clients=arguments.clients,
                duration_s=_LONGEST_S,
                most=arguments.requests // _PARTS,
            )
            answered += len(ask(pool, server, load).answers.latencies_s)
            resident.append(server.resident_nbytes)
            print(f"after {answered:7} requests {resident[-1] / _MIB:7.1f} MiB", flush=True)
    allowed = 1.02 * resident[0] + 4 * _MIB
    grown = (resident[-1] - resident[0]) / _MIB
    print(f"{grown:+.1f} MiB: {'met' if resident[-1] <= allowed else 'missed'}")


if __name__ == "__main__":
    main()
