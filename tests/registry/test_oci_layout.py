"""A folder as a repository: what is written is read, and what is wrong in it is told."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.registry.repository import MANIFEST_MEDIA_TYPE, MOST_MANIFEST_NBYTES
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    ArtifactNotFoundError,
    LayerMismatchError,
    RegistryError,
)
from ortpkg.foundations.storage.hashing import hash_bytes


def descriptor_of(content: bytes) -> Descriptor:
    return Descriptor(
        media_type="application/x",
        digest=f"sha256:{hash_bytes(content).sha256}",
        nbytes=len(content),
    )


def write(layout: OciLayout, content: bytes) -> Descriptor:
    descriptor = descriptor_of(content)
    layout.write_blob(descriptor, lambda: io.BytesIO(content))
    return descriptor


def read(layout: OciLayout, descriptor: Descriptor, offset: int = 0) -> bytes:
    with layout.read_blob(descriptor, offset=offset) as chunks:
        return b"".join(chunks)


def manifest(layout: OciLayout, tag: str | None, **members: Any) -> Descriptor:
    content = json.dumps({"schemaVersion": 2, **members}).encode()
    return layout.write_manifest(content, MANIFEST_MEDIA_TYPE, tag=tag)


@pytest.fixture
def layout(tmp_path: Path) -> OciLayout:
    return OciLayout(tmp_path / "layout")


def test_what_is_written_is_read(layout: OciLayout) -> None:
    descriptor = write(layout, b"abc")

    assert layout.has_blob(descriptor.digest)
    assert read(layout, descriptor) == b"abc"
    assert read(layout, descriptor, offset=2) == b"c"
    with pytest.raises(ArtifactNotFoundError):
        read(layout, descriptor_of(b"other"))


def test_a_blob_that_is_not_what_it_is_called_is_not_there(layout: OciLayout) -> None:
    descriptor = descriptor_of(b"abc")

    with pytest.raises(LayerMismatchError):
        layout.write_blob(descriptor, lambda: io.BytesIO(b"abd"))

    assert not layout.has_blob(descriptor.digest)


def test_a_tag_names_the_last_manifest(layout: OciLayout) -> None:
    first = manifest(layout, "v", number=1)
    second = manifest(layout, "v", number=2)
    manifest(layout, "w", number=2)

    assert layout.resolve("v") == second
    assert layout.resolve("w").digest == second.digest
    assert layout.resolve(first.digest).digest == first.digest
    assert json.loads(layout.read_manifest(first))["number"] == 1
    assert layout.tags() == ("v", "w")

    with pytest.raises(ArtifactNotFoundError, match="it has the tags: v, w"):
        layout.resolve("x")


def test_who_refers_to_a_manifest_is_found(layout: OciLayout) -> None:
    subject = manifest(layout, "v")
    about = {"artifactType": "application/s", "subject": subject.to_json()}
    first = manifest(layout, None, **about)
    manifest(layout, None, **{**about, "artifactType": "application/t"})

    assert len(layout.referrers(subject.digest)) == 2
    found = layout.referrers(subject.digest, artifact_type="application/s")
    assert [each.digest for each in found] == [first.digest]
    assert layout.referrers(first.digest) == ()


def test_what_else_is_wrong_in_a_layout_hides_no_referrer(
    layout: OciLayout, tmp_path: Path
) -> None:
    package = manifest(layout, "1", artifactType="package")
    absent, damaged = manifest(layout, "absent", n=1), manifest(layout, "damaged", n=2)
    (tmp_path / "layout/blobs/sha256" / absent.sha256).unlink()
    (path,) = tmp_path.rglob(damaged.sha256)
    path.chmod(0o644)
    path.write_bytes(b"other bytes")
    junk = write(layout, b"junk")
    index = tmp_path / "layout/index.json"
    document = json.loads(index.read_bytes())
    document["manifests"].append(junk.to_json())
    index.write_text(json.dumps(document))
    signature = manifest(layout, None, artifactType="signature", subject=package.to_json())

    assert [each.digest for each in layout.referrers(package.digest)] == [signature.digest]


def test_many_write_at_once(layout: OciLayout) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: manifest(layout, f"t{number}", n=number), range(24)))

    assert len(layout.tags()) == 24


@pytest.mark.parametrize(
    ("change", "error", "what"),
    [
        (
            lambda it: (it / "oci-layout").unlink() or (it / "index.json").unlink(),
            ArtifactNotFoundError,
            "no OCI image",
        ),
        (lambda it: (it / "index.json").write_text("{"), ArtifactFormatError, "index.json"),
        (lambda it: (it / "index.json").write_text("{}"), ArtifactFormatError, "manifests"),
        (
            lambda it: (it / "index.json").write_text('{"manifests": [3]}'),
            ArtifactFormatError,
            "descriptor",
        ),
    ],
)
def test_a_damaged_layout_says_what_is_wrong(
    layout: OciLayout,
    tmp_path: Path,
    change: Callable[[Path], object],
    error: type[RegistryError],
    what: str,
) -> None:
    manifest(layout, "v")
    change(tmp_path / "layout")

    with pytest.raises(error, match=what):
        layout.resolve("v")


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ArtifactNotFoundError, match=r"there is no folder .*nowhere"):
        OciLayout(tmp_path / "nowhere").resolve("1")
    assert not (tmp_path / "nowhere").exists()


def test_a_manifest_with_other_bytes_is_refused(layout: OciLayout, tmp_path: Path) -> None:
    descriptor = manifest(layout, "v")
    path = tmp_path / "layout" / "blobs" / "sha256" / descriptor.sha256
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"2", b"3"))

    with pytest.raises(LayerMismatchError, match=descriptor.digest):
        layout.read_manifest(descriptor)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_blob_that_is_no_file_is_not_waited_for(layout: OciLayout, tmp_path: Path) -> None:
    blob = write(layout, b"weights")
    (path,) = tmp_path.rglob(blob.sha256)
    path.unlink()
    os.mkfifo(path)

    with pytest.raises(ArtifactFormatError, match=f"{blob.digest} .* is no file"):
        read(layout, blob)


def test_a_manifest_of_a_gigabyte_is_not_read(layout: OciLayout) -> None:
    large = Descriptor(
        media_type=MANIFEST_MEDIA_TYPE, digest="sha256:" + "0" * 64, nbytes=MOST_MANIFEST_NBYTES + 1
    )

    with pytest.raises(ArtifactFormatError, match="at most"):
        layout.read_manifest(large)


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(RegistryError, match="cannot be written"):
        write(OciLayout(tmp_path / "file"), b"abc")
