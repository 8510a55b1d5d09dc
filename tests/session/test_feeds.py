from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest

from ortpkg.foundations.errors import ExitCode, InvalidFeedError, LimitExceededError, StatusCode
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.runtime.session import feeds
from ortpkg.runtime.session.feeds import FeedCheck, check_feeds
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.node_args import NodeArg
from tests.session.conftest import session_of

TEXT = """g (float[N,2] image, int64[2] sizes, string[M] names) => (float[N,2] y, int64[2] z, string[M] n)
{ y = Neg(image) z = Neg(sizes) n = Identity(names) }"""
GOOD: dict[str, Any] = {
    "image": np.zeros((3, 2), np.float32),
    "sizes": np.array([1, 2]),
    "names": ["a", "b"],
}

WRONG = {
    "unknown name": ({"imagf": 1}, [], "no input 'imagf' (did you mean 'image'?)"),
    "missing name": (
        {},
        ["sizes"],
        "Required inputs (['sizes']) are missing from input feed (['image', 'names']).",
    ),
    "element type": (
        {"image": np.zeros((3, 2))},
        [],
        "input 'image' is numpy float64, expected tensor(float) (numpy float32)",
    ),
    "tuple": (
        {"image": ((1.0, 2.0),)},
        [],
        "input 'image' is a tuple, expected a numpy array of tensor(float)",
    ),
    "rank": (
        {"image": np.zeros(3, np.float32)},
        [],
        "input 'image' has rank 1 (shape [3]), expected rank 2 (shape '[N, 2]')",
    ),
    "fixed dimension": (
        {"image": np.zeros((3, 4), np.float32)},
        [],
        "input 'image' has size 4 in dimension 1 (shape [3, 4]), expected 2 (shape '[N, 2]')",
    ),
    "strings of nothing": (
        {"names": [None]},
        [],
        "'names' is an element of type NoneType, expected tensor(string)",
    ),
}


@pytest.mark.parametrize(("changes", "left_out", "message"), WRONG.values(), ids=WRONG)
def test_wrong_feed_is_refused_with_what_would_be_right(
    changes: dict[str, Any], left_out: list[str], message: str
) -> None:
    feeds = {name: value for name, value in (GOOD | changes).items() if name not in left_out}
    with session_of(TEXT) as session, pytest.raises(InvalidFeedError) as caught:
        session.run(None, feeds)
    assert message in str(caught.value)
    assert (caught.value.code, caught.value.exit_code) == (
        StatusCode.INVALID_ARGUMENT,
        ExitCode.USAGE,
    )


RIGHT = {
    "strided": {"image": np.zeros((2, 3), np.float32).T},
    "big endian": {"image": np.zeros((3, 2), ">f4")},
    "read-only": {"image": np.broadcast_to(np.float32(1), (3, 2))},
    "byte strings": {"names": np.array([b"a", b"b"])},
    "numpy strings": {"names": np.array(["a", "b"])},
    "empty": {"image": np.zeros((0, 2), np.float32)},
}


@pytest.mark.parametrize("changes", RIGHT.values(), ids=RIGHT)
def test_feeds_in_unusual_forms_are_understood(changes: dict[str, Any]) -> None:
    feeds = GOOD | changes
    with session_of(TEXT) as session:
        y, _, names = session.run(None, feeds)
    np.testing.assert_array_equal(y, -np.asarray(feeds["image"], np.float32))
    assert names.tolist() == ["a", "b"]


def test_views_of_bytes_that_came_are_taken_as_quickly_as_other_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received = np.frombuffer(bytes(24), np.float32).reshape(3, 2)
    with session_of("g (float[M, 2] x) => (float[M, 2] y) { y = Neg(x) }") as session:
        feed_check = FeedCheck(session.get_inputs(), ())
    monkeypatch.setattr(feeds, "check_feeds", lambda *_: pytest.fail("looked at for long"))

    (taken,) = feed_check({"x": received}, lambda: None)

    assert taken is received


def test_numpy_scalar_feeds_a_tensor_without_dimensions() -> None:
    with session_of("g (float x) => (float y) { y = Neg(x) }") as session:
        assert session.run(None, {"x": np.float32(2)})[0] == -2


def test_name_with_control_characters_is_escaped() -> None:
    with session_of(TEXT) as session, pytest.raises(InvalidFeedError) as caught:
        session.run(None, GOOD | {"\x1b[31mred": 1})
    assert "\x1b" not in str(caught.value)


def test_an_empty_feed_of_a_model_with_texts_names_what_is_missing() -> None:
    with (
        session_of("g (string[M] names) => (string[M] n) { n = Identity(names) }") as session,
        pytest.raises(InvalidFeedError) as caught,
    ):
        session.run(None, {})
    assert "Required inputs (['names']) are missing from input feed ([])." in str(caught.value)


def test_an_empty_feed_leaves_texts_their_default() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 23]> g (string[2] names) => (string[2] n)'
        ' <string[2] names = {"a", "b"}> { n = Identity(names) }'
    )
    with InferenceSession(proto.SerializeToString(), providers=["cpu"]) as session:
        assert session.run(None, {})[0].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("fed", "message"),
    [
        (
            np.array([b"a", b"b\xffc"]),
            "element [1] of input 'n' is no text in UTF-8: the byte 0xff at position 1 of b'b",
        ),
        (
            np.array([[b"a", b"b"], [b"\x80", b"\x81"]]),
            "element [1, 0] of input 'n' is no text in UTF-8",
        ),
        (
            np.array([b"\xc3"] * 2).astype("V1"),
            "element [0] of input 'n' is no text in UTF-8: the byte 0xc3",
        ),
        (
            np.array(b"\xf0" + 99 * b"a"),
            "input 'n' is no text in UTF-8: the byte 0xf0 at position 0 of b'",
        ),
        (
            np.array(["ok"] * 10_001 + [b"\xe4"], "S"),
            "element [10001] of input 'n' is no text in UTF-8: the byte 0xe4",
        ),
    ],
    ids=["one dimension", "two dimensions", "of one length", "no dimension", "behind many"],
)
def test_bytes_that_are_no_text_are_told_with_where_they_stand(
    fed: np.ndarray[Any, Any], message: str
) -> None:
    declared = NodeArg("n", "tensor(string)", [], TensorType(ElementType.STRING, None))
    with pytest.raises(InvalidFeedError, match=re.escape(message)) as caught:
        check_feeds({"n": fed}, [declared], ())

    assert caught.value.expected == "text in UTF-8"
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("small", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_small_floats_are_no_texts(small: type) -> None:
    """numpy calls them of kind V, as it does bytes of one length."""
    declared = NodeArg("n", "tensor(string)", [], TensorType(ElementType.STRING, None))
    with pytest.raises(InvalidFeedError, match=f"numpy {np.dtype(small).name}"):
        check_feeds({"n": np.array([0.46875, 200]).astype(small)}, [declared], ())


def test_a_run_ends_while_millions_of_texts_are_checked() -> None:
    asked: list[int] = []

    def check() -> None:
        asked.append(0)
        if len(asked) == 3:
            raise LimitExceededError("the time is up", limit="time")

    with session_of("g (string[M] names) => (string[M] n) { n = Identity(names) }") as session:
        feed_check = FeedCheck(session.get_inputs(), ())
        with pytest.raises(LimitExceededError, match="the time is up"):
            feed_check({"names": np.full(1_000_000, "a", object)}, check)

    assert len(asked) == 3
