"""A registry's faults, and the network's: nothing wrong is believed, and asking again helps."""

from __future__ import annotations

import io
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ortpkg.distribution.registry.credentials import Credentials
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.registry.http_retries import Clock
from ortpkg.distribution.registry.http_transport import HttpTransport
from ortpkg.distribution.registry.oci_registry import OciRegistry
from ortpkg.distribution.registry.registry_client import RegistryClient
from ortpkg.distribution.registry.repository import RangeNotSupportedError
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    LayerMismatchError,
    OrtpkgError,
    RegistryError,
    RegistryUnreachableError,
)
from ortpkg.package.references.http_addresses import parse_registry_host
from tests.registry.fault_proxy import FaultProxy, fault_proxy
from tests.registry.in_process_registry import InProcessRegistry, running
from tests.registry.servers import PASSWORD, REAL_VARIABLE, USER, described, serve
from tests.registry.test_oci_registry import MANIFEST, content_of, manifest_of, push_blob, read

CONTENT = content_of(3 << 20)
BLOB = described(CONTENT)


@pytest.fixture(
    scope="module",
    params=[
        "in process",
        *(
            [pytest.param("real", marks=pytest.mark.registry)]
            if os.environ.get(REAL_VARIABLE)
            else ()
        ),
    ],
)
def upstream(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with serve(request.param, tmp_path_factory.mktemp("registry")) as server:
        push_blob(server.repository("digits"), CONTENT)
        layer = push_blob(server.repository("digits"), b"layer")
        server.repository("digits").write_manifest(manifest_of(layer), MANIFEST, tag="1")
        yield server.host


@pytest.fixture
def is_real(request: pytest.FixtureRequest, upstream: str) -> bool:
    return "[real" in request.node.name


@pytest.fixture
def proxy(upstream: str) -> Iterator[FaultProxy]:
    with fault_proxy(upstream) as running_proxy:
        yield running_proxy


@pytest.fixture
def slept() -> list[float]:
    return []


def client_of(
    host: str, slept: list[float], credentials: Credentials | None = None
) -> RegistryClient:
    transport = HttpTransport(clock=Clock(sleep=slept.append))
    return RegistryClient(
        parse_registry_host(host),
        is_plain_http=True,
        transport=transport,
        find=lambda key: credentials,
    )


@pytest.fixture
def repository(proxy: FaultProxy, slept: list[float]) -> OciRegistry:
    return OciRegistry(client_of(proxy.host, slept), "digits")


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_blob_goes_on_where_its_connection_broke(
    proxy: FaultProxy, repository: OciRegistry, is_reset: bool
) -> None:
    proxy.fails(method="GET", part="/blobs/", cut_answer=(2 << 20) + 17, is_reset=is_reset)
    proxy.fails(method="GET", part="/blobs/", cut_answer=70_000, is_reset=is_reset)
    assert read(repository, BLOB) == CONTENT
    assert proxy.asked("GET", "/blobs/") == 3
    ranges = [int(value[len("bytes=") : -1]) for value in proxy.with_header("Range")]
    # A reset takes along what was on its way.
    assert is_reset or ranges == [(2 << 20) + 17, (2 << 20) + 17 + 70_000]


def test_a_blob_that_never_gets_on_is_given_up(
    proxy: FaultProxy, repository: OciRegistry, slept: list[float]
) -> None:
    proxy.fails(method="GET", part="/blobs/", cut_answer=10, times=-1)
    with pytest.raises(RegistryUnreachableError, match="the connection broke off"):
        read(repository, BLOB)
    assert proxy.asked("GET", "/blobs/") == 6
    assert 5 < sum(slept) < 20


def test_a_blob_that_gets_on_by_crumbs_comes_in_the_end(
    proxy: FaultProxy, repository: OciRegistry, slept: list[float]
) -> None:
    proxy.fails(method="GET", part="/blobs/", cut_answer=70_000, times=-1)
    assert read(repository, BLOB) == CONTENT
    assert sum(slept) <= 120


def test_a_registry_without_ranges_sends_the_rest_after_what_is_known(
    slept: list[float],
) -> None:
    with running(InProcessRegistry(has_ranges=False)) as registry:
        registry.add_blob("digits", CONTENT)
        with fault_proxy(registry.host) as proxy:
            proxy.fails(method="GET", part="/blobs/", cut_answer=2 << 20)
            repository = OciRegistry(client_of(proxy.host, slept), "digits")
            assert read(repository, BLOB) == CONTENT
            with pytest.raises(RangeNotSupportedError), repository.read_blob(BLOB, offset=5):
                pass


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"content_length": 10, "body": CONTENT[:10]}, "sends 10"),
        ({"content_length": len(CONTENT) + 1}, f"sends {len(CONTENT) + 1}"),
        ({"body": CONTENT + b"more"}, "more"),
        ({"body": CONTENT + b"more", "is_chunked": True}, "sends more"),
        ({"body": CONTENT[:-1], "is_chunked": True}, f"ends it after {len(CONTENT) - 1}"),
        ({"headers": {"Content-Encoding": "gzip"}}, "in the encoding 'gzip'"),
    ],
)
def test_a_blob_of_another_size_is_refused(
    proxy: FaultProxy, repository: OciRegistry, fault: dict[str, Any], message: str
) -> None:
    proxy.fails(method="GET", part="/blobs/", **fault)
    with pytest.raises(ArtifactFormatError, match=message) as caught:
        read(repository, BLOB)
    assert caught.value.layer == BLOB.digest


def test_a_blob_in_chunks_is_read(proxy: FaultProxy, repository: OciRegistry) -> None:
    proxy.fails(method="GET", part="/blobs/", is_chunked=True)
    assert read(repository, BLOB) == CONTENT


def test_another_part_than_was_asked_for_is_refused(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    said = {"Content-Range": f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}"}
    proxy.fails(method="GET", part="/blobs/", headers=said)
    with pytest.raises(ArtifactFormatError, match="another part than was asked for"):
        read(repository, BLOB, offset=100)


def test_a_blob_smaller_than_where_it_should_go_on_is_refused(repository: OciRegistry) -> None:
    larger = Descriptor(media_type=BLOB.media_type, digest=BLOB.digest, nbytes=len(CONTENT) + 9)
    with pytest.raises(ArtifactFormatError, match=f"has no byte {len(CONTENT)}"):
        read(repository, larger, offset=len(CONTENT))


def test_never_more_bytes_come_than_the_descriptor_says(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    smaller = Descriptor(media_type=BLOB.media_type, digest=BLOB.digest, nbytes=1000)
    with pytest.raises(ArtifactFormatError, match="has 1000 bytes by its manifest"):
        read(repository, smaller)


def test_a_reader_that_stops_in_the_middle_leaves_no_connection(repository: OciRegistry) -> None:
    with repository.read_blob(BLOB) as chunks:
        assert CONTENT.startswith(next(chunks))
    assert read(repository, BLOB) == CONTENT


# --- manifests ----------------------------------------------------------------------------------


def test_a_manifest_with_a_changed_byte_is_refused(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    found = repository.resolve("1")
    proxy.fails(method="GET", part="/manifests/", flip=20)
    with pytest.raises(LayerMismatchError, match="sends other bytes than its digest names"):
        repository.read_manifest(found)


def test_a_manifest_of_a_gigabyte_is_not_read(proxy: FaultProxy, repository: OciRegistry) -> None:
    found = repository.resolve("1")
    proxy.fails(method="HEAD", part="/manifests/", content_length=1 << 30)
    with pytest.raises(ArtifactFormatError, match="a manifest of 1073741824 bytes"):
        repository.resolve("1")
    proxy.fails(method="GET", part="/manifests/", body=bytes(5 << 20))
    with pytest.raises(ArtifactFormatError, match="more than 4194304 bytes"):
        repository.read_manifest(found)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"Docker-Content-Digest": "sha256:short"}, "digest is not sha256: and 64"),
        ({"Docker-Content-Digest": "md5:" + "0" * 32}, "digest is not sha256: and 64"),
        ({"Content-Type": "no type"}, "mediaType is not a media type"),
    ],
)
def test_a_manifest_that_is_described_wrongly_is_refused(
    proxy: FaultProxy, repository: OciRegistry, headers: dict[str, str], message: str
) -> None:
    proxy.fails(method="HEAD", part="/manifests/", headers=headers)
    with pytest.raises(ArtifactFormatError, match=message):
        repository.resolve("1")


def test_another_digest_than_was_asked_for_is_refused(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    found = repository.resolve("1")
    other = {"Docker-Content-Digest": f"sha256:{'0' * 64}"}
    proxy.fails(method="HEAD", part="/manifests/", headers=other)
    with pytest.raises(LayerMismatchError):
        repository.resolve(found.digest)


def test_a_registry_that_says_too_little_is_asked_for_the_manifest(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    found = repository.resolve("1")
    proxy.fails(method="HEAD", part="/manifests/", headers={"Docker-Content-Digest": None})
    assert repository.resolve("1") == found
    proxy.fails(method="HEAD", part="/manifests/", status=405)
    assert repository.resolve("1") == found


def test_a_registry_that_wrote_another_manifest_is_found_out(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    content = manifest_of(described(b"layer"))
    proxy.fails(method="PUT", headers={"Docker-Content-Digest": f"sha256:{'0' * 64}"})
    with pytest.raises(LayerMismatchError):
        repository.write_manifest(content, MANIFEST, tag="2")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b"[]", "no JSON object"),
        (b'{"tags": 5}', "no list of tags"),
        (b'{"tags": ["../up"]}', "no list of tags"),
        (b" " * (5 << 20), "more than 4194304 bytes"),
    ],
)
def test_what_is_no_list_of_tags_is_refused(
    proxy: FaultProxy, repository: OciRegistry, body: bytes, message: str
) -> None:
    proxy.fails(method="GET", part="/tags/", body=body)
    with pytest.raises(ArtifactFormatError, match=message):
        repository.tags()


def test_pages_of_tags_without_end_end(proxy: FaultProxy, repository: OciRegistry) -> None:
    more = {"Link": '</v2/digits/tags/list?n=1&last=1>; rel="next"'}
    proxy.fails(method="GET", part="/tags/", headers=more, times=-1)
    assert "1" in repository.tags()
    assert proxy.asked("GET", "/tags/") == 2
    proxy.faults.clear()
    elsewhere = {"Link": '<http://127.0.0.1:1/v2/digits/tags/list>; rel="next"'}
    proxy.fails(method="GET", part="/tags/", headers=elsewhere)
    with pytest.raises(ArtifactFormatError, match="at another host"):
        repository.tags()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "manifests is no array"),
        ({"manifests": [{}]}, "mediaType"),
        ({"manifests": [{}] * 10_001}, "more than 10000"),
    ],
)
def test_what_is_no_list_of_referrers_is_refused(
    proxy: FaultProxy, repository: OciRegistry, index: dict[str, Any], message: str
) -> None:
    proxy.fails(method="GET", part="/referrers/", body=json.dumps(index).encode(), status=200)
    with pytest.raises(ArtifactFormatError, match=message):
        repository.referrers(BLOB.digest)


# --- writing ------------------------------------------------------------------------------------


def test_an_upload_goes_on_where_its_connection_broke(
    proxy: FaultProxy, repository: OciRegistry, is_real: bool
) -> None:
    content = content_of(3 << 20, seed=5)
    descriptor = described(content)
    sent: list[int] = []
    proxy.fails(method="PATCH", cut_request=2 << 20)
    repository.write_blob(descriptor, lambda: io.BytesIO(content), progress=sent.append)
    assert read(repository, descriptor) == content
    assert sum(sent) == len(content)
    if is_real:  # it ends an upload that broke off
        assert proxy.asked("POST", "uploads") == 2
    else:
        assert sum(proxy.received.values()) == len(content)
        assert proxy.asked("POST", "uploads") == 1


def test_an_upload_that_the_registry_forgot_begins_anew(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    content = content_of(2 << 20, seed=6)
    proxy.fails(method="PATCH", cut_request=1 << 20)
    proxy.fails(method="GET", part="uploads", status=404)
    repository.write_blob(described(content), lambda: io.BytesIO(content))
    assert read(repository, described(content)) == content
    assert proxy.asked("POST", "uploads") == 2


@pytest.mark.parametrize("nbytes", [1000, 2 << 20])
def test_an_upload_whose_last_answer_is_lost_is_done(
    proxy: FaultProxy, repository: OciRegistry, nbytes: int
) -> None:
    content = content_of(nbytes, seed=7)
    proxy.fails(method="PUT", part="uploads", is_answer_lost=True)
    repository.write_blob(described(content), lambda: io.BytesIO(content))
    assert read(repository, described(content)) == content
    assert proxy.asked("PUT", "uploads") == 1


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_upload_waits_for_a_registry_that_is_busy(
    proxy: FaultProxy, repository: OciRegistry, slept: list[float], method: str, status: int
) -> None:
    content = content_of(1_500_000, seed=status)
    proxy.fails(method=method, part="uploads", status=status, headers={"Retry-After": "7"})
    repository.write_blob(described(content), lambda: io.BytesIO(content))
    assert read(repository, described(content)) == content
    assert 7.0 in slept


def test_content_that_changes_on_the_way_is_sent_again_and_then_refused(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    error = {"errors": [{"code": "DIGEST_INVALID", "message": "no\x1b[31m"}]}
    body = json.dumps(error).encode()
    content = content_of(100, seed=8)
    proxy.fails(method="PUT", part="uploads", status=400, body=body)
    repository.write_blob(described(content), lambda: io.BytesIO(content))
    assert read(repository, described(content)) == content
    content = content_of(100, seed=10)
    proxy.fails(method="PUT", part="uploads", status=400, body=body, times=-1)
    with pytest.raises(LayerMismatchError, match=r"DIGEST_INVALID, 'no\\x1b\[31m'"):
        repository.write_blob(described(content), lambda: io.BytesIO(content))


def test_content_that_cannot_be_read_is_the_callers_error(
    repository: OciRegistry, slept: list[float]
) -> None:
    class Broken(io.BytesIO):
        def read(self, *_: Any) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        repository.write_blob(described(content_of(100, seed=9)), Broken)
    assert slept == []


# --- tries --------------------------------------------------------------------------------------


def test_tries_are_bounded_and_their_pauses_grow(
    proxy: FaultProxy, repository: OciRegistry, slept: list[float]
) -> None:
    proxy.fails(method="HEAD", part="/blobs/", status=503, times=-1)
    with pytest.raises(RegistryError, match="answers with status 503"):
        repository.has_blob(BLOB.digest)
    assert len(slept) == 5
    assert all(0.25 * 2**n <= pause <= 0.5 * 2**n for n, pause in enumerate(slept))


def test_a_registry_that_asks_for_too_long_a_pause_is_not_waited_for(
    proxy: FaultProxy, repository: OciRegistry, slept: list[float]
) -> None:
    proxy.fails(method="HEAD", part="/blobs/", status=429, headers={"Retry-After": "3600"})
    with pytest.raises(
        RegistryError, match="asks for fewer requests, and to wait 3600 s"
    ) as caught:
        repository.has_blob(BLOB.digest)
    assert (slept, caught.value.status) == ([], 429)


def test_a_short_break_is_not_noticed(proxy: FaultProxy, repository: OciRegistry) -> None:
    for method in ("HEAD", "GET"):
        proxy.fails(method=method, part="/manifests/", is_answer_lost=True, is_reset=True)
        proxy.fails(method=method, part="/manifests/", cut_answer=3)
    assert len(repository.read_manifest(repository.resolve("1"))) > 3


def test_nobody_at_that_port_is_said_soon(slept: list[float]) -> None:
    repository = OciRegistry(client_of("127.0.0.1:1", slept), "digits")
    with pytest.raises(
        RegistryUnreachableError, match=r"127\.0\.0\.1:1: no connection \(.*refused"
    ) as caught:
        repository.tags()
    assert caught.value.is_unconnected
    assert len(slept) == 2


def test_a_registry_that_was_there_is_waited_for_longer(slept: list[float]) -> None:
    with running(InProcessRegistry()) as registry:
        client = client_of(registry.host, slept)
        assert not OciRegistry(client, "digits").has_blob(BLOB.digest)
        client.close()
    with pytest.raises(RegistryUnreachableError):
        OciRegistry(client, "digits").has_blob(BLOB.digest)
    assert len(slept) == 5


def test_a_certificate_that_nobody_trusts_is_refused_at_once(tmp_path: Path) -> None:
    with serve("in process, tls", tmp_path) as server:
        client = RegistryClient(parse_registry_host(server.host), is_plain_http=False)
        with pytest.raises(RegistryUnreachableError, match="certificate is not trusted"):
            OciRegistry(client, "digits").tags()


def test_an_answer_that_takes_for_ever_is_given_up(proxy: FaultProxy) -> None:
    proxy.fails(method="GET", part="/tags/", body=b" " * 200_000, times=-1)
    hours = itertools.count(step=3600)
    clock = Clock(now_s=lambda: float(next(hours)), sleep=lambda _: None)
    client = RegistryClient(
        parse_registry_host(proxy.host), is_plain_http=True, transport=HttpTransport(clock=clock)
    )
    with pytest.raises(RegistryUnreachableError, match="was not whole after 300 s"):
        OciRegistry(client, "digits").tags()


def test_a_long_list_of_links_is_not_searched_for_long(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    proxy.fails(method="GET", part="/tags/", headers={"Link": "<>;" * 20_000})
    with pytest.raises(ArtifactFormatError, match="Link of 60000 characters"):
        repository.tags()


def test_a_proxy_of_the_environment_is_used_with_its_own_password(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(InProcessRegistry()) as registry, fault_proxy(registry.host) as proxy:
        registry.add_blob("digits", CONTENT)
        monkeypatch.setenv("HTTP_PROXY", f"http://pat:pw%40@{proxy.host}")
        repository = OciRegistry(client_of("registry.example", slept), "digits")
        assert repository.has_blob(BLOB.digest)
        assert proxy.with_header("Proxy-Authorization") == ["Basic cGF0OnB3QA=="]
        assert proxy.with_header("Host") == ["registry.example"]
        assert not proxy.with_header("Authorization")


def test_a_proxy_of_another_kind_is_refused(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://pat:pw@127.0.0.1:1")
    with pytest.raises(RegistryUnreachableError, match="a proxy of scheme 'socks5'") as caught:
        OciRegistry(client_of("registry.example", slept), "digits").tags()
    assert "pw" not in str(caught.value)


# --- redirects and credentials ------------------------------------------------------------------


@pytest.fixture
def private(slept: list[float]) -> Iterator[tuple[OciRegistry, FaultProxy, InProcessRegistry]]:
    """A repository that wants credentials, a proxy before it, and another host."""
    credentials = Credentials(username=USER, password=Secret(PASSWORD))
    with (
        running(InProcessRegistry(auth="basic")) as registry,
        running(InProcessRegistry()) as other,
    ):
        registry.add_blob("digits", CONTENT)
        other.add_blob("digits", CONTENT)
        with fault_proxy(registry.host) as proxy:
            client = client_of(proxy.host, slept, credentials)
            yield OciRegistry(client, "digits"), proxy, other


def test_a_redirect_to_another_host_is_followed_without_credentials(
    private: tuple[OciRegistry, FaultProxy, InProcessRegistry],
) -> None:
    repository, proxy, other = private
    assert repository.has_blob(BLOB.digest)
    target = f"{other.url}/v2/digits/blobs/{BLOB.digest}?signature=secret"
    proxy.fails(method="GET", part="/blobs/", status=307, headers={"Location": target}, times=-1)
    assert read(repository, BLOB) == CONTENT
    assert read(repository, BLOB, offset=9) == CONTENT[9:]
    assert {authorization for _, _, authorization in other.log} == {""}
    assert any(proxy.with_header("Authorization"))


def test_another_host_that_asks_for_credentials_gets_none(
    private: tuple[OciRegistry, FaultProxy, InProcessRegistry],
) -> None:
    repository, proxy, other = private
    other.auth = "basic"
    target = f"{other.url}/v2/digits/blobs/{BLOB.digest}?signature=secret"
    proxy.fails(method="GET", part="/blobs/", status=307, headers={"Location": target})
    with pytest.raises(RegistryError) as caught:
        read(repository, BLOB)
    assert {authorization for _, _, authorization in other.log} == {""}
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://registry.example/v2/", "another host without encryption"),
        ("ftp://127.0.0.1/", "neither http nor https"),
        ("https://ann:pw@registry.example/", "names no host, or a user"),
        ("https://good.example\\@evil.example/", "characters that addresses do not have"),
        ("https://good.example/\u00e9", "characters that addresses do not have"),
    ],
)
def test_redirects_that_are_not_followed(
    proxy: FaultProxy, repository: OciRegistry, location: str, message: str
) -> None:
    proxy.fails(method="GET", part="/blobs/", status=302, headers={"Location": location})
    with pytest.raises(RegistryError, match=message):
        read(repository, BLOB)


def test_redirects_without_end_end(proxy: FaultProxy, repository: OciRegistry) -> None:
    proxy.fails(method="GET", status=302, headers={"Location": "/v2/digits/tags/list"}, times=-1)
    with pytest.raises(RegistryError, match="more than 5 redirects"):
        repository.tags()


def test_an_upload_is_not_sent_to_where_a_registry_without_encryption_points(
    proxy: FaultProxy, repository: OciRegistry
) -> None:
    proxy.fails(
        method="POST",
        part="uploads",
        status=202,
        headers={"Location": "http://registry.example/upload"},
    )
    with pytest.raises(RegistryError, match="gives an address that cannot be used"):
        repository.write_blob(described(b"x"), lambda: io.BytesIO(b"x"))


def test_every_refusal_is_ours(proxy: FaultProxy, repository: OciRegistry) -> None:
    for status in (400, 401, 402, 403, 404, 406, 418):
        proxy.fails(method="HEAD", part="/blobs/", status=status)
        if status == 404:
            assert not repository.has_blob(BLOB.digest)
            continue
        with pytest.raises(OrtpkgError) as caught:
            repository.has_blob(BLOB.digest)
        assert caught.value.exit_code == 8
