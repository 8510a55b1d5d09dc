"""The layer of documents: the same bytes everywhere, and nothing of a stranger's but plain files."""

from __future__ import annotations

import gzip
import io
import itertools
import tarfile
from collections.abc import Callable

import pytest

from ortpkg.distribution.registry import document_layer
from ortpkg.distribution.registry.document_layer import (
    is_document,
    pack_documents,
    unpack_documents,
)
from ortpkg.foundations.errors import ArtifactFormatError, PackageError

DOCUMENTS = {"manifest.json": b"{}", "models/m/metadata.json": b"[1]", "ä/" + "x" * 120: b""}


def unpacked(layer: bytes) -> dict[str, bytes]:
    return unpack_documents(io.BytesIO(layer), registry="oci://h/d", digest="sha256:1")


def test_documents_arrive_as_they_were() -> None:
    layer = pack_documents(DOCUMENTS)

    assert unpacked(layer) == DOCUMENTS
    assert pack_documents(dict(reversed(DOCUMENTS.items()))) == layer


def test_others_read_the_layer() -> None:
    layer = pack_documents(DOCUMENTS)

    with tarfile.open(fileobj=io.BytesIO(layer), mode="r:gz") as archive:
        assert archive.getnames() == sorted(DOCUMENTS, key=str.encode)
    assert gzip.decompress(layer) == document_layer.tar_of(DOCUMENTS)


@pytest.mark.parametrize(
    ("path", "nbytes", "expected"),
    [
        ("manifest.json", 1 << 30, True),
        ("digests.json", 1 << 30, True),
        ("models/m/metadata.json", 1 << 30, True),
        ("samples/samples.json", 1 << 30, True),
        ("models/m/v/tokenizer.json", 1 << 20, False),
        ("models/m/v/config.json", 1000, True),
        ("models/m/v/model.onnx", 10, False),
    ],
)
def test_what_is_a_document(path: str, nbytes: int, expected: bool) -> None:
    assert is_document(path, nbytes) is expected


def archive_of(*entries: tuple[str, Callable[[tarfile.TarInfo], None]]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, change in entries:
            entry = tarfile.TarInfo(name)
            change(entry)
            archive.addfile(entry, io.BytesIO(b"x" * entry.size))
    return target.getvalue()


def plain(_entry: tarfile.TarInfo) -> None: ...


def link(entry: tarfile.TarInfo) -> None:
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"


def with_a_hole(entry: tarfile.TarInfo) -> None:
    """512 bytes that say that they are a file of 1 TiB."""
    entry.size = 512
    said = {"size": str(1 << 40), "realsize": str(1 << 40), "map": "0,512", "name": entry.name}
    entry.pax_headers = {f"GNU.sparse.{key}": text for key, text in said.items()}


def with_long_header(entry: tarfile.TarInfo) -> None:
    """A header that is extended by more than any path needs."""
    entry.pax_headers = {"comment": "x" * 100_000}


@pytest.mark.parametrize(
    ("layer", "what"),
    [
        (b"", "gzip"),
        (b"no gzip at all", "gzip"),
        (gzip.compress(b"no archive at all" * 100), "gzip"),
        (pack_documents(DOCUMENTS)[:-200], "gzip"),
        (archive_of(("../manifest.json", plain)), "relative path"),
        (archive_of(("/etc/manifest.json", plain)), "relative path"),
        (archive_of(("a\\b.json", plain)), "relative path"),
        (archive_of(("con.json", plain)), "con.json"),
        (archive_of(("a.json", link)), "not a plain file"),
        (archive_of(("a.json", with_a_hole)), "not a plain file"),
        (archive_of(("a.json", with_long_header)), "extends the header"),
        (archive_of(("a.json", plain), ("A.json", plain)), "twice"),
    ],
    ids=itertools.count(),  # compressed bytes have the time in them
)
def test_a_layer_that_is_wrong_is_refused(layer: bytes, what: str) -> None:
    with pytest.raises(ArtifactFormatError, match=what) as raised:
        unpacked(layer)

    assert raised.value.layer == "sha256:1"


def test_what_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_layer, "MOST_NBYTES", 1 << 20)
    monkeypatch.setattr(document_layer, "MOST_DOCUMENTS", 10)

    def large(entry: tarfile.TarInfo) -> None:
        entry.size = 8 << 20

    with pytest.raises(ArtifactFormatError, match="more than 1 MiB"):
        unpacked(archive_of(("a.json", large)))
    with pytest.raises(ArtifactFormatError, match="more than 10 documents"):
        unpacked(archive_of(*((f"{number}.json", plain) for number in range(11))))
    with pytest.raises(PackageError, match="more than"):
        pack_documents({"a.json": bytes(2 << 20)})
