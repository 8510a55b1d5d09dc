"""Large messages of gRPC: written off the event loop, read in blocks, as protobuf would have them.

They are tests for a process of their own: KServe and Triton's client, which others use here, bring
the same messages, and one process takes them from one.
"""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages

from ortpkg.errors import InvalidRequestError
from ortpkg.serving import kserve_grpc
from ortpkg.serving.answering import Answering
from ortpkg.serving.protocol_tensors import raw_parts
from ortpkg.serving.served_model import ServedModel
from ortpkg.serving.served_versions import ServedVersions
from ortpkg.serving.serving_options import ServingLimits
from tests.serving.test_protocol_tensors import longest_share
from tests.serving.test_served_model import Adder

pytestmark = [pytest.mark.scale, pytest.mark.shows("serving"), pytest.mark.timeout(120)]

#: How long a slow answer takes to be written, and how long others wait for it at most.
WRITE_S, OTHERS_S = 2.0, 1.0
MODEL = ServedModel(name="m", version="1", session=Adder())


def answer(size: int, outputs: tuple[str, ...] = (), identifier: str = "") -> bytes:
    """Return the bytes of the answer to a request whose inputs have so many elements."""
    feeds = {"a": np.arange(size, dtype=np.float32), "b": np.ones(size, np.float32)}
    request = messages.ModelInferRequest(
        model_name="m",
        id=identifier,
        inputs=[{"name": name, "datatype": "FP32", "shape": [size]} for name in feeds],
        raw_input_contents=[feed.tobytes() for feed in feeds.values()],
        outputs=[{"name": name} for name in outputs],
    )

    async def ask() -> bytes:
        answering, versions = Answering(ServingLimits(concurrency=1)), ServedVersions()
        versions.add(MODEL)
        plane: Any = SimpleNamespace(versions=versions, answering=answering)
        ticks = asyncio.create_task(longest_tick())
        try:
            data = await kserve_grpc.VersionedServicer(plane).ModelInfer(request, None)
        finally:
            await answering.drain()
            ticks.cancel()
        assert await ticks < OTHERS_S
        return data

    return asyncio.run(ask())


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

    monkeypatch.setattr(kserve_grpc, "raw_parts", write_slowly)
    assert answer(2, ("sum",))


def test_an_answer_that_no_message_can_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kserve_grpc, "_MOST_MESSAGE_NBYTES", 1000)
    with pytest.raises(InvalidRequestError, match=r"has \d+ bytes, .* may have 1000: ask for"):
        answer(1000)
    assert answer(100, ("sum",))


@pytest.mark.parametrize(
    ("datatype", "field"), [("FP32", "fp32_contents"), ("INT64", "int64_contents")]
)
def test_contents_are_read_in_blocks(datatype: str, field: str) -> None:
    """Check that other threads run while a large message is read."""
    contents = messages.InferTensorContents(**{field: [0] * 1_000_000})
    tensor = messages.ModelInferRequest.InferInputTensor(
        name="x", datatype=datatype, shape=[1_000_000], contents=contents
    )
    shares = [longest_share(lambda: kserve_grpc._contents(tensor)) for _ in range(5)]
    assert min(shares) < 0.3, shares  # any of them may be of a busy machine
