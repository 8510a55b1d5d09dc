"""Broken requests over HTTP: each refused as ``{"error": ...}``, in no library's words."""

from __future__ import annotations

import http.client
import json
from contextlib import closing

import pytest

from tests.scale.serving_processes import Serving
from tests.scale.watched_serving import connect

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("serving"),
    pytest.mark.timeout(120),
]

#: What FastAPI and pydantic say of bodies that they read themselves, in small letters.
FOREIGN = ("input should be", "field required", "pydantic", "fastapi", "value_error", '"detail"')
INFER, GENERATE = "/v2/models/digits/infer", "/v2/models/digits/generate"
INPUT = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0] * 64}
BODIES = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"a"',
    "a number": b"1",
    "no inputs": b"{}",
    "inputs that are null": b'{"inputs": null}',
    "inputs that are an object": b'{"inputs": {}}',
    "an input that is a number": b'{"inputs": [1]}',
    "a form": b"image=1",
    "xml": b"<image/>",
    "no UTF-8": b'{"inputs": "\xff"}',
    "NaN": b'{"inputs": [NaN]}',
    "an id that is a number": json.dumps({"id": 1, "inputs": [INPUT]}).encode(),
    "outputs that are a text": json.dumps({"inputs": [INPUT], "outputs": "x"}).encode(),
    "parameters that are a list": json.dumps({"inputs": [INPUT], "parameters": [1]}).encode(),
    "a shape that is a text": json.dumps({"inputs": [{**INPUT, "shape": "x"}]}).encode(),
    "data that are a text": json.dumps({"inputs": [{**INPUT, "data": "x"}]}).encode(),
}
KINDS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data", "")


def check_refusal(status: int, kind: str | None, body: bytes) -> None:
    """AssertionError for what is not refused in our form."""
    assert 400 <= status < 500
    assert status != 422
    assert kind == "application/json"
    (error,) = json.loads(body).values()
    assert body.startswith((b'{"error":', b'{"error" :'))
    assert error
    assert not [word for word in FOREIGN if word in body.decode().lower()], error


@pytest.mark.parametrize("path", [INFER, GENERATE, f"{GENERATE}_stream"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_broken_body_is_refused_in_our_words(digits: Serving, path: str, body: bytes) -> None:
    with closing(http.client.HTTPConnection(digits.http, timeout=60)) as client:
        for kind in KINDS:
            client.request("POST", path, body, {"Content-Type": kind})
            response = client.getresponse()
            check_refusal(response.status, response.headers["Content-Type"], response.read())


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", INFER),
        ("GET", INFER),
        ("DELETE", "/v2/models/digits"),
        ("POST", "/v2/models"),
        ("POST", "/v2/health/ready"),
        ("OPTIONS", "/v2"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/v2/models/%ff%00"),
        ("GET", "/v2/models/digits/versions/x"),
        ("GET", "/v2/models/digits/versions/x/ready"),
        ("GET", "/v2/models/digits?model_version=x&model_version=%ff"),
        ("POST", "/v1/models/digits:predict"),
        ("POST", "/v2/repository/models/digits/load"),
    ],
)
def test_a_wrong_path_or_method_is_refused_in_our_words(
    digits: Serving, method: str, path: str
) -> None:
    with closing(http.client.HTTPConnection(digits.http, timeout=60)) as client:
        client.request(method, path, b"{}")
        response = client.getresponse()
        check_refusal(response.status, response.headers["Content-Type"], response.read())


@pytest.mark.parametrize(
    "head",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /v2/models/digits/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def test_what_is_no_http_is_refused_in_our_words(digits: Serving, head: bytes) -> None:
    with connect(digits) as client, http.client.HTTPResponse(client) as response:
        client.sendall(head)
        response.begin()
        check_refusal(response.status, response.headers["Content-Type"], response.read())
