"""``ortpkg serve`` in a process of its own, which is told to end and has to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
_START_S = 180
_END_S = 60
_OPEN_S = 60


@dataclass
class Serving:
    """A server that is ready.

    Attributes:
        process: its.
        http, grpc: host and port.
        events: its log, which grows.
    """

    process: subprocess.Popen[str]
    http: str
    grpc: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def event(self, name: str) -> dict[str, Any]:
        """The last event of that name."""
        return [each for each in self.events if each["event"] == name][-1]

    def open_requests(self) -> int:
        """How many run or wait now, as it tells Prometheus."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=60) as response:
            lines = response.read().decode().splitlines()
        name = "ortpkg_open_requests "
        return int(float(next(each for each in lines if each.startswith(name))[len(name) :]))

    def wait_for_open(self, requests: int) -> None:
        """Until so many run or wait. AssertionError where that takes too long."""
        deadline = time.monotonic() + _OPEN_S
        while self.open_requests() < requests:
            assert time.monotonic() < deadline, f"{requests} requests never were open at once"
            time.sleep(0.01)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Tells it to end; the exit code."""
        self.process.send_signal(how)
        return self.process.wait(_END_S)


def _event(line: str) -> dict[str, Any]:
    """An event of the log; what the command says before it begins is text."""
    is_event = line.startswith("{")
    return dict(json.loads(line)) if is_event else {"event": "text", "message": line}


def _first_object(lines: IO[str]) -> str:
    """The text up to the line that ends an object; all of it where the process ended before."""
    text = ""
    for line in lines:
        text += line
        if line == "}\n":
            break
    return text


@contextmanager
def serving(*words: str, folder: Path = ROOT) -> Iterator[Serving]:
    """A server with those words of the command line, on ports that are free."""
    command = [sys.executable, "-m", "ortpkg", "serve", *words, "--json"]
    ports = [] if "--port" in words else ["--port", "0", "--grpc-port", "0"]
    process = subprocess.Popen(
        [*command, *ports], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    events: list[dict[str, Any]] = []
    lines = process.stderr
    reader = threading.Thread(target=lambda: events.extend(map(_event, lines)), daemon=True)
    reader.start()
    timer = threading.Timer(_START_S, process.kill)
    timer.start()
    try:
        ready = json.loads(_first_object(process.stdout) or "{}")
        assert ready.get("kind") == "serve", (ready, events)
        timer.cancel()
        yield Serving(process, ready["http"].partition("//")[2], ready["grpc"], events)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        lines.close()
