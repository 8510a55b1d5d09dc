"""Containers of onnxruntime's OpenVINO provider: read within limits, written for it."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.errors import EpContextError, StatusCode
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.providers.bson import read_document
from ortpkg.runtime.providers.openvino_container import (
    OPENVINO_FORM,
    OpenVinoContainer,
    container_chunks,
)
from tests.providers.openvino_containers import BLOB_OFFSET, container, cpu_blob

BLOBS = {"model_ctx_OpenVINO-EP-subgraph_1_0": cpu_blob(b"a" * 70_000), "p1": b"another device's"}
THEIRS = container(BLOBS)
DESCRIPTOR = ContextDescriptor(
    ep=OPENVINO_EP, sdk_version="2026.4.1-1-a", device="CPU", architecture="zen4"
)
ENTRIES = [
    ContextEntry(
        name="p0",
        descriptor=DESCRIPTOR,
        parts={"blob": cpu_blob(b"a" * 70_000), "signature": b"{}"},
    ),
    ContextEntry(
        name="p1",
        descriptor=replace(DESCRIPTOR, device="GPU"),
        parts={"blob": b"b" * 100},
        arity=(2, 1),
    ),
]
OURS = b"".join(container_chunks(ENTRIES))


def read(data: bytes) -> OpenVinoContainer:
    return OpenVinoContainer(memoryview(data), "the container")


def refusal(data: bytes) -> str:
    with pytest.raises(EpContextError) as caught:
        read(data)
    assert caught.value.code is StatusCode.INVALID_GRAPH
    return str(caught.value)


def test_reads_what_the_provider_wrote_with_what_the_blobs_say_of_themselves() -> None:
    found = read(THEIRS)
    assert found.names == tuple(sorted(BLOBS))
    first, second = (found.entry(name) for name in BLOBS)
    assert [bytes(each.parts["blob"]) for each in (first, second)] == list(BLOBS.values())
    assert (first.descriptor.sdk_version, first.descriptor.device) == ("2026.4.1", "CPU")
    assert (second.descriptor.sdk_version, second.descriptor.device) == ("", "")
    assert first.is_foreign
    assert second.is_foreign


def test_a_bare_blob_of_an_older_release_is_one_context() -> None:
    found = OPENVINO_FORM.read_bare(memoryview(b"old blob"), "the file", "p")
    assert found.names == ("p",)
    assert bytes(found.entry("p").parts["blob"]) == b"old blob"


def test_what_is_written_is_laid_out_as_the_provider_lays_it_out() -> None:
    magic, version, header, start, length = struct.unpack("<8s4Q", OURS[:40])
    assert (magic, version, header, start) == (b"OVEP_BIN", 1, 40, 40)
    index: Any = read_document(OURS[start : start + length])
    assert index["version"] == "1.1.0"
    places = index["blob_metadata_map"]
    for entry in ENTRIES:
        offset, nbytes = places[entry.name]["data_offset"], places[entry.name]["size"]
        assert offset % BLOB_OFFSET == 0
        assert OURS[offset : offset + nbytes] == entry.parts["blob"]
    assert len(OURS) % BLOB_OFFSET == 0


def test_what_ortpkg_wrote_has_its_whole_descriptor_again() -> None:
    found = read(OURS)
    for entry in ENTRIES:
        again = found.entry(entry.name)
        assert (again.descriptor, again.arity, again.is_foreign) == (
            entry.descriptor,
            entry.arity,
            False,
        )
        assert bytes(again.parts["blob"]) == entry.parts["blob"]


def test_a_blob_of_ours_that_changed_is_told() -> None:
    damaged = OURS.replace(b"b" * 100, b"c" + b"b" * 99)
    with pytest.raises(EpContextError, match=r"'p1' is not what was written \(SHA-256 differs\)"):
        read(damaged).entry("p1")


def test_a_partition_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(EpContextError, match=r"has no blob of partition 'p2'; it has .*'p1'"):
        read(THEIRS).entry("p2")


_MANY = {"p": {"data_offset": 40, "size": 0}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"OVEP_BIN", "it has 8 bytes, fewer than its header"),
        (container(BLOBS, magic=b"OVEP_BIM"), "it begins with"),
        (container(BLOBS, version_of_file=2), "version 2"),
        (container(BLOBS, header_nbytes=48), "a header of 48 bytes"),
        (container(BLOBS, start=1 << 63), "its index would lie at bytes"),
        (container(BLOBS, start=8), "its index would lie at bytes 8"),
        (container(BLOBS, length=1 << 40), "its index would have 1099511627776 bytes, of at most"),
        (container(BLOBS, length=3), "no BSON that is read here: at byte 0"),
        (container(BLOBS, version="2.0.0"), "its index has version '2.0.0'; read is 1.x"),
        (container(BLOBS, version=None), "its index has version 'None'"),
        (container(BLOBS, blob_metadata_map=None), "no document of at most"),
        (container(BLOBS, blob_metadata_map="x"), "no document of at most"),
        (
            container(BLOBS, blob_metadata_map={"": {"data_offset": 40, "size": 1}}),
            "a name of 0 characters",
        ),
        (container(BLOBS, blob_metadata_map={"p": {"data_offset": 40}}), "the place of blob 'p'"),
        (
            container(BLOBS, blob_metadata_map={"p": {"data_offset": 40, "size": -1}}),
            "the place of blob 'p'",
        ),
        (
            container(BLOBS, blob_metadata_map={"p": {"data_offset": 40, "size": True}}),
            "the place of blob 'p'",
        ),
        (
            container(BLOBS, blob_metadata_map={"p": {"data_offset": 0, "size": 9}}),
            "the place of blob 'p'",
        ),
        (
            container(BLOBS, blob_metadata_map={"p": {"data_offset": 40, "size": 1 << 60}}),
            "truncated",
        ),
        (
            container(BLOBS, weights_metadata_map={"w": {"location": "w.bin"}}),
            "take weights from other files",
        ),
        (
            container(BLOBS, blob_metadata_map=_MANY, ortpkg={"p": {"sha256": "x"}}),
            "lacks its SHA-256",
        ),
        (
            container(
                BLOBS, blob_metadata_map=_MANY, ortpkg={"p": {"sha256": "x", "descriptor": "["}}
            ),
            "is damaged",
        ),
        (
            container(
                BLOBS, blob_metadata_map=_MANY, ortpkg={"p": {"sha256": "x", "descriptor": "[]"}}
            ),
            "no JSON object",
        ),
    ],
)
def test_refuses_what_is_damaged_or_foreign(data: bytes, message: str) -> None:
    assert message in refusal(data)


def test_empty_weights_and_keys_that_nobody_knows_are_no_reason_to_refuse() -> None:
    assert read(container(BLOBS, weights_metadata_map={}, more={"flag": True})).names


def test_the_index_says_nothing_of_weights_that_lie_elsewhere_when_a_stranger_notes_them() -> None:
    noted = {"p": {"sha256": "", "descriptor": '{"ep": "x", "weights_source": "sha256:ab"}'}}
    found = read(container(BLOBS, blob_metadata_map=_MANY, ortpkg=noted)).entry("p")
    assert found.descriptor.weights_source == ""


_INDEX_NBYTES = struct.unpack("<Q", OURS[32:40])[0]


@given(
    st.lists(
        st.tuples(st.integers(0, 40 + _INDEX_NBYTES), st.integers(0, 255)), min_size=1, max_size=4
    )
)
def test_no_damage_is_anything_but_an_error_or_a_blob_inside(
    changes: list[tuple[int, int]],
) -> None:
    damaged = bytearray(OURS)
    for place, value in changes:
        damaged[place] = value
    with contextlib.suppress(EpContextError):
        found = read(bytes(damaged))
        for name in found.names:
            with contextlib.suppress(EpContextError):
                assert memoryview(found.entry(name).parts["blob"]).nbytes <= len(OURS)


@given(st.binary(max_size=300))
def test_any_bytes_behind_the_magic_are_a_container_or_an_error(data: bytes) -> None:
    with contextlib.suppress(EpContextError):
        read(b"OVEP_BIN" + data)


def test_a_context_without_a_whole_blob_is_not_written_for_onnxruntime() -> None:
    entry = ContextEntry(name="p", descriptor=DESCRIPTOR, parts={"weights": b"", "compiled": b""})
    with pytest.raises(EpContextError, match="has its weights in common with others"):
        list(container_chunks([entry]))
