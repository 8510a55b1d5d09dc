"""``ortpkg serve`` in a process of its own, which is told to end and has to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_START_S = 180
_END_S = 60


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

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Tells it to end; the exit code."""
        self.process.send_signal(how)
        return self.process.wait(_END_S)


@contextmanager
def serving(*words: str) -> Iterator[Serving]:
    """A server with those words of the command line, on ports that are free."""
    command = [sys.executable, "-m", "ortpkg", "serve", *words, "--json"]
    ports = [] if "--port" in words else ["--port", "0", "--grpc-port", "0"]
    process = subprocess.Popen(
        [*command, *ports], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    events: list[dict[str, Any]] = []
    lines = process.stderr
    reader = threading.Thread(target=lambda: events.extend(map(json.loads, lines)), daemon=True)
    reader.start()
    timer = threading.Timer(_START_S, process.kill)
    timer.start()
    try:
        ready = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        timer.cancel()
        yield Serving(process, ready["http"].partition("//")[2], ready["grpc"], events)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        lines.close()
