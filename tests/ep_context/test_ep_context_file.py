"""Files of compiled contexts: what goes in comes out, equal bytes once.

Any damage is an error that says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.foundations.errors import EpContextError, StatusCode
from ortpkg.foundations.storage.context_file_mark import MAGIC
from ortpkg.runtime.ep_context.context_file_writing import context_chunks, write_context_file
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    descriptor_from_json,
    find_mismatch,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, ContextFile, open_context_file

EP = "OpenVINOExecutionProvider"
DESCRIPTOR = ContextDescriptor(
    ep=EP,
    sdk_version="2026.4",
    device="CPU",
    architecture="zen4",
    weights_digest="ab",
    options={"precision": "FP32"},
)
ENTRIES = [
    ContextEntry(
        name="p0", descriptor=DESCRIPTOR, parts={"graph": b"g0" * 3000, "weight": b"w" * 10_000}
    ),
    ContextEntry(
        name="p1",
        descriptor=replace(DESCRIPTOR, device="GPU"),
        parts={"graph": b"", "weight": b"w" * 10_000},
    ),
]
DATA = b"".join(context_chunks(EP, ENTRIES))


def read(data: bytes) -> ContextFile:
    return ContextFile(memoryview(data), ep_name=EP, where="the context")


@pytest.mark.requirement("E03", "E25")
def test_one_file_holds_any_number_of_partitions(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "model_openvino.bin"
    write_context_file(path, EP, ENTRIES)
    found = open_context_file(path, ep_name=EP)
    assert (found.ep, found.names) == (EP, ("p0", "p1"))
    for entry in ENTRIES:
        again = found.entry(entry.name)
        assert again.descriptor == entry.descriptor
        assert {name: bytes(part) for name, part in again.parts.items()} == dict(entry.parts)


@pytest.mark.requirement("E43")
def test_equal_parts_lie_at_one_offset_that_can_be_mapped() -> None:
    index = json.loads(DATA[56 : 56 + int.from_bytes(DATA[16:24], "little")])
    weights = [entry["parts"]["weight"] for entry in index["entries"]]
    assert weights[0] == weights[1]
    assert all(blob["offset"] % 4096 == 0 for blob in index["blobs"])
    assert DATA.count(b"w" * 10_000) == 1


def test_same_contexts_give_the_same_bytes() -> None:
    assert b"".join(context_chunks(EP, ENTRIES)) == DATA


@pytest.mark.requirement("E40")
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_told_or_does_not_matter(place: int, change: int) -> None:
    damaged = bytearray(DATA)
    damaged[place] ^= change
    with contextlib.suppress(EpContextError):
        found = read(bytes(damaged))
        entries = [found.entry(entry.name) for entry in ENTRIES]
        assert [entry.descriptor for entry in entries] == [entry.descriptor for entry in ENTRIES]
        parts = [{name: bytes(part) for name, part in entry.parts.items()} for entry in entries]
        assert parts == [dict(entry.parts) for entry in ENTRIES]


def test_every_error_is_an_invalid_graph() -> None:
    with pytest.raises(EpContextError) as caught:
        read(b"nothing")
    assert caught.value.code is StatusCode.INVALID_GRAPH


@pytest.mark.requirement("E40")
@given(st.integers(0, len(DATA) - 1))
def test_a_truncated_file_is_told(length: int) -> None:
    with pytest.raises(EpContextError):
        read(DATA[:length])


def framed(text: bytes) -> bytes:
    return MAGIC + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest() + text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a context that ortpkg wrote"),
        (b"\x7fELF" + bytes(100), "not a context that ortpkg wrote"),
        (MAGIC + (1 << 40).to_bytes(8, "little"), "its index would have"),
        (MAGIC + (100).to_bytes(8, "little") + bytes(40), "within its index"),
        (
            MAGIC + (2).to_bytes(8, "little") + bytes(32) + b"[]",
            "its index is not what was written",
        ),
        (framed(b"[]"), "its index is not what it should be"),
        (framed(b"[["), "its index is no JSON"),
    ],
)
def test_what_is_no_context_is_told(data: bytes, message: str) -> None:
    with pytest.raises(EpContextError, match=message):
        read(data)


@pytest.mark.parametrize(
    "index",
    [
        {"ep": EP, "blobs": [{"offset": 0, "nbytes": 1 << 40, "sha256": "0" * 64}], "entries": []},
        {"ep": EP, "blobs": [{"offset": -1, "nbytes": 1, "sha256": "0" * 64}], "entries": []},
        {"ep": EP, "blobs": [{"offset": 0, "nbytes": 1, "sha256": 5}], "entries": []},
        {
            "ep": EP,
            "blobs": [],
            "entries": [{"name": "p", "descriptor": DESCRIPTOR.to_json(), "parts": {"g": 0}}],
        },
        {"ep": EP, "blobs": [], "entries": [{"name": "p", "descriptor": {"ep": 1}, "parts": {}}]},
        {
            "ep": EP,
            "blobs": [],
            "entries": [{"name": "p", "descriptor": DESCRIPTOR.to_json(), "parts": {}}] * 2,
        },
        {"ep": 5, "blobs": [], "entries": []},
        {"blobs": [], "entries": []},
        {"ep": EP, "blobs": 5, "entries": []},
    ],
)
def test_an_index_that_lies_is_refused_before_anything_is_touched(index: object) -> None:
    with pytest.raises(EpContextError, match="its index is not what it should be"):
        read(framed(json.dumps(index).encode()))


def test_a_partition_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(
        EpContextError, match=r"no context of partition 'p9'; it has 'p0', 'p1'"
    ) as caught:
        read(DATA).entry("p9")
    assert caught.value.partition_name == "p9"


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(EpContextError, match="cannot be read"):
        open_context_file(tmp_path / "none.bin", ep_name=EP)


@pytest.mark.parametrize("name", ["ep", "sdk_version", "driver_version", "device", "architecture"])
def test_each_field_that_matters_is_told_with_both_values(name: str) -> None:
    changes: dict[str, Any] = {name: "other"}
    mismatch = find_mismatch(DESCRIPTOR, replace(DESCRIPTOR, **changes))
    assert mismatch is not None
    assert mismatch.field == name
    assert "here it is 'other'" in str(mismatch)


def test_options_are_compared_and_digests_of_the_source_only_when_asked() -> None:
    changed = find_mismatch(DESCRIPTOR, replace(DESCRIPTOR, options={"precision": "FP16"}))
    assert str(changed) == "provider options were 'precision=FP32', here they are 'precision=FP16'"
    other_weights = replace(DESCRIPTOR, weights_digest="cd")
    assert find_mismatch(DESCRIPTOR, other_weights) is None
    assert find_mismatch(DESCRIPTOR, other_weights, names=("weights_digest",)) is not None


def test_descriptor_survives_json_and_unknown_keys() -> None:
    assert descriptor_from_json({**DESCRIPTOR.to_json(), "later": 1}) == DESCRIPTOR
    cases: list[object] = [[], {"ep": "x" * 5000}, {"options": {"a": 1}}, {"options": 5}]
    for wrong in cases:
        with pytest.raises(ValueError, match="descriptor"):
            descriptor_from_json(wrong)


def test_a_blob_that_partitions_share_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    file = read(DATA)
    lengths = []
    sha256 = hashlib.sha256

    def spy(data: Any = b"") -> Any:
        lengths.append(memoryview(data).nbytes)
        return sha256(data)

    monkeypatch.setattr(hashlib, "sha256", spy)
    for name in file.names:
        file.entry(name)
    assert lengths.count(10_000) == 1
