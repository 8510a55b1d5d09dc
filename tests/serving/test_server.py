"""A server of both protocols in this process: before its models are loaded, ready, and at its end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from ortpkg.foundations.errors import MissingExtraError, UsageError
from ortpkg.foundations.errors.extras import LIBRARIES
from ortpkg.scale.serving import grpc_messages as messages
from ortpkg.scale.serving.observer import Observer
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.server import serve
from ortpkg.scale.serving.server_libraries import load_server_libraries
from ortpkg.scale.serving.serving_options import ListenOptions, ServingLimits
from tests.serving.test_http_endpoints import FEEDS
from tests.serving.test_served_model import Adder

LONGEST_S = 60
Answer = tuple[int, Any]


class Gate(Adder):
    """Adds its inputs once it is let through."""

    def __init__(self) -> None:
        self.is_running, self.is_open = threading.Event(), threading.Event()

    def run(self, names: Any, feed: Any, options: Any = None) -> list[Any]:
        self.is_running.set()
        assert self.is_open.wait(LONGEST_S)
        return super().run(names, feed, options)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def get(port: int, path: str) -> Answer:
    return request(port, "GET", path)


def infer(port: int) -> Answer:
    return request(port, "POST", "/v2/models/m/infer", json.dumps({"inputs": FEEDS}))


def request(port: int, method: str, path: str, body: str | None = None) -> Answer:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_S)
    client.request(method, path, body)
    response = client.getresponse()
    text = response.read()
    client.close()
    is_json = response.headers["content-type"] == "application/json"
    return response.status, json.loads(text) if is_json else text.decode()


def is_ready_by_grpc(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ServerReady")
        answer = messages.ServerReadyResponse.FromString(call(b"", timeout=LONGEST_S))
    return bool(answer.ready)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Client:
    """Uses a server from its load to its end, which it asks for, and keeps what it sees."""

    def __init__(self, versions: ServedVersions) -> None:
        self.port, self.grpc_address = free_port(), ""
        self.seen: dict[str, Any] = {}
        self.errors: list[BaseException] = []
        self._versions, self._gate = versions, Gate()
        self._thread = threading.Thread(target=self._use)

    def load(self, _observer: Observer) -> None:
        """Add the model; the server listens meanwhile."""
        self.seen["loading"] = [
            get(self.port, path)[0]
            for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/m", "/v2/models")
        ]
        self._versions.add(ServedModel(name="m", version="1", session=self._gate))

    def start(self, http_address: str, grpc_address: str) -> None:
        """Use the server, which is ready."""
        assert http_address == f"http://127.0.0.1:{self.port}"
        self.grpc_address = grpc_address
        self._thread.start()

    def end(self) -> None:
        """Wait for the use to end, and raise its error."""
        self._thread.join(LONGEST_S)
        for error in self.errors:
            raise error

    def _use(self) -> None:
        try:
            self._use_ready()
        except BaseException as error:  # noqa: BLE001 - raised by end
            self.errors.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
        try:
            self._use_ending()
        except BaseException as error:  # noqa: BLE001 - raised by end
            self.errors.append(error)
        finally:
            self._gate.is_open.set()
            self._running.join(LONGEST_S)

    def _use_ready(self) -> None:
        self.seen["ready"] = get(self.port, "/v2/health/ready"), is_ready_by_grpc(self.grpc_address)
        self._running = threading.Thread(target=self._infer)
        self._running.start()
        assert self._gate.is_running.wait(LONGEST_S)
        self.seen["metrics"] = get(self.port, "/metrics")[1]

    def _use_ending(self) -> None:
        wait_until(lambda: get(self.port, "/v2/health/ready")[0] == 503)
        self.seen["ending"] = infer(self.port), is_ready_by_grpc(self.grpc_address)

    def _infer(self) -> None:
        self.seen["answer"] = infer(self.port)


@pytest.mark.timeout(120)
def test_a_server_says_when_it_is_ready_and_finishes_what_runs() -> None:
    versions = ServedVersions()
    client = Client(versions)
    listen = ListenOptions(port=client.port, grpc_port=0)
    limits = ServingLimits(concurrency=1)
    before = signal.getsignal(signal.SIGTERM)
    assert serve(client.load, listen, limits, versions, client.start) is True
    client.end()
    assert signal.getsignal(signal.SIGTERM) is before
    assert client.seen["loading"] == [200, 503, 503, 200]
    assert client.seen["ready"] == ((200, {"ready": True}), True)
    assert "ortpkg_open_requests 1.0\n" in client.seen["metrics"]
    assert 'ortpkg_responses_total{protocol="grpc",status="OK"} 1.0\n' in client.seen["metrics"]
    (status, refusal), is_ready = client.seen["ending"]
    assert (status, refusal, is_ready) == (503, {"error": "the server is about to end"}, False)
    status, answer = client.seen["answer"]
    assert (status, [output["data"] for output in answer["outputs"]]) == (200, [[4, 7], [-2, -3]])
    with pytest.raises(ConnectionRefusedError):
        get(client.port, "/v2")


def test_an_error_of_the_load_ends_the_server() -> None:
    def load(_observer: Observer) -> None:
        raise UsageError("no such model")

    versions, limits = ServedVersions(), ServingLimits(concurrency=1)
    with pytest.raises(UsageError, match="no such model"):
        serve(load, ListenOptions(port=0, grpc_port=0), limits, versions, lambda *_: None)


@pytest.mark.parametrize("is_grpc", [False, True])
def test_a_port_that_is_taken_is_a_usage_error(is_grpc: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        listen = ListenOptions(port=0 if is_grpc else port, grpc_port=port if is_grpc else 0)
        versions, limits = ServedVersions(), ServingLimits(concurrency=1)
        with pytest.raises(UsageError, match=f"cannot listen on '127.0.0.1:{port}'"):
            serve(lambda _: None, listen, limits, versions, lambda *_: None)


@pytest.mark.parametrize(
    "library", [name for name, entry in LIBRARIES.items() if entry.extra == "serve"]
)
def test_each_library_that_is_missing_is_named(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_server_libraries()
    monkeypatch.setitem(sys.modules, LIBRARIES[library].module, None)
    with pytest.raises(MissingExtraError, match=f"^serving needs {library}, which is not") as error:
        load_server_libraries()
    assert error.value.extra == "serve"
