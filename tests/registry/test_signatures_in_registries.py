"""Signatures beside a package in registries of every kind: found, kept alive, never believed."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.oci_registry import OciRegistry
from ortpkg.distribution.registry.referrers import parse_index
from ortpkg.distribution.registry.repository import MANIFEST_MEDIA_TYPE
from ortpkg.distribution.registry_signatures import (
    attach_signature,
    attached_signatures,
    signature_tag,
)
from ortpkg.foundations.errors import ArtifactFormatError
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.trust.signing.signature_bundle import BUNDLE_MEDIA_TYPE
from tests.registry.servers import Server, described


def package_in(repository: OciRegistry) -> Descriptor:
    """Something to sign."""
    config = described(b"{}", "application/vnd.oci.empty.v1+json")
    repository.write_blob(config, lambda: io.BytesIO(b"{}"))
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_MEDIA_TYPE,
        "config": config.to_json(),
        "layers": [],
        "annotations": {"of": repository.name},
    }
    content = json.dumps(document).encode()
    return repository.write_manifest(content, MANIFEST_MEDIA_TYPE, tag="1")


def contents(repository: OciRegistry, subject: Descriptor, most: int = 1000) -> set[bytes]:
    found = attached_signatures(repository, subject.digest, most_nbytes=most)
    return {each.content for each in found}


def test_signatures_of_several_signers_are_found_each_once(server: Server) -> None:
    repository = server.repository("signed/several")
    subject = package_in(repository)
    assert contents(repository, subject) == set()

    for content in (b"by one", b"by another", b"by one"):
        attach_signature(repository, subject, content)

    found = attached_signatures(repository, subject.digest, most_nbytes=1000)
    assert sorted(each.content for each in found) == [b"by another", b"by one"]
    assert repository.name in found[0].where
    assert signature_tag(subject.digest) in repository.tags()


def test_a_signature_is_a_referrer_and_has_a_tag_of_its_own(server: Server) -> None:
    repository = server.repository("signed/tag")
    subject = package_in(repository)
    attach_signature(repository, subject, b"by one")

    (referrer,) = repository.referrers(subject.digest, artifact_type=BUNDLE_MEDIA_TYPE)
    assert repository.resolve(signature_tag(subject.digest)).digest == referrer.digest
    document = json.loads(repository.read_manifest(referrer))
    assert document["subject"]["digest"] == subject.digest


def test_what_only_the_list_of_referrers_names_is_found(server: Server) -> None:
    repository = server.repository("signed/list")
    subject = package_in(repository)
    attach_signature(repository, subject, b"by one")
    artifact = repository.resolve(signature_tag(subject.digest))
    document = json.loads(repository.read_manifest(artifact))
    document["annotations"] = {"by": "another tool, without our tag"}
    layer = described(b"by another", BUNDLE_MEDIA_TYPE)
    repository.write_blob(layer, lambda: io.BytesIO(b"by another"))
    document["layers"] = [layer.to_json()]
    repository.write_manifest(json.dumps(document).encode(), MANIFEST_MEDIA_TYPE)

    assert contents(repository, subject) == {b"by one", b"by another"}


def test_what_is_too_large_is_not_fetched(server: Server) -> None:
    repository = server.repository("signed/large")
    subject = package_in(repository)
    attach_signature(repository, subject, b"x" * 2000)
    attach_signature(repository, subject, b"by one")

    assert contents(repository, subject) == {b"by one"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"layers": "none"}, "layers is not a list of at most 16"),
        ({"layers": [{}] * 17}, "layers is not a list of at most 16"),
        ({"layers": [{"mediaType": "x"}]}, "are wrong"),
    ],
)
def test_an_artifact_that_is_none_is_named(change: dict[str, Any], what: str) -> None:
    repository = _Listing({"schemaVersion": 2, **change})

    with pytest.raises(ArtifactFormatError, match=what):
        attached_signatures(repository, "sha256:" + "0" * 64, most_nbytes=1000)  # type: ignore[arg-type]


def test_a_gigabyte_is_not_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    layer = {"mediaType": BUNDLE_MEDIA_TYPE, "digest": "sha256:" + "1" * 64, "size": 1 << 30}
    repository = _Listing({"layers": [layer]}, blob=b"")

    found = attached_signatures(repository, "sha256:" + "0" * 64, most_nbytes=1000)  # type: ignore[arg-type]

    assert found == ()
    assert "has 1073741824 bytes, more than any over this package (1000)" in caplog.text


def test_a_hundred_thousand_artifacts_that_refer_to_it_are_refused() -> None:
    document: dict[str, Any] = {"manifests": [{}] * 100_000}

    with pytest.raises(ArtifactFormatError, match="it lists more than 10000 manifests"):
        parse_index(document, registry="stranger", what="the referrers")


def test_artifacts_that_refer_to_each_other_are_looked_at_once() -> None:
    repository = _Listing({"layers": [], "subject": {"digest": "sha256:" + "0" * 64}})
    repository.lists_itself = True

    assert attached_signatures(repository, "sha256:" + "0" * 64, most_nbytes=1000) == ()  # type: ignore[arg-type]
    assert repository.reads <= 65


def test_bytes_that_are_others_are_refused() -> None:
    layer = described(b"by one", BUNDLE_MEDIA_TYPE)
    repository = _Listing({"layers": [layer.to_json()]}, blob=b"by two")

    with pytest.raises(ArtifactFormatError, match=r"the bytes of signature .* are others"):
        attached_signatures(repository, "sha256:" + "0" * 64, most_nbytes=1000)  # type: ignore[arg-type]


class _Listing:
    """A repository that has one artifact of signatures, whatever is asked for."""

    name = "oci://stranger/models"

    def __init__(self, manifest: dict[str, Any], blob: bytes = b"") -> None:
        self._manifest = json.dumps(manifest).encode()
        self._blob = blob
        self.lists_itself = False
        self.reads = 0

    def resolve(self, tag: str) -> Descriptor:
        assert tag.endswith(".sig")
        digest = f"sha256:{hash_bytes(self._manifest).sha256}"
        return Descriptor(media_type=MANIFEST_MEDIA_TYPE, digest=digest, nbytes=len(self._manifest))

    def referrers(self, digest: str, *, artifact_type: str) -> tuple[Descriptor, ...]:
        del digest, artifact_type
        return (self.resolve("itself.sig"),) * 10_000 if self.lists_itself else ()

    def read_manifest(self, descriptor: Descriptor) -> bytes:
        del descriptor
        self.reads += 1
        return self._manifest

    def read_blob(self, descriptor: Descriptor) -> Any:
        del descriptor
        return contextlib.nullcontext(iter([self._blob]))
