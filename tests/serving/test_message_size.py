"""What a message of gRPC would take, told from its bytes."""

from __future__ import annotations

import pytest

from ortpkg.foundations.errors import InvalidRequestError, RequestTooLargeError
from ortpkg.scale.serving.message_size import MOST_FIELDS, verify_message_size

MIB = 1 << 20


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def held(number: int, payload: bytes) -> bytes:
    """A field that holds bytes."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def verify(message: bytes, most_nbytes: int = 64 * MIB) -> None:
    verify_message_size(message, most_nbytes, is_inference=True)


def tensor(*fields: bytes) -> bytes:
    return held(5, b"".join(fields))


FLOODS = {
    "tensors": held(5, b""),
    "outputs": held(6, b""),
    "parameters": held(4, b""),
    "raw contents": held(7, b""),
    "fields that nobody knows": held(99, b""),
    "numbers one by one": b"\x20\x01",
}


@pytest.mark.parametrize("field", FLOODS.values(), ids=FLOODS)
def test_a_message_of_many_fields_is_refused(field: bytes) -> None:
    verify(field * MOST_FIELDS)
    with pytest.raises(RequestTooLargeError, match="131072 fields"):
        verify(field * (MOST_FIELDS + 1))


@pytest.mark.parametrize(
    "deep",
    [
        tensor(held(5, held(8, b"") * (MOST_FIELDS + 1))),
        tensor(held(4, held(2, b"") * (MOST_FIELDS + 1))),
        tensor(held(4, held(2, b"\x08\x01" * (MOST_FIELDS + 1)))),
        held(6, held(2, b"") * (MOST_FIELDS + 1)),
    ],
    ids=["texts", "parameters", "values of a parameter", "parameters of an output"],
)
def test_what_is_deep_in_it_counts(deep: bytes) -> None:
    with pytest.raises(RequestTooLargeError, match="fields"):
        verify(deep)


def test_packed_numbers_count_as_large_as_they_become() -> None:
    numbers = tensor(held(1, b"x"), held(5, held(3, b"\x01" * MIB)))
    verify(numbers, 8 * MIB)
    with pytest.raises(RequestTooLargeError, match="the numbers of the request"):
        verify(numbers, 8 * MIB - 1)
    with pytest.raises(RequestTooLargeError, match="the numbers of the request"):
        verify(tensor(held(3, b"\x01" * MIB)), 8 * MIB - 1)


def test_large_tensors_in_bytes_are_no_matter() -> None:
    verify(tensor(held(5, held(6, bytes(4 * MIB)))) + held(7, bytes(60 * MIB)), 64 * MIB)


@pytest.mark.parametrize(
    "end",
    [b"\x2a\xff\xff\xff\xff\x0f", b"\x2a", b"\xff" * 11, b"\x2b", b"\x07"],
    ids=["a length that lies", "no length", "a long number", "a group", "an unknown kind"],
)
def test_what_is_no_message_is_told_so(end: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="no such request"):
        verify(held(7, bytes(MIB)) + end)


def test_only_requests_for_inference_are_large() -> None:
    with pytest.raises(RequestTooLargeError, match="no tensors"):
        verify_message_size(bytes(MIB), 64 * MIB, is_inference=False)
