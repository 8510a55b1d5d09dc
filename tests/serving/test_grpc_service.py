"""Methods of the gRPC service in this process, and large messages: read in blocks, written off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidRequestError
from ortpkg.scale.serving import grpc_messages as messages
from ortpkg.scale.serving import grpc_service
from ortpkg.scale.serving.answering import Answering
from ortpkg.scale.serving.grpc_server import make_grpc_server
from ortpkg.scale.serving.grpc_service import InferenceService
from ortpkg.scale.serving.observer import Observer
from ortpkg.scale.serving.protocol_tensors import raw_parts
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.serving_options import ServingLimits
from tests.serving.test_protocol_tensors import longest_share
from tests.serving.test_served_model import Adder

#: How long a slow answer takes to be written, and how long others wait for it at most.
WRITE_S, OTHERS_S = 2.0, 1.0
MODEL = ServedModel(name="m", version="1", session=Adder())
LIMITS = ServingLimits(concurrency=1)
INFER = "/inference.GRPCInferenceService/ModelInfer"


def request_of(
    feeds: dict[str, Any], outputs: tuple[str, ...] = (), identifier: str = ""
) -> messages.ModelInferRequest:
    """Return a request with raw contents."""
    return messages.ModelInferRequest(
        model_name="m",
        id=identifier,
        inputs=[
            {"name": name, "datatype": "FP32", "shape": feed.shape} for name, feed in feeds.items()
        ],
        raw_input_contents=[feed.tobytes() for feed in feeds.values()],
        outputs=[{"name": name} for name in outputs],
    )


def service_of(answering: Answering, *, is_ready: bool = True) -> InferenceService:
    versions = ServedVersions()
    versions.add(MODEL)
    versions.is_complete = True
    return InferenceService(versions, answering, lambda: is_ready)


class Statuses(Observer):
    """Counts the statuses of responses."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def responded(self, protocol: str, status: str) -> None:
        """Count a response."""
        assert protocol == "grpc"
        self.counts[status] += 1


@asynccontextmanager
async def channel_to(
    answering: Answering, *, token: str | None = None, is_ready: bool = True
) -> AsyncIterator[grpc.aio.Channel]:
    """Yield a channel to a server of the model in this process."""
    service = service_of(answering, is_ready=is_ready)
    async with (
        listening(make_grpc_server(service, LIMITS, token, logs_requests=False)) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield channel
    await answering.drain()


@asynccontextmanager
async def listening(server: grpc.aio.Server) -> AsyncIterator[int]:
    """Yield the port of a server while it runs."""
    port: int = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def ask(*requests: tuple[str, bytes], **options: Any) -> tuple[list[bytes | str], Counter[str]]:
    """Call methods in turn; return their messages or the names of their codes, and the counts."""

    async def call_all() -> tuple[list[bytes | str], Counter[str]]:
        answering = Answering(LIMITS)
        answering.observer = statuses = Statuses()
        answers: list[bytes | str] = []
        async with channel_to(answering, **options) as channel:
            for method, message in requests:
                call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
                try:
                    answers.append(await call(message, timeout=30))
                except grpc.aio.AioRpcError as error:
                    answers.append(f"{error.code().name}: {error.details()}")
        return answers, statuses.counts

    return asyncio.run(call_all())


@pytest.mark.parametrize("is_ready", [True, False])
def test_every_method_of_the_definition_answers(is_ready: bool) -> None:
    name = messages.message_class("ModelReadyRequest")(name="m", version="1").SerializeToString()
    feeds = {"a": np.array([1, 2], np.float32), "b": np.array([3, 5], np.float32)}
    sent = {
        "ServerLive": b"",
        "ServerReady": b"",
        "ServerMetadata": b"",
        "ModelReady": name,
        "ModelMetadata": name,
        "ModelInfer": request_of(feeds, ("sum",), "7").SerializeToString(),
    }
    assert sent.keys() == {method.name for method in messages.SERVICE.methods}
    answers, counts = ask(*sent.items(), is_ready=is_ready)
    live, ready, server, model_ready, model, outputs = (
        messages.message_class(f"{method}Response").FromString(answer)
        for method, answer in zip(sent, answers, strict=True)
    )
    assert (live.live, ready.ready, model_ready.ready) == (True, is_ready, True)
    assert (server.name, server.extensions) == ("ortpkg", ["binary_tensor_data", "generate"])
    assert (model.name, model.versions, model.platform) == ("m", ["1"], "onnx_ortpkg")
    assert [(x.name, x.datatype, x.shape) for x in model.inputs] == [
        ("a", "FP32", [-1]),
        ("b", "FP32", [-1]),
    ]
    assert [x.name for x in model.outputs] == ["sum", "difference"]
    assert (outputs.id, outputs.model_version) == ("7", "1")
    assert outputs.raw_output_contents == [np.array([4, 7], np.float32).tobytes()]
    assert counts == {"OK": 6}


def test_calls_that_cannot_be_answered_have_a_status_and_a_reason() -> None:
    unknown = messages.message_class("ModelReadyRequest")(name="n").SerializeToString()
    answers, counts = ask(
        ("ModelReady", unknown),
        ("ModelInfer", b"\xff"),
        ("RepositoryModelLoad", b""),
        ("RepositoryModelUnload", b"\xff"),
        ("ModelStreamInfer", b""),
    )
    assert answers == [
        "NOT_FOUND: there is no model 'n'; served are 'm'",
        answers[1],
        "UNIMPLEMENTED: clients cannot load models",
        "UNIMPLEMENTED: clients cannot unload models",
        "UNIMPLEMENTED: Method not found!",
    ]
    assert str(answers[1]).startswith("INVALID_ARGUMENT: the message is no such request: ")
    assert counts == {"NOT_FOUND": 1, "INVALID_ARGUMENT": 1, "UNIMPLEMENTED": 2}


@pytest.mark.parametrize("method", ["ModelReady", "ModelMetadata", "ModelInfer"])
def test_a_version_that_is_not_served_is_not_found(method: str) -> None:
    kind = messages.message_class(f"{method}Request")
    names = ("model_name", "model_version") if method == "ModelInfer" else ("name", "version")
    sent = [
        kind(**dict(zip(names, named, strict=True))).SerializeToString()
        for named in (("m", "9"), ("n", ""), ("", "1"))
    ]
    answers, counts = ask(*((method, message) for message in sent))
    assert answers[0] == "NOT_FOUND: model 'm' has no version '9'; served are '1'"
    assert counts == {"NOT_FOUND": 3}


def test_a_token_is_asked_for_except_by_methods_of_health() -> None:
    methods = ("ServerLive", "ServerReady", "ServerMetadata", "RepositoryModelLoad")
    answers, _ = ask(*((method, b"") for method in methods), token="open-sesame")
    assert [isinstance(answer, bytes) for answer in answers] == [True, True, False, False]
    assert {str(answer).partition(":")[0] for answer in answers[2:]} == {"UNAUTHENTICATED"}


def test_connections_beyond_the_limit_are_closed() -> None:
    async def connect_all(count: int) -> list[bool]:
        answering = Answering(LIMITS)
        limits = ServingLimits(concurrency=1, connections=2)
        server = make_grpc_server(service_of(answering), limits, None, logs_requests=False)
        async with listening(server) as port:
            clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
            for _, writer in clients:
                writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            answers = [await asyncio.wait_for(reader.read(9), 30) for reader, _ in clients]
            for _, writer in clients:
                writer.close()
        await answering.drain()
        return [bool(answer) for answer in answers]

    assert sum(asyncio.run(connect_all(2))) == 2
    assert sum(asyncio.run(connect_all(5))) == 2


def answer(size: int, outputs: tuple[str, ...] = (), identifier: str = "") -> bytes:
    """Return the bytes of the answer to a request whose inputs have so many elements."""
    feeds = {"a": np.arange(size, dtype=np.float32), "b": np.ones(size, np.float32)}
    request = request_of(feeds, outputs, identifier)

    async def infer() -> bytes:
        answering = Answering(LIMITS)
        ticks = asyncio.create_task(longest_tick())
        try:
            data = await service_of(answering).ModelInfer(request)
        finally:
            await answering.drain()
            ticks.cancel()
        assert await ticks < OTHERS_S
        return data

    return asyncio.run(infer())


async def longest_tick() -> float:
    """Run until cancelled; return the longest time in seconds that the event loop was blocked."""
    longest, last = 0.0, time.monotonic()
    try:
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return max(longest, time.monotonic() - last)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 5000, 1_000_000])
def test_answers_are_the_messages_that_protobuf_would_write(size: int) -> None:
    """Check messages whose length prefix has one byte or several."""
    first = np.arange(size, dtype=np.float32)
    values = {"sum": first + 1, "difference": first - 1}
    expected = messages.ModelInferResponse(
        id="7",
        model_name="m",
        model_version="1",
        outputs=[{"name": name, "datatype": "FP32", "shape": [size]} for name in values],
        raw_output_contents=[value.tobytes() for value in values.values()],
    )
    data = answer(size, ("sum", "difference"), "7")
    assert messages.ModelInferResponse.FromString(data) == expected
    assert data == expected.SerializeToString()


def test_answers_are_written_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_slowly(*arguments: Any) -> Any:
        time.sleep(WRITE_S)
        return raw_parts(*arguments)

    monkeypatch.setattr(grpc_service, "raw_parts", write_slowly)
    assert answer(2, ("sum",))


def test_an_answer_that_no_message_can_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_service, "_MOST_MESSAGE_NBYTES", 1000)
    with pytest.raises(InvalidRequestError, match=r"has \d+ bytes, .* may have 1000: ask for"):
        answer(1000)
    assert answer(100, ("sum",))


@pytest.mark.parametrize(
    ("datatype", "field"), [("FP32", "fp32_contents"), ("INT64", "int64_contents")]
)
def test_contents_are_read_in_blocks(datatype: str, field: str) -> None:
    """Check that other threads run while a large message is read."""
    kind = messages.ModelInferRequest.InferInputTensor
    tensor = kind(name="x", datatype=datatype, shape=[1_000_000], contents={field: [0] * 1_000_000})
    shares = [longest_share(lambda: grpc_service._contents(tensor)) for _ in range(5)]
    assert min(shares) < 0.3, shares  # any of them may be of a busy machine
