"""Tensors of requests against what a model takes: right ones become arrays, others typed errors."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import InvalidFeedError, ModelError, RequestTooLargeError
from ortpkg.scale.serving import protocol_tensors
from ortpkg.scale.serving.protocol_tensors import (
    DTYPES,
    MOST_TEXTS,
    RequestTensor,
    TensorSpec,
    raw_parts,
    read_tensor,
    spec_of,
)


@pytest.fixture(autouse=True, params=["one block", "many blocks"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has all that is tested here hold for tensors of one block and of many."""
    if request.param == "many blocks":
        monkeypatch.setattr(protocol_tensors, "_BLOCK", 2)


def spec(datatype: str = "FP32", shape: tuple[int, ...] | None = (-1, 3)) -> TensorSpec:
    return TensorSpec(name="x", datatype=datatype, shape=shape)


def given(data: Any, shape: Any = (2, 3), datatype: str = "FP32") -> RequestTensor:
    return RequestTensor(name="x", datatype=datatype, shape=shape, data=data)


@pytest.mark.parametrize("datatype", sorted(DTYPES.keys() - {"BYTES"}))
def test_binary_data_come_back_as_they_were(datatype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(DTYPES[datatype])
    tensor = given(b"".join(raw_parts(array, datatype)), datatype=datatype)
    read = read_tensor(tensor, spec(datatype))
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def test_texts_come_back_as_they_were_in_binary_and_as_values() -> None:
    texts = ["", "a", "ü\N{SNOWMAN}", "b" * 300, "\0", " "]
    array = np.array(texts, object).reshape(2, 3)
    for data in (b"".join(raw_parts(array, "BYTES")), texts, [texts[:3], texts[3:]]):
        assert read_tensor(given(data, datatype="BYTES"), spec("BYTES")).tolist() == array.tolist()


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        ("BOOL", [True, False, True, True, False, False]),
        ("UINT8", [0, 255, 1, 2, 3, 4]),
        ("INT64", [-(2**63), 2**63 - 1, 0, 0, 0, 0]),
        ("UINT64", [2**64 - 1, 0, 0, 0, 0, 0]),
        ("FP32", [0.5, 1, -1, 0, 0, 3e38]),
        ("FP64", [0.1, 1e308, -1, 0, 0, 0]),
    ],
)
def test_values_may_be_flat_or_nested(datatype: str, values: list[Any]) -> None:
    for data in (values, [values[:3], values[3:]]):
        read = read_tensor(given(data, datatype=datatype), spec(datatype))
        np.testing.assert_array_equal(read, np.array(values, DTYPES[datatype]).reshape(2, 3))


def test_a_scalar_has_one_value_and_an_unknown_rank_takes_any() -> None:
    assert read_tensor(given([4.0], ()), spec(shape=())).tolist() == 4.0
    assert read_tensor(given(b"\0" * 8, (2, 1, 1)), spec(shape=None)).shape == (2, 1, 1)
    assert read_tensor(given(b"", (0, 3)), spec()).shape == (0, 3)
    assert read_tensor(given([], (0, 3)), spec()).shape == (0, 3)


_MISFITS: list[tuple[RequestTensor, str]] = [
    (given(b"\0" * 24, datatype="FP64"), "its datatype must be FP32, not 'FP64'"),
    (given(b"\0" * 24, datatype="nonsense"), "its datatype must be FP32, not 'nonsense'"),
    (given(b"\0" * 24, (6,)), r"its shape must be \[-1, 3\], not '\[6\]'"),
    (given(b"\0" * 24, (3, 2)), r"its shape must be \[-1, 3\], not '\[3, 2\]'"),
    (given(b"\0" * 24, (-2, 3)), "a list of whole numbers from 0 on"),
    (given(b"\0" * 24, (2.0, 3)), "a list of whole numbers from 0 on"),
    (given(b"\0" * 24, (True, 3)), "a list of whole numbers from 0 on"),
    (given(b"\0" * 24, ("2", 3)), "a list of whole numbers from 0 on"),
    (given(b"\0" * 24, [1] * 10**6), "at most 64 dimensions, not 1000000"),
    (given(b"\0" * 24, (2**61, 3)), "one that memory can have"),
    (given(b"", (0, 2**62, 2**62)), "one that memory can have"),
    (given(b"\0" * 24, (10**9, 3)), "12000000000 bytes for shape .* not 24 bytes"),
    (given(b"\0" * 23), "24 bytes for shape .* not 23 bytes"),
    (given([0.0] * 5), "6 values for .* not 5 values"),
    (given([[0.0] * 3, [0.0] * 2]), r"lists nested as \[2, 3\], not others in dimension 1"),
    (given([[0.0] * 3]), "lists nested as .* not others in dimension 0"),
    (given([[[0.0] * 3] * 2]), "lists nested as .* not others in dimension 0"),
    (given([[0.0] * 3, [0.0, 0.0, [1]]]), "FP32 values, not list among them"),
    (given([0.0, 1.0, "2", 3.0, 4.0, 5.0]), "FP32 values, not str among them"),
    (given([0.0, 1.0, None, True, 4.0, 5.0]), "FP32 values, not NoneType, bool among them"),
    (given([1e39] * 6), "values of FP32, not one out of its range"),
    (given([10**400] * 6), "values of FP32, not one out of its range"),
]


@pytest.mark.parametrize(("tensor", "message"), _MISFITS)
def test_what_does_not_fit_is_told(tensor: RequestTensor, message: str) -> None:
    many = tensor.shape if len(tensor.shape) in (3, 10**6) else None
    with pytest.raises(InvalidFeedError, match=message) as refused:
        read_tensor(tensor, spec(shape=None) if many else spec())
    assert refused.value.name == "x"


@pytest.mark.parametrize("values", [[1.0] * 6, [True] * 6, ["1"] * 6, [300] * 6, [-1] * 6])
def test_integers_are_whole_and_in_their_range(values: list[Any]) -> None:
    with pytest.raises(InvalidFeedError):
        read_tensor(given(values, datatype="UINT8"), spec("UINT8"))


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_halves_come_in_binary_alone(datatype: str) -> None:
    with pytest.raises(InvalidFeedError, match="its data must be binary data"):
        read_tensor(given([0.0] * 6, datatype=datatype), spec(datatype))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack("<I", 2**32 - 1) + b"abc", "at most 3 bytes of text 0, not 4294967295"),
        (struct.pack("<I", 1) + b"a" + b"\0", "1 texts and 1 bytes more"),
        (struct.pack("<I", 1) + b"a" + struct.pack("<I", 0), "1 texts, not 1 texts and 4 bytes"),
        (struct.pack("<I", 1) + b"\xff", "text in UTF-8, not a byte 0xff"),
        (b"", "1 texts with their lengths, not 0 bytes"),
    ],
)
def test_texts_whose_lengths_lie_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidFeedError, match=message):
        read_tensor(given(data, (1,), "BYTES"), spec("BYTES", (-1,)))


def test_nothing_is_allocated_for_texts_that_did_not_come() -> None:
    with pytest.raises(InvalidFeedError, match=f"{MOST_TEXTS} texts with their lengths"):
        read_tensor(given(b"\0" * 4, (MOST_TEXTS,), "BYTES"), spec("BYTES", (-1,)))
    with pytest.raises(RequestTooLargeError, match=f"more than the {MOST_TEXTS} that it may have"):
        read_tensor(given(b"\0" * 4, (10**12,), "BYTES"), spec("BYTES", (-1,)))


@pytest.mark.parametrize("data", [b"\0" * 24, [""] * 6, [[""] * 3] * 2])
def test_texts_are_bounded_in_binary_and_as_values(data: Any) -> None:
    tensor = given(data, datatype="BYTES")
    assert read_tensor(tensor, spec("BYTES"), most_texts=6).tolist() == [[""] * 3] * 2
    with pytest.raises(RequestTooLargeError, match=r"input 'x' .*: send them in several requests"):
        read_tensor(tensor, spec("BYTES"), most_texts=5)


@pytest.mark.parametrize("kind", ["seq(tensor(float))", "tensor(float8e4m3fn)", "tensor(int4)", ""])
def test_what_has_no_datatype_cannot_be_served(kind: str) -> None:
    with pytest.raises(ModelError, match="no datatype"):
        spec_of(SimpleNamespace(name="x", type=kind, shape=[1]))


def test_an_unknown_rank_is_told_apart_from_a_scalar() -> None:
    unknown = spec_of(SimpleNamespace(name="x", type="tensor(float)", shape=None))
    scalar = spec_of(SimpleNamespace(name="x", type="tensor(float)", shape=()))
    assert (unknown.shape, unknown.stated_shape) == (None, [-1])
    assert (scalar.shape, scalar.stated_shape) == ((), [])


def longest_share(work: Callable[[], object]) -> float:
    """Return the longest time that another thread waits during ``work``, as a share of all."""
    is_over = threading.Event()
    times = [time.monotonic()]

    def tick() -> None:
        while not is_over.wait(0.001):
            times.append(time.monotonic())

    other = threading.Thread(target=tick)
    other.start()
    start = time.monotonic()
    work()
    end = time.monotonic()
    is_over.set()
    other.join()
    during = [start, *(tick for tick in times if start < tick < end), end]
    return max(after - before for before, after in pairwise(during)) / (end - start)


def test_other_threads_go_on_while_many_texts_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # blocks are as large as they are
    array = np.full(1_000_000, "ab", object)
    shares = [longest_share(lambda: raw_parts(array, "BYTES")) for _ in range(5)]
    assert min(shares) < 0.3, shares  # any of them may be of a busy machine
