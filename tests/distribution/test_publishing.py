"""A package in a layout: every byte once, the same artifact each time, nothing that is damaged."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from ortpkg.distribution.package_signing import sign_package
from ortpkg.distribution.publishing import publish
from ortpkg.distribution.registry.artifact import PackageArtifact, parse_artifact
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.document_layer import unpack_documents
from ortpkg.distribution.registry.oci_layout import OciLayout
from ortpkg.distribution.registry_signatures import attached_signatures
from ortpkg.distribution.variant_needs import needs_of_variants
from ortpkg.foundations.errors import (
    ArtifactNotFoundError,
    DigestMismatchError,
    PackageFormatError,
    UsageError,
)
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.integrity.digests import read_digests
from ortpkg.package.reader import open_package
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.package.trust.signing.signing_keys import new_private_key

SAMPLES = Path(__file__).resolve().parents[2] / "sample_packages"


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        "ortpkg.foundations.storage.package_lock.locks_directory", lambda: tmp_path / "locks"
    )
    return Path(shutil.copytree(SAMPLES / "digits.ortpackage", tmp_path / "digits.ortpackage"))


@pytest.fixture
def layout(tmp_path: Path) -> OciLayout:
    return OciLayout(tmp_path / "layout")


def artifact_in(layout: OciLayout, tag: str) -> PackageArtifact:
    content = layout.read_manifest(layout.resolve(tag))
    return parse_artifact(content, registry=layout.name)


def blobs(layout: OciLayout) -> set[str]:
    return {path.name for path in (Path(layout.name.partition(":")[2]) / "blobs").rglob("*")}


def test_every_file_travels_under_its_recorded_digest(digits: Path, layout: OciLayout) -> None:
    report = publish(digits, layout, tags=["1"])

    artifact = artifact_in(layout, "1")
    with layout.read_blob(artifact.documents) as chunks:
        (digits.parent / "layer").write_bytes(b"".join(chunks))
    with (digits.parent / "layer").open("rb") as stream:
        documents = unpack_documents(stream, registry="", digest="")
    recorded = read_digests(digits)
    assert recorded is not None
    for path, file in recorded.files.items():
        if path in documents:
            assert documents[path] == (digits / path).read_bytes()
        else:
            assert artifact.files[path].layer.sha256 == file.digests[-1]
            assert artifact.files[path].layer.sha256 in blobs(layout)
    assert documents[DIGESTS_FILE] == (digits / DIGESTS_FILE).read_bytes()
    assert set(documents) | set(artifact.files) == {*recorded.files, DIGESTS_FILE}
    assert report.digest == layout.resolve("1").digest
    assert report.sent_nbytes == report.nbytes


def test_what_a_tag_names_is_never_unsigned(
    digits: Path, layout: OciLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_package(digits, new_private_key())
    write_manifest = layout.write_manifest
    signed: list[int] = []

    def watched(content: bytes, media_type: str, *, tag: str | None = None) -> Descriptor:
        if tag == "1":
            digest = f"sha256:{hash_bytes(content).sha256}"
            signed.append(len(attached_signatures(layout, digest, most_nbytes=1 << 20)))
        return write_manifest(content, media_type, tag=tag)

    monkeypatch.setattr(layout, "write_manifest", watched)
    publish(digits, layout, tags=["1"])

    assert signed == [1]


def test_what_is_there_is_not_sent_again(digits: Path, layout: OciLayout) -> None:
    first = publish(digits, layout, tags=["1"])
    before = blobs(layout)

    second = publish(digits, layout, tags=["2", "latest"])

    assert (second.digest, second.sent_nbytes, second.moved_tags) == (first.digest, 0, {})
    assert blobs(layout) == before
    assert layout.tags() == ("1", "2", "latest")


def test_a_new_version_sends_what_is_new(digits: Path, layout: OciLayout) -> None:
    import ortpkg

    first = publish(digits, layout, tags=["latest"])
    ortpkg.edit(digits, ortpkg.PackageEdits(version="9"))

    second = publish(digits, layout, tags=["latest"])

    assert 0 < second.sent_nbytes < second.nbytes / 4
    assert second.moved_tags == {"latest": first.digest}
    assert publish(digits, layout).tags == ("9",)


def test_a_rehearsal_leaves_nothing(digits: Path, layout: OciLayout, tmp_path: Path) -> None:
    report = publish(digits, layout, tags=["1"], is_rehearsal=True)

    assert not (tmp_path / "layout").exists()
    assert report == publish(digits, layout, tags=["1"])


def test_a_package_without_a_record_gets_one_where_it_goes(digits: Path, layout: OciLayout) -> None:
    with_record = publish(digits, layout, tags=["1"])
    (digits / DIGESTS_FILE).unlink()

    without = publish(digits, layout, tags=["1"])

    assert (with_record.is_verified, without.is_verified) == (True, False)
    assert without.digest == with_record.digest
    assert not (digits / DIGESTS_FILE).exists()


@pytest.mark.parametrize("file", ["manifest.json", "models/classifier/cpu-fp32/model.onnx"])
def test_a_damaged_file_is_not_published(digits: Path, layout: OciLayout, file: str) -> None:
    path = digits / file
    path.write_bytes(path.read_bytes().replace(b"digits", b"digitz", 1) + b"\n")

    with pytest.raises(DigestMismatchError, match=file.rpartition("/")[2]):
        publish(digits, layout, tags=["1"])

    with pytest.raises(ArtifactNotFoundError):
        layout.resolve("1")


def test_what_is_no_package_is_not_published(tmp_path: Path, layout: OciLayout) -> None:
    (tmp_path / "manifest.json").write_text("{}")

    with pytest.raises(PackageFormatError):
        publish(tmp_path, layout)


def test_a_tag_that_is_none_is_refused(digits: Path, layout: OciLayout) -> None:
    with pytest.raises(UsageError, match="not a tag"):
        publish(digits, layout, tags=["a/b"])


def test_each_variant_says_what_it_needs(digits: Path) -> None:
    needs = needs_of_variants(open_package(digits))

    names = {name for each in needs.values() for name in each}
    package = open_package(digits)
    assert names == {f"classifier/{variant.name}" for variant in package.components[0].variants}
    for file, variants in needs.items():
        assert file.split("/")[2] in {name.partition("/")[2] for name in variants}


def test_progress_tells_each_file_to_its_end(digits: Path, layout: OciLayout) -> None:
    told: dict[str, tuple[int, int]] = {}
    lock = threading.Lock()

    def progress(file: str, done: int, total: int) -> None:
        with lock:
            told[file] = done, total

    publish(digits, layout, tags=["1"], progress=progress)

    assert told
    assert all(done == total for done, total in told.values())


def test_the_manifest_says_who_needs_what(digits: Path, layout: OciLayout) -> None:
    publish(digits, layout, tags=["1"])

    document = json.loads(layout.read_manifest(layout.resolve("1")))

    for layer in document["layers"][1:]:
        path = layer["annotations"]["org.cncf.model.filepath"]
        if path.startswith("models/"):
            assert path.split("/")[2] in layer["annotations"]["dev.ortpkg.variants"]


@pytest.mark.timeout(60)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in folders are of POSIX systems")
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(
    digits: Path, layout: OciLayout
) -> None:
    (digits / "README.md").unlink()
    os.mkfifo(digits / "README.md")

    with pytest.raises(PackageFormatError, match=r"README.md' cannot be read: it is no plain file"):
        publish(digits, layout, tags=["1"])


@pytest.mark.timeout(60)
@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="the system has no such device")
@pytest.mark.parametrize("file", ["README.md", "samples/samples.json"])
def test_a_link_to_a_device_in_the_place_of_a_file_is_refused(
    digits: Path, layout: OciLayout, file: str
) -> None:
    (digits / file).unlink()
    (digits / file).symlink_to("/dev/zero")

    with pytest.raises(PackageFormatError, match=rf"{file}' cannot be read: "):
        publish(digits, layout, tags=["1"])


def test_of_a_document_that_has_grown_no_more_is_read_than_tells_so(
    digits: Path, layout: OciLayout
) -> None:
    with (digits / "samples" / "samples.json").open("r+b") as stream:
        stream.truncate(1 << 40)

    with pytest.raises(DigestMismatchError, match=r"samples\.json"):
        publish(digits, layout, tags=["1"])
