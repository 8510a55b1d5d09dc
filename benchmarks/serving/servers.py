"""Servers in processes of their own, and what they took of processor time and memory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.serving.models import Arrays, Subject

_ROOT = Path(__file__).resolve().parents[2]
_START_S = 180.0
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that answers.

    Attributes:
        http, grpc: host and port.
        process: its own.
    """

    http: str
    grpc: str
    process: psutil.Process

    @property
    def processor_s(self) -> float:
        """Of all of its threads so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    @property
    def resident_nbytes(self) -> int:
        """Of its memory now."""
        return int(self.process.memory_info().rss)


@contextmanager
def ortpkg_server(subject: Subject, *options: str) -> Iterator[Server]:
    """``ortpkg serve`` of a model, with further options."""
    words = ["serve", str(subject.package), *subject.options, *options, "--port", "0"]
    with _process("ortpkg", *words, "--grpc-port", "0", "--json") as process:
        assert process.stdout is not None
        ready = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        yield Server(
            http=ready["http"].partition("//")[2],
            grpc=ready["grpc"],
            process=psutil.Process(process.pid),
        )


@contextmanager
def server_by_hand(subject: Subject, inputs: Arrays, folder: Path) -> Iterator[Server]:
    """KServe's server with a model ``written`` for onnxruntime, and one that is ``empty``."""
    feeds = folder / f"{subject.name}-inputs.npz"
    np.savez(feeds, **inputs)  # type: ignore[arg-type]  # its stub has a flag among the keywords
    http, grpc = _free_port(), _free_port()
    words = (str(subject.model), str(feeds), str(http), str(grpc))
    with _process("benchmarks.serving.by_hand", *words) as process:
        for port in (http, grpc):
            _wait_for(port, process)
        yield Server(
            http=f"{_HOST}:{http}", grpc=f"{_HOST}:{grpc}", process=psutil.Process(process.pid)
        )


@contextmanager
def _process(module: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdout=subprocess.PIPE if module == "ortpkg" else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((_HOST, port)).close()
        except ConnectionRefusedError:
            time.sleep(0.1)
        else:
            return
    raise ConnectionError(f"the server on port {port} did not start")
