"""What a server does not take: too much, too long, too many, without a token; and what it says."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.scale.served_packages import make_counter
from tests.scale.serving_processes import Serving, serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("serving"),
    pytest.mark.timeout(600),
]

GrpcError = tritonclient.grpc.InferenceServerException
HttpError = tritonclient.http.InferenceServerException
#: Turns that end in no test, and such that take about a second.
FOREVER, LONG = 2_000_000_000, 20_000


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that runs one request at a time, and lets one wait."""
    package = make_counter(tmp_path_factory.mktemp("counter"))
    limits = ["--concurrency", "1", "--max-queue", "1", "--timeout", "3s", "--max-request", "100kB"]
    with serving(str(package), *limits, "--memory-limit", "50MB") as server:
        yield server


def turned(server: Serving, turns: int, size: int = 2) -> Any:
    """What comes out over HTTP."""
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=60) as client:
        inputs = [
            tritonclient.http.InferInput("turns", [], "INT64"),
            tritonclient.http.InferInput("start", [size], "FP32"),
        ]
        inputs[0].set_data_from_numpy(np.array(turns))
        inputs[1].set_data_from_numpy(np.zeros(size, np.float32))
        return client.infer("counter", inputs).as_numpy("end")


def turned_by_grpc(server: Serving, turns: int, **options: Any) -> Any:
    """What comes out over gRPC."""
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        inputs = [
            tritonclient.grpc.InferInput("turns", [], "INT64"),
            tritonclient.grpc.InferInput("start", [2], "FP32"),
        ]
        inputs[0].set_data_from_numpy(np.array(turns))
        inputs[1].set_data_from_numpy(np.zeros(2, np.float32))
        return client.infer("counter", inputs, **options).as_numpy("end")


def test_a_request_that_takes_too_long_is_504_in_both(counter: Serving) -> None:
    with pytest.raises(HttpError) as late:
        turned(counter, FOREVER)
    assert late.value.status() == "504"
    with pytest.raises(GrpcError) as late:
        turned_by_grpc(counter, FOREVER)
    assert late.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    assert turned(counter, 3).tolist() == [3, 3]


def test_a_run_ends_when_its_client_goes(counter: Serving) -> None:
    with pytest.raises(GrpcError):
        turned_by_grpc(counter, FOREVER, client_timeout=0.5)
    start = time.monotonic()
    assert turned(counter, 3).tolist() == [3, 3]
    assert time.monotonic() - start < 2, "the run of before went on until its limit"


def test_who_comes_behind_too_many_is_told_to_come_back_and_is_served_then(
    counter: Serving,
) -> None:
    with ThreadPoolExecutor(8) as clients:

        def ask(turns: int) -> str:
            try:
                turned(counter, turns)
            except HttpError as error:
                return str(error.status())
            return "200"

        found = list(clients.map(ask, [LONG] * 8))
    assert set(found) <= {"200", "429", "504"}
    assert found.count("429") >= 1
    assert found.count("200") >= 1
    assert turned(counter, 3).tolist() == [3, 3]


def test_a_busy_server_says_when_to_come_back(counter: Serving) -> None:
    with ThreadPoolExecutor(4) as clients:
        waiting = [clients.submit(turned_by_grpc, counter, FOREVER) for _ in range(2)]
        counter.wait_for_open(2)
        request = urllib.request.Request(
            f"http://{counter.http}/v2/models/counter/infer",
            json.dumps(
                {
                    "inputs": [
                        {"name": "turns", "datatype": "INT64", "shape": [], "data": [1]},
                        {"name": "start", "datatype": "FP32", "shape": [1], "data": [0]},
                    ]
                }
            ).encode(),
        )
        with pytest.raises(urllib.error.HTTPError) as busy:
            urllib.request.urlopen(request, timeout=30)
        busy.value.close()
        with pytest.raises(GrpcError) as busy_too:
            turned_by_grpc(counter, 1)
        assert [str(each.exception()).partition("]")[0] for each in waiting] == [
            "[StatusCode.DEADLINE_EXCEEDED"
        ] * 2
    assert busy.value.code == 429
    assert busy.value.headers["Retry-After"] == "1"
    assert busy_too.value.status() == "StatusCode.RESOURCE_EXHAUSTED"


def test_a_request_that_is_too_large_is_413_in_both(counter: Serving) -> None:
    with pytest.raises(HttpError) as large:
        turned(counter, 1, size=30_000)
    assert large.value.status() == "413"
    given = tritonclient.grpc.InferInput("start", [30_000], "FP32")
    given.set_data_from_numpy(np.zeros(30_000, np.float32))
    with (
        tritonclient.grpc.InferenceServerClient(counter.grpc) as client,
        pytest.raises(GrpcError) as large,
    ):
        client.infer("counter", [given])
    assert large.value.status() == "StatusCode.RESOURCE_EXHAUSTED"


def test_a_head_that_never_ends_is_given_up_and_others_are_served(counter: Serving) -> None:
    host, _, port = counter.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(b"POST / HTTP/1.1\r\n")
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(100):
                client.sendall(b"x-header: " + b"y" * 1000 + b"\r\n")
        with suppress(ConnectionResetError):
            assert client.recv(100).startswith(b"HTTP/1.1 400 ")
            while client.recv(100):
                pass
    assert turned(counter, 3).tolist() == [3, 3]


def test_clients_that_say_nothing_do_not_keep_others_away(counter: Serving) -> None:
    host, _, port = counter.http.partition(":")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as stack:
        for _ in range(1500):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
        start = time.monotonic()
        assert turned(counter, 3).tolist() == [3, 3]
        assert time.monotonic() - start < 10
    assert turned(counter, 3).tolist() == [3, 3]


def test_what_clients_may_not_do_is_told(counter: Serving) -> None:
    with (
        tritonclient.grpc.InferenceServerClient(counter.grpc) as client,
        pytest.raises(GrpcError) as refused,
    ):
        client.unload_model("counter")
    assert refused.value.status() == "StatusCode.UNIMPLEMENTED"
    with (
        tritonclient.http.InferenceServerClient(counter.http) as client,
        pytest.raises(HttpError) as refused,
    ):
        client.unload_model("counter")
    assert refused.value.status() == "404"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for this machine, its key, and a token."""
    folder = tmp_path_factory.mktemp("keys")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (folder / "token").write_text("open-sesame\n")
    return folder


def test_a_server_with_a_certificate_and_a_token(keys: Path, tmp_path: Path) -> None:
    words = [
        *("--ssl-certfile", str(keys / "cert.pem"), "--ssl-keyfile", str(keys / "key.pem")),
        *("--token-file", str(keys / "token")),
    ]
    right, wrong = {"authorization": "Bearer open-sesame"}, {"authorization": "Bearer open"}
    with serving(str(make_counter(tmp_path)), *words) as server:
        http = tritonclient.http.InferenceServerClient(
            server.http,
            ssl=True,
            ssl_options={"ca_certs": str(keys / "cert.pem")},
        )
        grpc = tritonclient.grpc.InferenceServerClient(
            server.grpc, ssl=True, root_certificates=str(keys / "cert.pem")
        )
        with http, grpc:
            for client in (http, grpc):
                assert client.is_server_ready()
                assert client.get_model_metadata("counter", headers=right)
                for headers in (wrong, None):
                    with pytest.raises((HttpError, GrpcError)) as refused:
                        client.get_model_metadata("counter", headers=headers)
                    assert refused.value.status() in ("401", "StatusCode.UNAUTHENTICATED")
        with pytest.raises((urllib.error.URLError, OSError)):
            urllib.request.urlopen(f"http://{server.http}/v2/health/live", timeout=30)
        assert server.end() == 0
    statuses = [str(each["status"]) for each in server.events if each["event"] == "request"]
    assert sorted(statuses) == ["401", "401", "UNAUTHENTICATED", "UNAUTHENTICATED"]
    assert "open-sesame" not in json.dumps(server.events)


def test_a_server_lives_and_is_not_ready_while_its_models_load(tmp_path: Path) -> None:
    """Asked from the moment on at which its port is open."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    seen: set[tuple[str, int]] = set()
    is_done = threading.Event()

    def ask() -> None:
        while not is_done.wait(0.01):
            for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/counter"):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as it:
                        seen.add((path, it.status))
                except urllib.error.HTTPError as error:
                    with error:
                        seen.add((path, error.code))
                except OSError:
                    continue

    asking = threading.Thread(target=ask)
    asking.start()
    package = str(make_counter(tmp_path))
    try:
        with serving(package, "--port", str(port), "--grpc-port", "0"):
            time.sleep(0.5)
    finally:
        is_done.set()
        asking.join()
    assert {each for each in seen if each[0] == "/v2/health/live"} == {("/v2/health/live", 200)}
    assert {("/v2/health/ready", 503), ("/v2/health/ready", 200)} <= seen
    assert {("/v2/models/counter", 503), ("/v2/models/counter", 200)} <= seen


def test_versions_of_a_model_stand_beside_each_other(tmp_path: Path) -> None:
    packages = [str(make_counter(tmp_path, version)) for version in ("9", "10")]
    with (
        serving(*packages, "--default-version", "counter=9") as server,
        tritonclient.http.InferenceServerClient(server.http) as http,
        tritonclient.grpc.InferenceServerClient(server.grpc) as grpc,
    ):
        assert http.get_model_metadata("counter")["versions"] == ["9", "10"]
        assert http.is_model_ready("counter", "10")
        assert grpc.is_model_ready("counter", "9")
        for version, expected in (("", "9"), ("10", "10"), ("9", "9")):
            inputs = [
                tritonclient.grpc.InferInput("turns", [], "INT64"),
                tritonclient.grpc.InferInput("start", [2], "FP32"),
            ]
            inputs[0].set_data_from_numpy(np.array(1))
            inputs[1].set_data_from_numpy(np.zeros(2, np.float32))
            result = grpc.infer("counter", inputs, model_version=version).get_response()
            assert result.model_version == expected


def test_an_end_finishes_what_runs(tmp_path: Path) -> None:
    with (
        serving(str(make_counter(tmp_path)), "--timeout", "100s") as server,
        ThreadPoolExecutor(1) as clients,
    ):
        result = clients.submit(turned, server, LONG)
        server.wait_for_open(1)
        assert server.end() == 0
        assert result.result().tolist() == [LONG, LONG]
    assert server.event("ending")["open_requests"] == 1


def ask_until_refused(server: Serving) -> set[str]:
    """What a client that connects anew for each request comes upon, until nobody listens."""
    host, _, port = server.http.partition(":")
    found: set[str] = set()
    while True:
        try:
            client = socket.create_connection((host, int(port)), timeout=60)
        except ConnectionRefusedError:
            return found
        with client:
            try:
                client.sendall(b"GET /v2/models/counter HTTP/1.1\r\nHost: x\r\n\r\n")
                found.add(client.recv(4096)[:12].decode())
            except OSError as error:
                found.add(repr(error))


def test_an_end_answers_everybody_who_is_connected(tmp_path: Path) -> None:
    with (
        serving(str(make_counter(tmp_path))) as server,
        ThreadPoolExecutor(32) as clients,
    ):
        asking = [clients.submit(ask_until_refused, server) for _ in range(32)]
        time.sleep(0.5)
        start = time.monotonic()
        assert server.end() == 0
        assert time.monotonic() - start < 20
        assert set().union(*(each.result() for each in asking)) == {"HTTP/1.1 200"}


def test_no_more_connections_than_are_allowed(tmp_path: Path) -> None:
    words = [str(make_counter(tmp_path)), "--max-connections", "2"]
    with serving(*words) as server, ExitStack() as stack:
        host, _, port = server.http.partition(":")
        slow = [socket.create_connection((host, int(port)), timeout=60) for _ in range(2)]
        for each in slow:
            stack.enter_context(each).sendall(
                b"POST /v2/models/counter/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
            )
        time.sleep(0.5)
        with socket.create_connection((host, int(port)), timeout=60) as third:
            assert third.recv(4096).startswith(b"HTTP/1.1 503 ")
