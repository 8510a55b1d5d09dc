"""Servers under attack: what they take, and whether others are served meanwhile."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
#: Time of the processor in which others' share of it is measured.
_BUSY_S = 0.3


def resident_nbytes(server: Serving, kind: str = "VmRSS") -> int:
    """Return how many bytes of memory the server's process has now; "VmHWM": ever had at once."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(kind))
    return int(line.split()[1]) * 1024


def forget_peak(server: Serving) -> None:
    """Have the system count the most memory of the server's process from now on."""
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")  # proc_pid_clear_refs(5)


class Asker:
    """Somebody who asks a server all the time, on a thread.

    Attributes:
        waits: how long each answer took, a list that grows.
        wrong: answers that are not right.
    """

    def __init__(self, server: Serving) -> None:
        self.waits: list[float] = []
        self.wrong: list[Any] = []
        self._server = server
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def end(self) -> None:
        """Ask no more. Raises what has kept it from asking before."""
        self._is_over.set()
        self._thread.join()
        if self._failure is not None:
            raise AssertionError("somebody else was not answered") from self._failure

    def _ask(self) -> None:
        try:
            self._ask_until_end()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._failure = error

    def _ask_until_end(self) -> None:
        body = json.dumps({"inputs": [GOOD]})
        client = http.client.HTTPConnection(self._server.http, timeout=60)
        client.connect()
        with closing(client):
            while not self._is_over.wait(0.02):
                start = time.monotonic()
                client.request("POST", PATH.decode(), body)
                response = client.getresponse()
                answer = json.loads(response.read())
                self.waits.append(time.monotonic() - start)
                if response.status != 200 or answer["outputs"][0]["data"] != [1.0, 2.0]:
                    self.wrong.append(answer)


@contextmanager
def others_are_served(server: Serving, growth_nbytes: int = GROWTH_NBYTES) -> Iterator[list[float]]:
    """Meanwhile somebody asks all the time, and is answered rightly; the server stays small.

    Yields how long each answer took, a list that grows.
    """
    before = resident_nbytes(server)
    forget_peak(server)
    asker = Asker(server)
    try:
        yield asker.waits
    finally:
        asker.end()
    grown = resident_nbytes(server, "VmHWM") - before
    waits = asker.waits
    assert waits, "nobody else was answered"
    print(
        f"{len(waits)} asked, median {statistics.median(waits):.3f} s, longest {max(waits):.3f} s,"
    )
    growth = f"grown by {grown / MIB:.0f} MiB at most"
    print(growth)
    assert not asker.wrong, asker.wrong[:3]
    assert max(waits) < LONGEST_S, f"somebody else waited for {max(waits):.1f} s"
    assert grown < growth_nbytes, growth
    assert server.process.poll() is None, "the server has ended"
    faults = [event for event in server.events if event["event"] == "fault"]
    assert not faults, faults[:3]


def slowness() -> float:
    """Return how many times as long as on an idle machine something takes here now."""
    start_s, start_cpu_s = time.monotonic(), time.process_time()
    while time.process_time() - start_cpu_s < _BUSY_S:
        pass
    return max(1.0, (time.monotonic() - start_s) / _BUSY_S)


def connect(server: Serving, timeout_s: float = 30) -> socket.socket:
    """Open a connection over HTTP."""
    host, _, port = server.http.partition(":")
    return socket.create_connection((host, int(port)), timeout=timeout_s)
