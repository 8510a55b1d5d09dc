"""A repository over HTTP: the same cases on a registry in this process and on a real one."""

from __future__ import annotations

import io
import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ortpkg.distribution.registry.credentials import Credentials
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.oci_registry import OciRegistry, open_oci_registry
from ortpkg.distribution.registry.referrers import fallback_tag
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import (
    ArtifactNotFoundError,
    LayerMismatchError,
    PackageReferenceError,
    RegistryAuthenticationError,
    RegistryError,
)
from ortpkg.package.references.package_references import is_repository
from tests.registry.servers import USER, Server, described

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT = "application/vnd.example.signature.v1"


def content_of(nbytes: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(nbytes)


def push_blob(repository: OciRegistry, content: bytes) -> Descriptor:
    descriptor = described(content)
    repository.write_blob(descriptor, lambda: io.BytesIO(content))
    return descriptor


def manifest_of(*layers: Descriptor, subject: Descriptor | None = None, **more: Any) -> bytes:
    document: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layers[0].to_json(),
        "layers": [layer.to_json() for layer in layers],
        **more,
    }
    if subject is not None:
        document["subject"] = subject.to_json()
    return json.dumps(document).encode()


def read(repository: OciRegistry, descriptor: Descriptor, offset: int = 0) -> bytes:
    with repository.read_blob(descriptor, offset=offset) as chunks:
        return b"".join(chunks)


@pytest.mark.parametrize("nbytes", [0, 1, 1000, 1 << 20, (3 << 20) + 1])
def test_a_blob_comes_back_as_it_was_written(server: Server, nbytes: int) -> None:
    repository = server.repository()
    content = content_of(nbytes, seed=nbytes)
    sent: list[int] = []
    descriptor = described(content)
    assert not repository.has_blob(descriptor.digest)
    repository.write_blob(descriptor, lambda: io.BytesIO(content), progress=sent.append)
    assert repository.has_blob(descriptor.digest)
    assert read(repository, descriptor) == content
    assert sum(sent) == nbytes


@pytest.mark.parametrize("offset", [1, 999, (1 << 20) + 5, (2 << 20) - 1, 2 << 20])
def test_a_blob_can_be_read_from_any_byte_on(server: Server, offset: int) -> None:
    repository = server.repository("ranges")
    content = content_of(2 << 20)
    descriptor = push_blob(repository, content)
    assert read(repository, descriptor, offset) == content[offset:]


def test_content_with_another_digest_is_not_written(server: Server) -> None:
    repository = server.repository("wrong/digest")
    promised = described(content_of(100))
    with pytest.raises(LayerMismatchError) as caught:
        repository.write_blob(promised, lambda: io.BytesIO(content_of(100, seed=1)))
    assert caught.value.expected == promised.digest
    assert caught.value.actual == described(content_of(100, seed=1)).digest
    assert "nothing was written" in str(caught.value)
    assert not repository.has_blob(promised.digest)


@pytest.mark.parametrize(("nbytes", "how"), [(99, "fewer"), (101, "more")])
def test_content_of_another_size_is_not_written(server: Server, nbytes: int, how: str) -> None:
    repository = server.repository("wrong/size")
    promised = described(content_of(100, seed=2))
    with pytest.raises(LayerMismatchError, match=f"the content has {how} bytes"):
        repository.write_blob(promised, lambda: io.BytesIO(content_of(nbytes, seed=2)))


def test_a_manifest_is_found_by_its_tag_and_by_its_digest(server: Server) -> None:
    repository = server.repository("manifests")
    layer = push_blob(repository, b"layer")
    content = manifest_of(layer)
    written = repository.write_manifest(content, MANIFEST, tag="1.0")
    assert written == described(content, MANIFEST)
    assert repository.resolve("1.0") == written
    assert repository.resolve(written.digest) == written
    assert repository.read_manifest(written) == content


def test_a_manifest_may_have_no_tag(server: Server) -> None:
    repository = server.repository("untagged")
    content = manifest_of(push_blob(repository, b"layer"))
    assert repository.read_manifest(repository.write_manifest(content, MANIFEST)) == content


def test_what_is_not_there_is_said(server: Server) -> None:
    repository = server.repository("present")
    layer = push_blob(repository, b"layer")
    repository.write_manifest(manifest_of(layer), MANIFEST, tag="1")
    missing = described(b"missing", MANIFEST)
    with pytest.raises(ArtifactNotFoundError, match=r"/present:2: .* has no such thing"):
        repository.resolve("2")
    with pytest.raises(ArtifactNotFoundError):
        repository.read_manifest(missing)
    with pytest.raises(ArtifactNotFoundError), repository.read_blob(missing):
        pass
    with pytest.raises(ArtifactNotFoundError):
        server.repository("nobody/knows").tags()


def test_a_manifest_without_its_blobs_is_refused(server: Server) -> None:
    with pytest.raises(RegistryError, match="answers with status 400"):
        server.repository("incomplete").write_manifest(
            manifest_of(described(b"nowhere")), MANIFEST, tag="1"
        )


def test_a_blob_is_taken_from_another_repository_without_being_sent(server: Server) -> None:
    source, target = server.repository("mount/from"), server.repository("mount/to")
    descriptor = push_blob(source, b"the same weights")
    assert target.mount_blob(descriptor.digest, "mount/from")
    assert read(target, descriptor) == b"the same weights"
    assert not target.mount_blob(described(b"unknown").digest, "mount/from")
    assert not target.mount_blob(described(b"unknown").digest, "No Name")


def test_tags_are_listed_page_by_page(server: Server) -> None:
    repository = server.repository("tagged")
    content = manifest_of(push_blob(repository, b"layer"))
    names = [f"v{number}" for number in range(12)]
    for name in names:
        repository.write_manifest(content, MANIFEST, tag=name)
    if server.in_process is not None:
        server.in_process.page_tags = 5
    assert repository.tags() == tuple(sorted(names))


def test_what_refers_to_a_manifest_is_listed(server: Server) -> None:
    repository = server.repository("referred")
    layer = push_blob(repository, b"layer")
    subject = repository.write_manifest(manifest_of(layer), MANIFEST, tag="1")
    assert repository.referrers(subject.digest) == ()
    other = manifest_of(layer, subject=subject, artifactType="application/vnd.example.other")
    repository.write_manifest(other, MANIFEST)
    signature = repository.write_manifest(
        manifest_of(layer, subject=subject, artifactType=ARTIFACT), MANIFEST
    )
    repository.write_manifest(other, MANIFEST)
    assert len(repository.referrers(subject.digest)) == 2
    (found,) = repository.referrers(subject.digest, artifact_type=ARTIFACT)
    assert (found.digest, found.artifact_type) == (signature.digest, ARTIFACT)
    assert server.repository("referred").referrers(subject.digest, artifact_type=ARTIFACT)
    has_api = server.in_process is not None and server.in_process.has_referrers_api
    assert (fallback_tag(subject.digest) in repository.tags()) is not has_api


def test_several_threads_read_and_write_at_once(server: Server) -> None:
    repository = server.repository("threads")
    contents = [content_of(300_000, seed=seed) for seed in range(12)]
    with ThreadPoolExecutor(6) as pool:
        descriptors = list(pool.map(lambda content: push_blob(repository, content), contents))
        came = list(pool.map(lambda descriptor: read(repository, descriptor), descriptors))
    assert came == contents


def test_wrong_credentials_are_refused_and_not_shown(server: Server) -> None:
    if server.credentials is None:
        assert not server.client().try_credentials(
            Credentials(username=USER, password=Secret("any"))
        )
        return
    wrong = Credentials(username=USER, password=Secret("hunter2"))
    repository = OciRegistry(server.client(wrong), "private")
    with pytest.raises(RegistryAuthenticationError) as caught:
        repository.write_blob(described(b"x"), lambda: io.BytesIO(b"x"))
    assert f"log in with: ortpkg login {server.host}" in str(caught.value)
    assert "hunter2" not in str(caught.value) + repr(vars(caught.value))
    with pytest.raises(RegistryAuthenticationError):
        server.client().try_credentials(wrong)
    assert server.client().try_credentials(server.credentials)


@pytest.mark.parametrize(
    "name", ["", "Upper", "a//b", "a/", "-a", "a..b", "a b", "a" * 256, "../a"]
)
def test_names_that_no_repository_has_are_refused(name: str) -> None:
    assert not is_repository(name)
    with pytest.raises(PackageReferenceError, match="is no repository of a registry"):
        open_oci_registry("registry.example", name)


@pytest.mark.parametrize("tag", ["", "a b", "a/../b", "sha256:12", "-x", "x" * 129])
def test_names_that_no_tag_has_are_refused(tag: str) -> None:
    with pytest.raises(PackageReferenceError, match="is neither a tag nor a digest"):
        open_oci_registry("registry.example", "digits").resolve(tag)
