"""Bodies of the protocol: read as their clients wrote them, refused where they lie."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidRequestError, RequestTooLargeError
from ortpkg.scale.serving import protocol_bodies
from ortpkg.scale.serving.generate_bodies import generate_answer, read_generate_body
from ortpkg.scale.serving.protocol_bodies import (
    InferenceBody,
    read_body,
    read_document,
    response_body,
)
from ortpkg.scale.serving.protocol_tensors import TensorSpec
from ortpkg.scale.serving.served_model import ServedModel

DATA = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}
BINARY = {"name": "y", "datatype": "INT8", "shape": [3], "parameters": {"binary_data_size": 3}}


def read(document: Any, tail: bytes = b"", length: str | None = None) -> InferenceBody:
    head = json.dumps(document).encode()
    if length is None and tail:
        length = str(len(head))
    return read_body(head + tail, length, lambda view: json.loads(bytes(view)))


def test_json_and_binary_tensors_stand_beside_each_other() -> None:
    second = {**BINARY, "name": "z", "parameters": {"binary_data_size": 2}}
    body = read({"id": "7", "inputs": [BINARY, DATA, second]}, b"abcde")
    assert body.id == "7"
    assert [each.name for each in body.inputs] == ["y", "x", "z"]
    assert [bytes(each.data) for each in body.inputs if each.name != "x"] == [b"abc", b"de"]
    assert body.inputs[1].data == [1, 2]


def test_what_outputs_are_to_be_is_said_for_each_or_for_all() -> None:
    outputs = [{"name": "a"}, {"name": "b", "parameters": {"binary_data": False}}]
    body = read(
        {"inputs": [], "outputs": outputs, "parameters": {"binary_data_output": True}},
    )
    assert body.output_names == ("a", "b")
    assert [body.is_binary_output(name) for name in "abc"] == [True, False, True]
    assert not read({"inputs": []}).is_binary_output("a")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the request must be an object, not a list"),
        ({}, "inputs must be a list, not null or missing"),
        ({"inputs": [1]}, r"inputs\[0\] must be an object"),
        ({"inputs": [DATA, {**DATA, "name": 3}]}, r"inputs\[1\].name must be a text"),
        ({"inputs": [{**DATA, "shape": 3}]}, "shape must be a list, not a number"),
        ({"inputs": [{**DATA, "datatype": None}]}, "datatype must be a text"),
        ({"inputs": [{**DATA, "data": "12"}]}, "data must be a list, not a text"),
        ({"inputs": [{**BINARY, "data": [1]}]}, "needs either data or the parameter"),
        ({"inputs": [{**DATA, "data": None}]}, "needs either data or the parameter"),
        ({"inputs": [{**BINARY, "parameters": []}]}, "needs either data or the parameter"),
        ({"inputs": [{**BINARY, "parameters": 3}]}, "parameters must be an object"),
        ({"inputs": [{**BINARY, "parameters": {"binary_data_size": True}}]}, "a whole number"),
        ({"inputs": [{**BINARY, "parameters": {"binary_data_size": -1}}]}, "a whole number"),
        ({"inputs": [BINARY]}, "binary_data_size is 3, and the request has 0 bytes left"),
        ({"inputs": [], "id": 3}, "id must be a text"),
        ({"inputs": [], "outputs": {"a": 1}}, "outputs must be a list"),
        ({"inputs": [], "outputs": [3]}, r"outputs\[0\] must be an object"),
        ({"inputs": [], "parameters": {"binary_data_output": 1}}, "must be true or false"),
        (
            {"inputs": [], "outputs": [{"name": "a", "parameters": {"binary_data": "no"}}]},
            "must be true or false",
        ),
        (
            {"inputs": [], "outputs": [{"name": "a", "parameters": {"classification": 3}}]},
            "classification is not supported",
        ),
    ],
)
def test_what_is_not_as_the_protocol_has_it_is_told(document: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        read(document)


@pytest.mark.parametrize("length", ["-1", "1000", "x", "", "1e1", " 5", "٣", "9" * 100])
def test_a_length_of_json_that_lies_is_refused(length: str) -> None:
    with pytest.raises(InvalidRequestError, match="Inference-Header-Content-Length"):
        read({"inputs": [DATA]}, b"abc", length)


def test_bytes_that_belong_to_no_input_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="2 bytes that belong to no input"):
        read({"inputs": [BINARY]}, b"abcde")


def test_what_is_no_json_is_told() -> None:
    with pytest.raises(InvalidRequestError, match="the request is no JSON"):
        read_body(b"{", None, lambda view: json.loads(bytes(view)))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"[1,2,3,4]", 19),
        (b"[[],[]]", 49),
        (b'{"a":1,"b":2}', 49),
        (b'{"a" : {"b":[]}}', 80),
        (b"[" + b"1," * 30 + b"1]", 46),
        (b"[" * 30, 480),
    ],
)
def test_values_of_json_are_bounded_before_it_is_read(
    text: bytes, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_bodies, "_BLOCK_NBYTES", 7)
    monkeypatch.setattr(protocol_bodies, "MOST_JSON_VALUES", values)
    assert read_document(text, len) == len(text)
    monkeypatch.setattr(protocol_bodies, "MOST_JSON_VALUES", values - 1)
    for read_it in (read_text, read_body_of, read_generate):
        with pytest.raises(RequestTooLargeError, match="send tensors in binary"):
            read_it(text)


def never(_text: bytes | memoryview) -> None:
    raise AssertionError("it is read")


def read_text(text: bytes) -> None:
    read_document(text, never)


def read_body_of(text: bytes) -> None:
    read_body(text + b"binary,,,", str(len(text)), never)


def read_generate(text: bytes) -> None:
    read_generate_body(text, ServedModel(name="m", version="1", session=Nothing()), never)


class Nothing:
    """A session of a model that takes and gives nothing."""

    def get_inputs(self) -> list[Any]:
        """Return no inputs."""
        return []

    get_outputs = get_inputs

    def run(self, names: Any, feed: Any, options: Any = None) -> list[Any]:
        """Never."""
        raise AssertionError


def test_values_of_an_answer_in_json_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ServedModel(name="m", version="1", session=Nothing())
    both, first_binary = (
        [{"name": "a", "parameters": {"binary_data": is_it}}, {"name": "b"}]
        for is_it in (False, True)
    )
    values = {"a": np.zeros(38, np.float32), "b": VALUES["b"]}
    requests = [read({"inputs": [], "outputs": outputs}) for outputs in (both, first_binary)]
    monkeypatch.setattr(protocol_bodies, "MOST_JSON_VALUES", 40)
    for request in requests:
        response_body(request, "m", "1", SPECS[:2], values)
    generate_answer(model, "", values)
    values["a"] = np.zeros(39, np.float32)
    response_body(requests[1], "m", "1", SPECS[:2], values)
    for answer in (
        lambda: response_body(requests[0], "m", "1", SPECS[:2], values),
        lambda: generate_answer(model, "", values),
    ):
        with pytest.raises(InvalidRequestError, match="41 values in JSON, which may have 40"):
            answer()


SPECS = tuple(
    TensorSpec(name=name, datatype=datatype, shape=None)
    for name, datatype in (("a", "FP32"), ("b", "BYTES"), ("c", "FP16"))
)
VALUES = {
    "a": np.array([[1.5, 2.0]], np.float32),
    "b": np.array(["ü", "x"], object),
    "c": np.array([0.5], np.float16),
}


def test_an_answer_has_its_outputs_as_they_were_asked_for() -> None:
    binary = [{"name": name, "parameters": {"binary_data": name != "a"}} for name in "abc"]
    body = response_body(
        read({"id": "7", "inputs": [], "outputs": binary}), "m", "1", SPECS, VALUES
    )
    assert {**body.head, "outputs": None} == {
        "id": "7",
        "model_name": "m",
        "model_version": "1",
        "outputs": None,
    }
    first, second, third = body.head["outputs"]
    assert (first["shape"], first["data"].tolist()) == ([1, 2], [1.5, 2.0])
    assert second["parameters"] == {"binary_data_size": len(body.tails[0])}
    assert body.tails == (b"\2\0\0\0\xc3\xbc\1\0\0\0x", VALUES["c"].tobytes())
    assert third["datatype"] == "FP16"


def test_texts_are_texts_in_json() -> None:
    body = response_body(read({"inputs": []}), "m", "1", SPECS[1:2], VALUES)
    assert body.head["outputs"][0]["data"] == ["ü", "x"]


@pytest.mark.parametrize(
    ("name", "value"), [("a", np.array([np.nan])), ("a", np.array([np.inf])), ("c", VALUES["c"])]
)
def test_what_json_cannot_carry_has_to_be_asked_for_in_binary(name: str, value: Any) -> None:
    spec = next(each for each in SPECS if each.name == name)
    with pytest.raises(InvalidRequestError, match="ask for it with binary_data"):
        response_body(read({"inputs": []}), "m", "1", [spec], {name: value})
