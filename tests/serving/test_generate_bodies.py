"""The extension "generate": members of an object become inputs, outputs become members."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidFeedError, InvalidRequestError
from ortpkg.scale.serving.generate_bodies import generate_answer, read_generate_body
from ortpkg.scale.serving.served_model import ServedModel


class Session:
    """Takes a row of tokens and a text, gives a token and a text."""

    def get_inputs(self) -> list[Any]:
        """Two."""
        return [
            SimpleNamespace(name="tokens", type="tensor(int64)", shape=[1, "n"]),
            SimpleNamespace(name="text", type="tensor(string)", shape=["batch"]),
        ]

    def get_outputs(self) -> list[Any]:
        """Two."""
        return [
            SimpleNamespace(name="token", type="tensor(float)", shape=["rounds", 1]),
            SimpleNamespace(name="answer", type="tensor(string)", shape=[1]),
        ]

    def run(self, names: Any, feed: Any, options: Any = None) -> list[Any]:
        """Never."""
        raise AssertionError


MODEL = ServedModel(name="m", version="2", session=Session())


def read(document: Any) -> dict[str, Any]:
    _, given = read_generate_body(json.dumps(document).encode(), MODEL, json.loads)
    return MODEL.read_inputs(given)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [([1, 2], [[1, 2]]), ([[1, 2]], [[1, 2]]), (7, [[7]]), ([], [[]]), ([[]], [[]])],
)
def test_values_get_the_dimensions_that_they_lack(tokens: Any, expected: Any) -> None:
    feeds = read({"tokens": tokens, "text": "hello", "parameters": {"stream": True}, "id": "3"})
    assert feeds["tokens"].tolist() == expected
    assert feeds["text"].tolist() == ["hello"]


@pytest.mark.parametrize(
    "tokens", [[[1], [2, 3]], [[1, 2], [3, 4]], [[[1]]], [1, [2]], "x", None, {"a": 1}, 1.5, [True]]
)
def test_values_that_do_not_fit_are_told(tokens: Any) -> None:
    with pytest.raises(InvalidFeedError, match="'tokens'"):
        read({"tokens": tokens, "text": "hello"})


def test_a_member_that_is_no_input_is_told() -> None:
    with pytest.raises(InvalidFeedError, match="has no input 'text_input'"):
        read({"tokens": [1], "text_input": "hello"})


@pytest.mark.parametrize("body", [b"", b"[]", b"3", b'{"id": 3}'])
def test_what_is_no_object_is_told(body: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        read_generate_body(body, MODEL, json.loads)


def test_an_output_of_one_element_is_that_element() -> None:
    values = {"token": np.array([[1.5]], np.float32), "answer": np.array(["yes"], object)}
    told = generate_answer(MODEL, "3", values)
    assert told == {
        "id": "3",
        "model_name": "m",
        "model_version": "2",
        "token": 1.5,
        "answer": "yes",
    }
    told = generate_answer(MODEL, "", {"token": np.array([[1.5], [2.5]], np.float32)})
    assert told["token"].tolist() == [[1.5], [2.5]]
    assert "answer" not in told


def test_a_number_alone_is_one_of_pythons_own_or_as_short_as_its_type_has_it() -> None:
    whole = generate_answer(MODEL, "", {"token": np.array([7], np.longlong)})["token"]
    assert type(whole) is int
    tenth = generate_answer(MODEL, "", {"token": np.array([0.1], np.float32)})["token"]
    assert str(tenth) == "0.1"


def test_what_json_cannot_carry_is_told() -> None:
    with pytest.raises(InvalidRequestError, match="not finite"):
        generate_answer(MODEL, "", {"token": np.array([np.nan], np.float32)})
