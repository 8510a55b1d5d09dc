"""The application of the protocol over HTTP, called in this process without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.version import __version__
from ortpkg.scale.serving.answering import Answering
from ortpkg.scale.serving.http_endpoints import make_protocol_application
from ortpkg.scale.serving.http_exchange import Message
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.serving_options import ServingLimits
from tests.serving.test_served_model import Adder, adder

MODELS = ("/v2/models/adder", "/v2/models/adder/versions/1")
SPECS = {
    "inputs": [{"name": name, "datatype": "FP32", "shape": [-1]} for name in ("a", "b")],
    "outputs": [
        {"name": name, "datatype": "FP32", "shape": [-1]} for name in ("sum", "difference")
    ],
}
FEEDS: list[dict[str, Any]] = [
    {"name": "a", "datatype": "FP32", "shape": [2], "data": [1, 2]},
    {"name": "b", "datatype": "FP32", "shape": [2], "data": [3, 5]},
]


@dataclass
class Answer:
    """An answer that is being sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    async def send(self, message: Message) -> None:
        """Keep a part."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")


def ask(
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    models: Sequence[ServedModel] = (),
    query: bytes = b"",
    **options: Any,
) -> Answer:
    """Return the answer to one request; ``options`` are those of the application."""
    answer, parts = Answer(), [body]

    async def receive() -> Message:
        if not parts:
            await asyncio.sleep(60)  # the client stays
        return {"type": "http.request", "body": parts.pop(), "more_body": False}

    async def call() -> None:
        versions = ServedVersions()
        for model in models or (adder(), adder("0")):
            versions.add(model)
        versions.is_complete = True
        answering = Answering(ServingLimits(concurrency=1))
        application = make_protocol_application(versions, answering, **options)
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        }
        try:
            await application(scope, receive, answer.send)
        finally:
            await answering.drain()

    with suppress(ZeroDivisionError):  # raised again for the log of GuardedApplication
        asyncio.run(call())
    return answer


def told(path: str, **options: Any) -> Any:
    """Return the JSON of the answer to a GET request, which is 200."""
    answer = ask("GET", path, **options)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return json.loads(answer.body)


def test_the_server_says_what_it_is_and_what_it_serves() -> None:
    for path in ("/", "/v2/health/live"):
        assert told(path) == {"live": True}
    assert told("/v2/health/ready") == {"ready": True}
    assert told("/v2/models") == {"models": ["adder"]}
    extensions = ["binary_tensor_data", "generate"]
    assert told("/v2") == {"name": "ortpkg", "version": __version__, "extensions": extensions}


@pytest.mark.parametrize("path", MODELS)
def test_a_model_and_its_version_say_what_they_take(path: str) -> None:
    facts = {"name": "adder", "versions": ["0", "1"], "platform": "onnx_ortpkg"}
    assert told(path) == {**facts, **SPECS}
    assert told(f"{path}/ready") == {"name": "adder", "ready": True}


def test_a_query_may_state_the_version_of_metadata_alone() -> None:
    for path in ("/v2/models/adder", "/v2/models/adder/ready"):
        for query, status in (
            (b"model_version=0", 200),
            (b"model_version=", 200),
            (b"model_version=9", 404),
        ):
            assert ask("GET", path, query=query).status == status
    body = json.dumps({"inputs": FEEDS}).encode()
    assert ask("POST", "/v2/models/adder/infer", body, query=b"model_version=9").status == 200


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_server_that_is_not_ready_says_when_to_come_back(is_ready: bool) -> None:
    answer = ask("GET", "/v2/health/ready", is_ready=lambda: is_ready)
    assert answer.status == (200 if is_ready else 503)
    assert answer.headers.get("retry-after") == (None if is_ready else "1")
    if not is_ready:
        assert json.loads(answer.body) == {"error": "the server is not ready"}
        assert told("/v2/health/live", is_ready=lambda: False) == {"live": True}


def test_metrics_have_a_page_where_there_are_any() -> None:
    assert ask("GET", "/metrics").status == 404
    answer = ask("GET", "/metrics", metrics=lambda: (b"figures", "text/plain; version=1"))
    assert (answer.status, answer.body) == (200, b"figures")
    assert answer.headers["content-type"].startswith("text/plain; version=1")


@pytest.mark.parametrize("path", MODELS)
def test_inference_in_both_forms_of_tensors(path: str) -> None:
    answer = ask("POST", f"{path}/infer", json.dumps({"id": "7", "inputs": FEEDS}).encode())
    assert answer.status == 200
    document = json.loads(answer.body)
    assert (document["model_name"], document["model_version"]) == ("adder", "1")
    assert document["id"] == "7"
    assert [output["data"] for output in document["outputs"]] == [[4, 7], [-2, -3]]
    head = json.dumps(
        {
            "inputs": [
                {**feed, "data": None, "parameters": {"binary_data_size": 8}} for feed in FEEDS
            ],
            "outputs": [{"name": "sum", "parameters": {"binary_data": True}}],
        }
    ).encode()
    tails = b"".join(np.array(feed["data"], np.float32).tobytes() for feed in FEEDS)
    length = {"inference-header-content-length": str(len(head))}
    answer = ask("POST", f"{path}/infer", head + tails, length)
    assert answer.headers["content-type"] == "application/octet-stream"
    end = int(answer.headers["inference-header-content-length"])
    assert json.loads(answer.body[:end])["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert answer.body[end:] == np.array([4, 7], np.float32).tobytes()


@pytest.mark.parametrize("path", MODELS)
def test_generate_answers_at_once_or_as_events(path: str) -> None:
    body = json.dumps({"a": [1, 2], "b": [3, 5]}).encode()
    answer = ask("POST", f"{path}/generate", body)
    assert (answer.status, json.loads(answer.body)["sum"]) == (200, [4, 7])
    events = ask("POST", f"{path}/generate_stream", body)
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.body == b"data: " + answer.body + b"\n\n"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/none", 404),
        ("GET", "/v2/models/adder/versions/9", 404),
        ("GET", "/v2/models/none/ready", 404),
        ("POST", "/v2/models/none/infer", 404),
        ("GET", "/v3", 404),
        ("GET", "/docs", 404),
        ("GET", f"{MODELS[0]}/infer", 405),
        ("HEAD", "/v2", 405),
        ("POST", "/v2/health/ready", 405),
        ("POST", f"{MODELS[0]}/infer", 400),
        ("POST", f"{MODELS[1]}/generate", 400),
    ],
)
def test_what_cannot_be_answered_is_an_error_in_json(method: str, path: str, status: int) -> None:
    answer = ask(method, path, b"{")
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body).keys() == {"error"}


def test_a_fault_of_the_server_is_told_without_its_reason() -> None:
    class Broken(Adder):
        def run(self, names: Any, feed: Any, options: Any = None) -> list[Any]:
            raise ZeroDivisionError("a secret")

    broken = ServedModel(name="m", version="1", session=Broken())
    body = json.dumps({"inputs": FEEDS}).encode()
    answer = ask("POST", "/v2/models/m/infer", body, models=[broken])
    assert answer.status == 500
    assert json.loads(answer.body).keys() == {"error"}
    assert b"secret" not in answer.body
