"""A served package, asked by tritonclient: both protocols, both forms of tensors, errors, the end."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

import ortpkg
from tests.scale.serving_processes import ROOT, Serving, serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("serving"),
    pytest.mark.timeout(600),
]

DIGITS = ROOT / "sample_packages/digits.ortpackage"
IMAGE = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)


@pytest.fixture(scope="module")
def expected() -> Any:
    (logits,) = ortpkg.ModelPackage(DIGITS).create_session().run(None, {"image": IMAGE[:1]})
    return logits


def http_input(array: Any, *, binary: bool) -> Any:
    given = tritonclient.http.InferInput("image", list(array.shape), "FP32")
    given.set_data_from_numpy(array, binary_data=binary)
    return given


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("asks_binary", [True, False, None])
def test_http_answers_what_a_session_gives(
    digits: Serving, expected: Any, is_binary: bool, asks_binary: bool | None
) -> None:
    outputs = (
        None
        if asks_binary is None
        else [tritonclient.http.InferRequestedOutput("logits", binary_data=asks_binary)]
    )
    with tritonclient.http.InferenceServerClient(digits.http) as client:
        result = client.infer(
            "digits", [http_input(IMAGE[:1], binary=is_binary)], outputs=outputs, request_id="7"
        )
    np.testing.assert_array_equal(result.as_numpy("logits"), expected)
    response = result.get_response()
    assert (response["model_name"], response["model_version"], response["id"]) == (
        "digits",
        "1.0.0",
        "7",
    )


def test_grpc_answers_what_a_session_gives(digits: Serving, expected: Any) -> None:
    given = tritonclient.grpc.InferInput("image", [1, 1, 8, 8], "FP32")
    given.set_data_from_numpy(IMAGE[:1])
    with tritonclient.grpc.InferenceServerClient(digits.grpc) as client:
        result = client.infer("digits", [given], model_version="1.0.0", request_id="7")
    np.testing.assert_array_equal(result.as_numpy("logits"), expected)
    response = result.get_response()
    assert (response.model_name, response.model_version, response.id) == ("digits", "1.0.0", "7")


def test_both_protocols_say_what_the_model_takes(digits: Serving) -> None:
    told = {
        "name": "digits",
        "versions": ["1.0.0"],
        "platform": "onnx_ortpkg",
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}],
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}],
    }
    with tritonclient.http.InferenceServerClient(digits.http) as client:
        assert client.get_model_metadata("digits") == told
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("digits", "1.0.0")
        assert not client.is_model_ready("digits", "2")
        assert client.get_server_metadata()["name"] == "ortpkg"
    with tritonclient.grpc.InferenceServerClient(digits.grpc) as client:
        metadata = client.get_model_metadata("digits", as_json=True)
        assert metadata["inputs"][0]["name"] == "image"
        assert metadata["versions"] == ["1.0.0"]
        assert client.is_server_ready()
        assert client.is_model_ready("digits", "1.0.0")


def test_a_request_that_does_not_fit_is_the_clients_fault_in_both(digits: Serving) -> None:
    wrong = IMAGE[:, :, :4]
    with (
        tritonclient.http.InferenceServerClient(digits.http) as client,
        pytest.raises(tritonclient.http.InferenceServerException) as over_http,
    ):
        client.infer("digits", [http_input(wrong, binary=True)])
    given = tritonclient.grpc.InferInput("image", list(wrong.shape), "FP32")
    given.set_data_from_numpy(wrong)
    with (
        tritonclient.grpc.InferenceServerClient(digits.grpc) as client,
        pytest.raises(tritonclient.grpc.InferenceServerException) as over_grpc,
    ):
        client.infer("digits", [given])
    assert over_http.value.status() == "400"
    assert over_grpc.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert over_http.value.message() == over_grpc.value.message()
    assert "its shape must be [-1, 1, 8, 8]" in over_http.value.message()


def test_an_unknown_model_or_version_is_404_in_both(digits: Serving) -> None:
    with tritonclient.http.InferenceServerClient(digits.http) as client:
        for name, version in (("digit", ""), ("digits", "9")):
            with pytest.raises(tritonclient.http.InferenceServerException) as refused:
                client.infer(name, [http_input(IMAGE[:1], binary=True)], model_version=version)
            assert refused.value.status() == "404"
    given = tritonclient.grpc.InferInput("image", [1, 1, 8, 8], "FP32")
    given.set_data_from_numpy(IMAGE[:1])
    with tritonclient.grpc.InferenceServerClient(digits.grpc) as client:
        for name, version in (("digit", ""), ("digits", "9")):
            with pytest.raises(tritonclient.grpc.InferenceServerException) as refused:
                client.infer(name, [given], model_version=version)
            assert refused.value.status() == "StatusCode.NOT_FOUND"


def post(server: Serving, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(f"http://{server.http}{path}", body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"inputs": 3}', b"\xff\xfe"])
def test_what_is_no_request_is_told_so(digits: Serving, body: bytes) -> None:
    status, answer = post(digits, "/v2/models/digits/infer", body)
    assert status == 400
    assert set(answer) == {"error"}


def test_the_log_says_what_happened_and_nothing_of_what_requests_hold(digits: Serving) -> None:
    post(digits, "/v2/models/digits/infer", b'{"secret": 1}')
    assert digits.event("loaded")["first_run"] == "samples"
    assert digits.event("loaded")["matches"] is True
    assert digits.event("request")["status"] == 400
    assert "secret" not in json.dumps(digits.events)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_end_does(how: signal.Signals) -> None:
    with serving(str(DIGITS)) as server:
        assert server.end(how) == 0
    assert server.event("ended")["finished_all"] is True
