"""Clients that mean no good: each is told so or dropped, the server stays small, others are served."""

from __future__ import annotations

import http.client
import json
import os
import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as messages

from tests.scale.served_packages import make_echoes
from tests.scale.serving_processes import Serving, serving
from tests.scale.watched_serving import (
    GOOD,
    GROWTH_NBYTES,
    MIB,
    PATH,
    connect,
    others_are_served,
    resident_nbytes,
)

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("hostile clients"),
    pytest.mark.timeout(600),
]

#: What a request may have here, and how long it may come.
REQUEST_NBYTES, TIMEOUT_S = 4 * MIB, 3
POST = b"POST " + PATH + b" HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One with small limits."""
    packages = map(str, make_echoes(tmp_path_factory.mktemp("hostile")))
    chosen = [each for each in packages if "fp32" in each or "bytes" in each]
    with serving(*chosen, "--max-request", "4MiB", "--timeout", f"{TIMEOUT_S}s") as started:
        yield started


def told(server: Serving, data: bytes) -> bytes:
    """What comes back for bytes as they are, until the server closes or is silent."""
    found = b""
    with connect(server, TIMEOUT_S + 5) as client, suppress(OSError):
        client.sendall(data)
        while part := client.recv(65536):
            found += part
            if b'"error"' in found:
                break
    return found


def asked(server: Serving, body: bytes, **headers: str) -> tuple[int, str]:
    """Status and error of a request."""
    client = http.client.HTTPConnection(server.http, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    client.request("POST", PATH.decode(), body, sent)
    response = client.getresponse()
    answer = json.loads(response.read())
    client.close()
    return response.status, answer.get("error", "")


def body_of(**members: Any) -> bytes:
    return json.dumps({"inputs": [{**GOOD, **members}]}).encode()


def with_data(text: bytes) -> bytes:
    return b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":' + text + b"}]}"


BODIES = {
    "a million dimensions": body_of(shape=[1] * 10**6),
    "sizes that overflow": body_of(shape=[2**62, 2**62, 4]),
    "a negative size": body_of(shape=[-1, -2]),
    "a size that is true": body_of(shape=[True, 2]),
    "a size of a thousand digits": body_of(shape=["9" * 1000])
    .replace(b'"999', b"999")
    .replace(b'9"', b"9"),
    "no elements of a huge size": body_of(shape=[0, 2**63], data=[]),
    "terabytes that did not come": body_of(shape=[2**40]),
    "NaN": with_data(b"[NaN]"),
    "infinity": with_data(b"[1e999]"),
    "true for a number": with_data(b"[true]"),
    "text for a number": with_data(b'["1"]'),
    "nothing for a number": with_data(b"[null]"),
    "objects for numbers": with_data(b"[{}]"),
    "a number of a million digits": with_data(b"[" + b"9" * 10**6 + b"]"),
    "deep lists": with_data(b"[" * 10**5),
    "deep lists that end": with_data(b"[" * 900 + b"1" + b"]" * 900),
    "deep objects": b'{"a":' * 10**5,
    "a member twice": b'{"inputs":[],"inputs":3}',
    "no UTF-8": b'{"inputs":"\xff\xfe"}',
    "half a surrogate": b'{"inputs":[{"name":"\\ud800"}]}',
    "NUL in a name": body_of(name="x\0"),
    "a long name": body_of(name="x" * 10**6),
    "a pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
}
HEADERS = {
    "a JSON that ends elsewhere": {"inference_header_content_length": "5"},
    "a JSON beyond the body": {"inference_header_content_length": "999999"},
    "a JSON of negative length": {"inference_header_content_length": "-1"},
    "a JSON of a length that is none": {"inference_header_content_length": "9" * 5000},
    "a compressed body": {"content_encoding": "gzip"},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_is_wrong_in_a_body_is_told(server: Serving, body: bytes) -> None:
    status, error = asked(server, body)
    assert status == 400
    assert 0 < len(error) < 1000
    assert "Traceback" not in error


@pytest.mark.parametrize("sign", ["[", '{"a":', "1,", '"",'])
def test_a_body_of_too_many_values_is_not_read(server: Serving, sign: str) -> None:
    status, error = asked(server, with_data(sign.encode() * ((REQUEST_NBYTES - 200) // len(sign))))
    is_many = len(sign) != 3 and sign != "1,"
    assert (status, "values, of which" in error) == ((413, True) if is_many else (400, False))


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_what_is_wrong_in_headers_is_told(server: Serving, headers: dict[str, str]) -> None:
    status, error = asked(server, body_of(), **headers)
    assert status == 400
    assert error


@pytest.mark.parametrize("size", [-1, 7, 9, 2**31, 2**63, 10**30, 8.0, True, "8"])
def test_sizes_of_binary_tensors_that_lie(server: Serving, size: Any) -> None:
    head = json.dumps(
        {"inputs": [{**GOOD, "data": None, "parameters": {"binary_data_size": size}}]}
    ).encode()
    assert asked(server, head + bytes(8), inference_header_content_length=str(len(head)))[0] == 400


HEADS = {
    "no HTTP": os.urandom(2000),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00" + bytes(500),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a length that is none": POST + b"Content-Length: abc\r\n\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
    "chunks that are none": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "more than it says": POST + b"Content-Length: 1\r\n\r\n{}",
    "many lines": b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 9000 + b"\r\n",
    "a long line": b"GET /v2 HTTP/1.1\r\nX: " + b"a" * 300_000,
    "a long path": b"GET /" + b"a" * 300_000,
    "a path that is no text": b"GET /v2/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a line with NUL": b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: \0\r\n\r\n",
    "many requests at once": b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n" * 5000,
    "a proxy's request": b"CONNECT evil:80 HTTP/1.1\r\nHost: evil:80\r\n\r\n",
    "lines after a body": POST
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    + b"x: y\r\n" * 10**5,
    "an extension of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * 600_000,
}


@pytest.mark.parametrize("data", HEADS.values(), ids=HEADS)
def test_what_is_no_request_ends_its_connection(server: Serving, data: bytes) -> None:
    found = told(server, data)
    # Where more was sent than was read, the answer may be lost with the connection.
    assert b"HTTP/1.1 400 " in found or (len(data) > 65536 and b"HTTP/1.1 5" not in found)
    assert asked(server, body_of())[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v2/models/../../etc/passwd",
        "/v2/models/..%2f..%2fetc%2fpasswd",
        "/v2/models/%2e%2e",
        "/v2/models/%00",
        "/v2/models/a%ff%fe",
        "/v2/models/echo_fp32%00",
        "/v2/models/echo_fp32/versions/..%2f1",
        "/v2/models/" + "a" * 30_000,
        "/docs",
        "/openapi.json",
    ],
)
def test_paths_lead_nowhere(server: Serving, path: str) -> None:
    client = http.client.HTTPConnection(server.http, timeout=30)
    client.request("GET", path)
    response = client.getresponse()
    assert response.status == 404
    assert set(json.loads(response.read())) == {"error"}
    client.close()


def trickle(server: Serving, clients: int) -> Counter[bytes]:
    """Bodies that come a byte at a time; the statuses that they get."""
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(server)) for _ in range(clients)]
        for client in slow:
            client.sendall(POST + b"Content-Length: 1000\r\n\r\n{")
        end = time.monotonic() + TIMEOUT_S + 1
        while time.monotonic() < end:
            for client in slow:
                with suppress(OSError):
                    client.sendall(b" ")
            time.sleep(0.5)
        return Counter(client.recv(100).split(b" ")[1] for client in slow)


def test_slow_bodies_are_given_up(server: Serving) -> None:
    with others_are_served(server):
        assert trickle(server, 200).keys() == {b"408"}


def test_clients_that_go_in_the_middle_are_no_fault(server: Serving) -> None:
    with others_are_served(server):
        for _ in range(1000):
            with connect(server) as client:
                client.sendall(POST + b"Content-Length: 1000\r\n\r\n{")


def test_ten_thousand_connections(server: Serving) -> None:
    """As many as descriptors allow; whoever asks takes the place of one that says nothing."""
    count = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
    with others_are_served(server), ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(connect(server))
        assert asked(server, body_of())[0] == 200


def call(server: Serving) -> Any:
    """Inference over gRPC that sends bytes as they are."""
    channel = grpc.insecure_channel(server.grpc, options=[("grpc.max_send_message_length", -1)])
    return channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")


def code_of(call: Any, message: bytes, **options: Any) -> str:
    with pytest.raises(grpc.RpcError) as refused:
        call(message, timeout=60, **options)
    code: str = refused.value.code().name
    assert "Traceback" not in refused.value.details()
    return code


def message_of(**members: Any) -> bytes:
    raw = members.pop("raw", [])
    tensor = {"name": "x", "datatype": "FP32", "shape": [2], **members}
    request = messages.ModelInferRequest(
        model_name="echo_fp32", inputs=[tensor], raw_input_contents=raw
    )
    told: bytes = request.SerializeToString()
    return told


def test_wrong_messages_of_grpc(server: Serving) -> None:
    ask = call(server)
    with others_are_served(server):
        for message in (
            b"\xff" * 1000,
            b"\x0a\xff\xff\xff\xff\x0f",
            b"\x0a\x02\xff\xff",
            b"<html>",
        ):
            assert code_of(ask, message) == "INVALID_ARGUMENT"
        for members in (
            {"shape": [1] * 500_000},
            {"shape": [2**62, 2**62]},
            {"shape": [-1]},
            {"raw": [b"1234567"]},
            {"raw": [b""] * 10_000},
            {"datatype": "PICKLE"},
        ):
            assert code_of(ask, message_of(**members)) == "INVALID_ARGUMENT"


def test_messages_of_grpc_that_are_too_large_or_become_so(server: Serving) -> None:
    ask = call(server)
    with others_are_served(server):
        assert code_of(ask, bytes(REQUEST_NBYTES + 1)) == "RESOURCE_EXHAUSTED"
        bomb = bytes(100 * REQUEST_NBYTES)
        assert code_of(ask, bomb, compression=grpc.Compression.Gzip) == "RESOURCE_EXHAUSTED"
        assert code_of(ask, b"", metadata=[("x", "y" * 100_000)]) == "RESOURCE_EXHAUSTED"


def test_messages_of_grpc_that_would_take_fifty_times_their_size(tmp_path: Path) -> None:
    """Empty tensors, texts and packed numbers, as many as the default limits let come."""
    (package,) = [str(each) for each in make_echoes(tmp_path) if "bytes" in str(each)]

    def held(number: int, payload: bytes) -> bytes:
        size, length = len(payload), b""
        while size > 127:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        return bytes([number << 3 | 2]) + length + bytes([size]) + payload

    count = 30 * MIB
    with serving(package) as started:
        before = resident_nbytes(started)
        ask = call(started)
        for flood in (
            held(5, b"") * count,
            held(5, held(5, held(8, b"") * count)),
            held(5, held(5, held(3, b"\x01" * 2 * count))),
        ):
            assert code_of(ask, flood) == "RESOURCE_EXHAUSTED"
            assert resident_nbytes(started) - before < GROWTH_NBYTES
        load = grpc.insecure_channel(
            started.grpc, options=[("grpc.max_send_message_length", -1)]
        ).unary_unary("/inference.GRPCInferenceService/RepositoryModelLoad")
        assert code_of(load, held(3, b"") * count) == "RESOURCE_EXHAUSTED"


def test_many_large_messages_at_once(server: Serving) -> None:
    """They are refused one by one, and none of them stays."""
    message = message_of(shape=[1], raw=[bytes(REQUEST_NBYTES - 1000)])
    ask = call(server)
    with others_are_served(server):
        calls = [ask.future(message, timeout=100) for _ in range(100)]
        codes = {each.exception().code().name for each in calls}
    assert codes <= {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}


def test_calls_of_grpc_whose_message_does_not_come(server: Serving) -> None:
    channel = grpc.insecure_channel(server.grpc)
    endless = channel.stream_unary("/inference.GRPCInferenceService/ModelInfer")
    is_over = threading.Event()

    def nothing() -> Iterator[bytes]:
        is_over.wait(60)
        yield from ()

    with others_are_served(server):
        calls = [endless.future(nothing(), timeout=60) for _ in range(30)]
        codes = Counter(each.exception().code().name for each in calls)
        is_over.set()
    channel.close()
    assert codes == {"RESOURCE_EXHAUSTED": 22, "DEADLINE_EXCEEDED": 8}


def test_memory_stays_over_many_requests(server: Serving) -> None:
    """Right and wrong ones; the first tenth fills what is kept."""
    most = 20_000
    client = http.client.HTTPConnection(server.http, timeout=60)
    bodies = [body_of(), body_of(data=[1]), body_of(name="z")]
    points = []
    for count in range(most):
        client.request("POST", PATH.decode(), bodies[count % 3])
        client.getresponse().read()
        if count % (most // 10) == most // 10 - 1:
            points.append(resident_nbytes(server))
    client.close()
    print([round(each / MIB, 1) for each in points])
    assert points[-1] - points[0] < 20 * MIB


def test_a_client_that_still_sends_is_told_that_it_is_too_much(server: Serving) -> None:
    body = bytes(4 * REQUEST_NBYTES)
    answer = told(server, POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"a request may have" in answer
