"""Servers under attack: what they take, and whether others are served meanwhile."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.scale.serving_processes import Serving

MIB = 1 << 20
PATH = b"/v2/models/echo_fp32/infer"
GOOD = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}
#: What a server may grow by while it is attacked: bodies that it may hold, and their copies.
GROWTH_NBYTES = 400 * MIB
#: Another client's longest wait; the machine of the tests has other work, too.
LONGEST_S = 10.0


def resident_nbytes(server: Serving) -> int:
    """Return how many bytes of memory the server's process has."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@contextmanager
def others_are_served(server: Serving, growth_nbytes: int = GROWTH_NBYTES) -> Iterator[list[float]]:
    """Meanwhile somebody asks all the time, and is answered rightly; the server stays small.

    Yields how long each answer took, a list that grows.
    """
    waits: list[float] = []
    wrong: list[Any] = []
    is_over = threading.Event()

    def ask() -> None:
        body = json.dumps({"inputs": [GOOD]})
        client = http.client.HTTPConnection(server.http, timeout=60)
        client.connect()
        while not is_over.wait(0.02):
            start = time.monotonic()
            client.request("POST", PATH.decode(), body)
            response = client.getresponse()
            answer = json.loads(response.read())
            waits.append(time.monotonic() - start)
            if response.status != 200 or answer["outputs"][0]["data"] != [1.0, 2.0]:
                wrong.append(answer)

    before = resident_nbytes(server)
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield waits
    finally:
        is_over.set()
        asking.join()
    grown = resident_nbytes(server) - before
    print(
        f"{len(waits)} asked, median {statistics.median(waits):.3f} s, longest {max(waits):.3f} s,"
    )
    print(f"grown by {grown / MIB:.0f} MiB")
    assert not wrong
    assert waits
    assert max(waits) < LONGEST_S
    assert grown < growth_nbytes
    assert server.process.poll() is None
    assert not [each for each in server.events if each["event"] == "fault"]


def connect(server: Serving, timeout_s: float = 30) -> socket.socket:
    """Open a connection over HTTP."""
    host, _, port = server.http.partition(":")
    return socket.create_connection((host, int(port)), timeout=timeout_s)
