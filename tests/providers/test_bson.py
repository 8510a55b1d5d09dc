"""BSON as containers have it: what goes in comes out; anything else is an error that says where."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.runtime.providers.bson import MOST_DEPTH, BsonError, read_document, write_document
from tests.providers.openvino_containers import bson

DOCUMENT = {
    "flag": True,
    "map": {
        "p0": {"data_offset": 65536, "size": 3},
        "p1": {"data_offset": 1 << 40, "size": (1 << 64) - 1},
    },
    "version": "1.1.0",
}
DATA = bson(DOCUMENT)
_KEYS = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=10,
)


def test_numbers_of_every_length_texts_and_documents_are_read() -> None:
    assert read_document(DATA) == DOCUMENT


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_what_is_written_is_read_again(document: dict[str, Any]) -> None:
    assert read_document(write_document(document)) == document


@given(
    st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), max_size=4),
    st.integers(0, len(DATA)),
)
def test_damage_is_an_error_of_its_own_or_another_document(
    changes: list[tuple[int, int]], nbytes: int
) -> None:
    damaged = bytearray(DATA)
    for place, value in changes:
        damaged[place] = value
    for data in (bytes(damaged), bytes(damaged[:nbytes])):
        with contextlib.suppress(BsonError):
            read_document(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_an_error(data: bytes) -> None:
    with contextlib.suppress(BsonError):
        read_document(data)


def _nested(levels: int) -> dict[str, Any]:
    return {} if levels == 0 else {"in": _nested(levels - 1)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "at byte 0: it ends within the length of a document"),
        (b"\x05\0\0\0\x01", "a document does not end where its length says"),
        (
            DATA[:-1],
            f"at byte 0: a document of {len(DATA)} bytes, of {len(DATA) - 1} that are left",
        ),
        (DATA + b"\0", f"after the document, which ends at byte {len(DATA)}, there are 1 more"),
        (b"\x04\0\0\0\0", "a document of 4 bytes"),
        (b"\xff\xff\xff\xff\0", "a document of -1 bytes"),
        (bson({"list": [1]}), "values of type 0x04 are not read"),
        (b"\x0a\0\0\0\x10a\0\x01\0\0", "at byte 7: it ends within a number"),
        (b"\x09\0\0\0\x08a\0\x02\0", "a flag is 0 or 1, not 2"),
        (b"\x0d\0\0\0\x02a\0\0\0\0\0\0\0", "a text of 0 bytes"),
        (b"\x0e\0\0\0\x02a\0\x02\0\0\0xx\0", "a text does not end with a NUL"),
        (b"\x0e\0\0\0\x02a\0\x02\0\0\0\xff\0\0", "a text is not UTF-8"),
        (b"\x0e\0\0\0\x02a\0\x99\0\0\0x\0\0", "it ends within a text"),
        (b"\x08\0\0\0\x0aab\0", "a key does not end with a NUL"),
        (b"\x0b\0\0\0\x0aa\0\x0aa\0\0", "the key 'a' comes twice"),
        (bson(_nested(MOST_DEPTH)), f"more than {MOST_DEPTH} documents inside each other"),
    ],
)
def test_says_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(BsonError) as caught:
        read_document(data)
    assert message in str(caught.value)


def test_a_document_of_very_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortpkg.runtime.providers.bson.MOST_VALUES", 10)
    with pytest.raises(BsonError, match="more than 10 values"):
        read_document(bson({str(number): 1 for number in range(11)}))


def test_no_key_has_a_nul_and_no_number_more_than_64_bits() -> None:
    with pytest.raises(ValueError, match="NUL"):
        write_document({"a\0b": 1})
    with pytest.raises(OverflowError):
        write_document({"a": 1 << 63})
