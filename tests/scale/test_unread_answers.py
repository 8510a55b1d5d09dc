"""Answers that their clients do not read, and requests that take long to decode."""

from __future__ import annotations

import http.client
import json
import math
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import grpc
import onnx
import onnx.parser
import pytest
from tritonclient.grpc import service_pb2 as messages

import ortpkg
from ortpkg.scale.serving.protocol_bodies import MOST_JSON_VALUES
from ortpkg.scale.serving.protocol_tensors import MOST_TEXTS
from ortpkg.scale.serving.serving_options import DEFAULT_REQUEST_NBYTES
from tests.scale.served_packages import make_echoes
from tests.scale.serving_processes import Serving, serving
from tests.scale.watched_serving import MIB, others_are_served, resident_nbytes, slowness

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("hostile clients"),
    pytest.mark.timeout(600),
]

REQUEST_NBYTES, TIMEOUT_S = 20 * MIB, 3
#: Of all answers that wait to be read; more than the kernel's buffers of a connection hold, each.
UNREAD_NBYTES, ANSWER_NBYTES = 8 * REQUEST_NBYTES, 32 * MIB
CLIENTS, STREAMS, CONCURRENCY = 20, 30, 2
#: Of a stream, up to half of which the kernel's buffers may hold.
EVENT_NBYTES = 4 * MOST_JSON_VALUES
#: The arena of onnxruntime, of which outputs are views: it grows twofold, and keeps what it has.
ARENA_NBYTES = CONCURRENCY * 2 * ANSWER_NBYTES
#: Beside it the bytes of each run's answer, and those of the run before, not counted yet.
RUNS_NBYTES = ARENA_NBYTES + CONCURRENCY * 2 * ANSWER_NBYTES
#: gRPC copies each answer that waits; its Python package keeps the original until it is read.
GRPC_UNREAD_NBYTES = 2 * UNREAD_NBYTES
#: Longer than it takes to send all answers that may wait, and then to cut them.
SOON_S = 60
#: A body, its values as objects and as the library's own, twice, and the answer.
BODY_GROWTH_NBYTES = 1024 * MIB
#: What others wait for the worst request of the usual size at most, on a machine that is idle.
OTHERS_S = 1.0
ZEROS = """
<ir_version: 8, opset_import: ["" : 17]>
zeros (int64[1] count) => (float[n] y) { y = ConstantOfShape (count) }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One whose answers can be much larger than their requests."""
    folder = tmp_path_factory.mktemp("unread")
    chosen = [path for path in make_echoes(folder) if path.stem in ("echo_fp32", "echo_bytes")]
    onnx.save(onnx.parser.parse_model(ZEROS), folder / "zeros.onnx")
    chosen.append(folder / "zeros.ortpackage")
    variants = [ortpkg.NewVariant(model=folder / "zeros.onnx")]
    ortpkg.create(chosen[-1], variants, name="zeros", version="1")
    limits = ("--max-request", f"{REQUEST_NBYTES // MIB}MiB", "--timeout", f"{TIMEOUT_S}s")
    concurrency = ("--concurrency", str(CONCURRENCY))
    with serving(*map(str, chosen), *limits, *concurrency) as started:
        yield started


def zeros_request(nbytes: int) -> bytes:
    """Return a request for so many bytes of zeros, in binary."""
    count = {"name": "count", "datatype": "INT64", "shape": [1], "data": [nbytes // 4]}
    body = json.dumps({"inputs": [count], "parameters": {"binary_data_output": True}}).encode()
    head = b"POST /v2/models/zeros/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def stream_request(values: int) -> bytes:
    """Return a request for so many zeros in an event of a stream, four bytes each."""
    body = json.dumps({"count": [values]}).encode()
    head = (
        b"POST /v2/models/zeros/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    )
    return head % len(body) + body


def ask_for_zeros(server: Serving, request: bytes, *, is_read: bool = False) -> socket.socket:
    """Ask for a large answer; a connection whose answer is not read soon has a small buffer."""
    client = socket.socket()
    if not is_read:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(SOON_S)
    host, _, port = server.http.partition(":")
    client.connect((host, int(port)))
    client.sendall(request)
    return client


def read_all(client: socket.socket) -> tuple[bytes, int]:
    """Read what comes until the server ends the connection; the status and how many bytes."""
    data, nbytes = b"", 0
    with client, suppress(ConnectionResetError):
        while part := client.recv(MIB):
            data = data or part
            nbytes += len(part)
            if not data.startswith(b"HTTP/1.1 200 "):
                break
    return data[9:12], nbytes


def most_unread(asked_s: float, nbytes: int = ANSWER_NBYTES) -> int:
    """Return how many answers of a size may have begun in that time if nobody reads them.

    Where runs are slow, the first are cut while others run, which gives these their room.
    """
    return (1 + math.floor(asked_s / TIMEOUT_S)) * (UNREAD_NBYTES // nbytes)


def wait_for(is_so: object, what: str) -> None:
    """Return once ``is_so()``. AssertionError where that takes too long."""
    deadline = time.monotonic() + SOON_S
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_answers_that_nobody_reads_are_cut_and_their_memory_returns(server: Serving) -> None:
    """As many wait as may, others are refused; what one round held is there for the next."""
    after: list[int] = []
    kept_nbytes = resident_nbytes(server) + ARENA_NBYTES
    for _ in range(3):
        with others_are_served(server, UNREAD_NBYTES + RUNS_NBYTES) as waits:
            start = time.monotonic()
            request = zeros_request(ANSWER_NBYTES)
            clients = [ask_for_zeros(server, request) for _ in range(CLIENTS)]
            for client in clients:
                client.recv(1, socket.MSG_PEEK)  # each has the begin of its answer
            most = most_unread(time.monotonic() - start)
            asked = len(waits)
            wait_for(lambda: resident_nbytes(server) < kept_nbytes, "the answers stay in memory")
            wait_for(lambda: len(waits) > asked, "nobody is answered")  # noqa: B023
            time.sleep(TIMEOUT_S)
            after.append(resident_nbytes(server))
            answers = [read_all(client) for client in clients]
        statuses = Counter(status for status, _ in answers)
        print(statuses, [nbytes // MIB for _, nbytes in answers], after[-1] // MIB)
        assert statuses.keys() <= {b"200", b"429", b"504"}  # runs are late on a busy machine
        assert statuses[b"200"] + statuses[b"504"] >= 4
        assert 0 < statuses[b"200"] <= most
        assert all(nbytes < ANSWER_NBYTES for _, nbytes in answers)
        assert after[-1] < min(kept_nbytes, after[0] + 2 * ANSWER_NBYTES)


def test_an_answer_that_is_read_in_time_is_not_cut(server: Serving) -> None:
    client = ask_for_zeros(server, zeros_request(ANSWER_NBYTES), is_read=True)
    time.sleep(TIMEOUT_S / 3)
    nbytes = 0
    while nbytes < ANSWER_NBYTES:
        part = client.recv(MIB)
        assert part
        nbytes += len(part)
    client.close()


def test_streams_that_nobody_reads_are_bounded(server: Serving) -> None:
    """Events wait for their connection, and in it: as many bytes as may, each."""
    others_nbytes = UNREAD_NBYTES + RUNS_NBYTES  # a run has its event up to three times
    with others_are_served(server, 2 * UNREAD_NBYTES + others_nbytes):
        request = stream_request(MOST_JSON_VALUES - 1)
        clients: list[socket.socket] = []
        start = time.monotonic()
        for _ in range(STREAMS):  # one after the other: none waits for others' runs
            clients.append(ask_for_zeros(server, request))
            clients[-1].recv(1, socket.MSG_PEEK)
        most = most_unread(time.monotonic() - start, EVENT_NBYTES // 2)
        time.sleep(2 * TIMEOUT_S)
        statuses = Counter(status for status, _ in map(read_all, clients))
    print(statuses)
    assert statuses.keys() <= {b"200", b"429", b"504"}  # runs are late on a busy machine
    assert 0 < statuses[b"200"] <= most


def ask_over_grpc(server: Serving) -> tuple[grpc.Channel, Any]:
    """Ask for a large answer on a channel of its own; nothing of it is read until it is iterated.

    The method is called as one that answers in a stream: such a client reads when it is asked.
    """
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    channel = grpc.insecure_channel(server.grpc, options=options)
    count = {"name": "count", "datatype": "INT64", "shape": [1]}
    raw = struct.pack("<q", ANSWER_NBYTES // 4)
    request = messages.ModelInferRequest(
        model_name="zeros", inputs=[count], raw_input_contents=[raw]
    ).SerializeToString()
    call = channel.unary_stream("/inference.GRPCInferenceService/ModelInfer")
    return channel, call(request, timeout=2 * SOON_S)


def outcome_of(answer: Any) -> str:
    """Return the status that a call ends with, once its answer is read."""
    try:
        (data,) = answer
    except grpc.RpcError as error:
        name: str = error.code().name
        return name
    assert len(data) > ANSWER_NBYTES
    return "OK"


def test_answers_of_grpc_that_nobody_reads_are_cut_and_their_memory_returns(
    server: Serving,
) -> None:
    after: list[int] = []
    kept_nbytes = resident_nbytes(server) + ARENA_NBYTES
    for _ in range(3):
        start = time.monotonic()
        with others_are_served(server, GRPC_UNREAD_NBYTES + RUNS_NBYTES):
            calls = [ask_over_grpc(server) for _ in range(CLIENTS)]
            for _, answer in calls:
                answer.initial_metadata()  # which comes with the begin of an answer, or a refusal
            most = most_unread(time.monotonic() - start)
            time.sleep(2 * TIMEOUT_S)
            after.append(resident_nbytes(server))
            outcomes = Counter(outcome_of(answer) for _, answer in calls)
        for channel, _ in calls:
            channel.close()
        print(outcomes, after[-1] // MIB)
        # On a busy machine some runs take longer than they may.
        assert outcomes.keys() <= {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
        assert 0 < outcomes["UNAVAILABLE"] <= most
        assert after[-1] < min(kept_nbytes, after[0] + 2 * ANSWER_NBYTES)


def test_an_answer_of_grpc_that_is_read_in_time_is_not_cut(server: Serving) -> None:
    channel, answer = ask_over_grpc(server)
    time.sleep(TIMEOUT_S / 3)
    assert outcome_of(answer) == "OK"
    channel.close()


def texts_request(count: int, text: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a body with so many texts of a size, the last of which is not ASCII."""
    last = text[:-2] + b"\xc3\xa9"
    texts = (struct.pack("<I", len(text)) + text) * (count - 1)
    texts += struct.pack("<I", len(last)) + last
    tensor = {
        "name": "x",
        "datatype": "BYTES",
        "shape": [count],
        "parameters": {"binary_data_size": len(texts)},
    }
    document = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    head = json.dumps(document).encode()
    return head + texts, {"Inference-Header-Content-Length": str(len(head))}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with the limits that it has by default."""
    folder = tmp_path_factory.mktemp("usual")
    chosen = [path for path in make_echoes(folder) if path.stem in ("echo_fp32", "echo_bytes")]
    with serving(*map(str, chosen)) as started:
        yield started


@pytest.mark.parametrize(
    ("count", "nbytes", "status"),
    [
        pytest.param(MOST_TEXTS, 58, 200, id="as many as may be, 62 MiB"),
        pytest.param(MOST_TEXTS, 2, 200, id="as many as may be, short"),
        pytest.param(MOST_TEXTS + 1, 2, 413, id="one too many"),
        pytest.param(64 * MIB // 6 - 50, 2, 413, id="many too many, 64 MiB"),
    ],
)
def test_others_are_answered_while_many_texts_are_decoded(
    usual: Serving, count: int, nbytes: int, status: int
) -> None:
    """Nobody waits for long, as all would behind a loop that decodes, or one call that copies."""
    body, headers = texts_request(count, b"ab" * (nbytes // 2))
    answer = answer_beside_others(usual, "bytes", body, headers, status)
    assert answer.endswith(body[-nbytes:]) if status == 200 else b"several requests" in answer


def numbers_request(start: bytes, count: int, data: bytes = b"") -> tuple[bytes, dict[str, str]]:
    """Return a body of numbers: "start" as often as ``count`` says in JSON, or ``data``."""
    document = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [%d], ' % count
    if data:
        head = document + b'"parameters": {"binary_data_size": %d}}]}' % len(data)
        return head + data, {"Inference-Header-Content-Length": str(len(head))}
    return document + b'"data": [' + start * (count - 1) + start[:-1] + b"]}]}", {}


@pytest.mark.parametrize(
    ("request_parts", "status", "reason"),
    [
        pytest.param((b"1.5,", MOST_JSON_VALUES - 300), 200, b"", id="numbers"),
        pytest.param((b"1.5,", MOST_JSON_VALUES + 1), 413, b"in binary", id="more numbers"),
        pytest.param((b"[],", MOST_JSON_VALUES // 17 - 20), 400, b"FP32 values", id="lists"),
        pytest.param((b"[],", 64 * MIB // 3 - 50), 413, b"in binary", id="64 MiB of lists"),
        pytest.param((b"", MOST_JSON_VALUES, b"abcd" * MOST_JSON_VALUES), 200, b"", id="answer"),
        pytest.param(
            (b"", 15 * MIB, b"abcd" * (15 * MIB)), 400, b"binary_data", id="answer of 60 MiB"
        ),
    ],
)
def test_others_are_answered_while_json_is_read_and_written(
    usual: Serving, request_parts: tuple[Any, ...], status: int, reason: bytes
) -> None:
    body, headers = numbers_request(*request_parts)
    assert reason in answer_beside_others(usual, "fp32", body, headers, status)


def answer_beside_others(
    server: Serving, model: str, body: bytes, headers: dict[str, str], status: int
) -> bytes:
    """Return the answer of an echo; its status must be that, and nobody else may wait for long."""
    assert len(body) <= DEFAULT_REQUEST_NBYTES
    slow_before = slowness()
    client = http.client.HTTPConnection(server.http, timeout=SOON_S)
    with closing(client), others_are_served(server, BODY_GROWTH_NBYTES) as waits:
        wait_for(lambda: waits, "nobody is answered")
        before = len(waits)
        start = time.monotonic()
        client.request("POST", f"/v2/models/echo_{model}/infer", body, headers)
        response = client.getresponse()
        answer = response.read()
        duration_s = time.monotonic() - start
        asked = len(waits)
        wait_for(lambda: len(waits) > asked, "nobody is answered")
    others, slow = waits[before:], max(slow_before, slowness())
    print(
        f"{response.status}, {duration_s:.3f} s, others {len(others)}: {max(others):.3f} s,"
        f" {slow:.1f} times as slow as idle"
    )
    assert response.status == status, answer[:200]
    assert max(others) < OTHERS_S * slow
    return answer
