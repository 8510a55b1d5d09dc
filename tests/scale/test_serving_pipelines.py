"""A pipeline as one model: answered at once, and streamed round by round."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http

import ortpkg
from tests.scale.serving_processes import ROOT, Serving, serving

pytestmark = [
    pytest.mark.scale,
    pytest.mark.shows("serving"),
    pytest.mark.timeout(600),
]

TINYCHAR = ROOT / "sample_packages/tinychar.ortpackage"
TOKENS = np.array([[1, 2, 3]])


@pytest.fixture(scope="module")
def tinychar() -> Iterator[Serving]:
    """A server of the pipeline."""
    with serving(str(TINYCHAR)) as server:
        yield server


@pytest.fixture(scope="module")
def expected() -> list[int]:
    (text,) = ortpkg.ModelPackage(TINYCHAR).create_session().run(None, {"tokens": TOKENS})
    return [int(each) for each in text.ravel()]


def ask(server: Serving, verb: str, document: Any) -> Any:
    address = f"http://{server.http}/v2/models/tinychar/{verb}"
    return urllib.request.urlopen(
        urllib.request.Request(address, json.dumps(document).encode()), timeout=60
    )


def test_a_pipeline_is_one_model(tinychar: Serving, expected: list[int]) -> None:
    with tritonclient.http.InferenceServerClient(tinychar.http) as client:
        metadata = client.get_model_metadata("tinychar")
        assert [each["name"] for each in metadata["inputs"]] == ["tokens"]
        given = tritonclient.http.InferInput("tokens", [1, 3], "INT64")
        given.set_data_from_numpy(TOKENS)
        text = client.infer("tinychar", [given]).as_numpy("text")
    assert text.shape == (120, 1, 1)
    assert text.ravel().tolist() == expected
    assert {each.partition("/")[0] for each in tinychar.event("loaded")["variants"]} == {
        "prefill",
        "decode",
    }


def test_each_round_is_an_event(tinychar: Serving, expected: list[int]) -> None:
    with ask(tinychar, "generate_stream", {"tokens": [1, 2, 3], "id": "7"}) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = answer.read().decode().split("\n\n")
    assert lines.pop() == ""
    events = [json.loads(each.removeprefix("data: ")) for each in lines]
    assert [each["text"] for each in events] == expected
    assert {(each["id"], each["model_name"]) for each in events} == {("7", "tinychar")}


def test_generate_gives_all_at_once(tinychar: Serving, expected: list[int]) -> None:
    with ask(tinychar, "generate", {"tokens": [1, 2, 3]}) as answer:
        text = json.loads(answer.read())["text"]
    assert np.ravel(text).tolist() == expected


@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
@pytest.mark.parametrize("document", [{"token": [1]}, {"tokens": "x"}, {"tokens": [10**6]}, []])
def test_a_wrong_request_is_400_before_anything_is_streamed(
    tinychar: Serving, verb: str, document: Any
) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(tinychar, verb, document)
    assert refused.value.code == 400
    with refused.value as answer:
        assert set(json.loads(answer.read())) == {"error"}


def test_a_stream_that_nobody_reads_any_more_ends(tinychar: Serving) -> None:
    for _ in range(20):
        ask(tinychar, "generate_stream", {"tokens": [1, 2, 3]}).close()
    with ask(tinychar, "generate", {"tokens": [1, 2, 3]}) as answer:
        assert answer.status == 200
