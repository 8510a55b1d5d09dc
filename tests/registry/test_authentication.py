"""Who we are to a registry: tokens, passwords, and where they do not go."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ortpkg.distribution.registry import credential_helpers
from ortpkg.distribution.registry.challenges import Challenge, parse_challenges
from ortpkg.distribution.registry.credentials import Credentials, find_credentials
from ortpkg.distribution.registry.http_retries import Clock
from ortpkg.distribution.registry.http_transport import HttpTransport
from ortpkg.distribution.registry.oci_registry import OciRegistry
from ortpkg.distribution.registry.registry_client import RegistryClient
from ortpkg.distribution.registry.secret import Secret
from ortpkg.foundations.errors import (
    ArtifactFormatError,
    CredentialsError,
    RegistryAuthenticationError,
    RegistryError,
)
from ortpkg.package.references.http_addresses import parse_registry_host
from tests.registry.fault_proxy import FaultProxy, fault_proxy
from tests.registry.in_process_registry import InProcessRegistry, running
from tests.registry.servers import PASSWORD, USER, described
from tests.registry.test_oci_registry import push_blob

ANN = Credentials(username=USER, password=Secret(PASSWORD))


class Time:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def clock(self) -> Clock:
        return Clock(now_s=lambda: self.now_s, sleep=lambda _: None)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def registry() -> Iterator[InProcessRegistry]:
    with running(InProcessRegistry(auth="bearer")) as running_registry:
        running_registry.add_blob("digits", b"content")
        yield running_registry


def repository_of(host: str, time: Time, credentials: Credentials | None = ANN) -> OciRegistry:
    transport = HttpTransport(clock=time.clock())
    client = RegistryClient(
        parse_registry_host(host),
        is_plain_http=True,
        transport=transport,
        find=lambda key: credentials,
    )
    return OciRegistry(client, "digits")


def test_a_token_serves_until_it_expires(registry: InProcessRegistry, time: Time) -> None:
    repository = repository_of(registry.host, time)
    digest = described(b"content").digest
    assert all(repository.has_blob(digest) for _ in range(3))
    assert registry.requested("GET", "/token") == 1
    assert registry.requested("HEAD", "/blobs/") == 4  # the first without a token
    time.now_s += registry.token_life_s
    assert repository.has_blob(digest)
    assert registry.requested("GET", "/token") == 2


def test_a_token_is_replaced_before_it_expires_on_its_way(
    registry: InProcessRegistry, time: Time
) -> None:
    repository = repository_of(registry.host, time)
    digest = described(b"content").digest
    for left_s, tokens in ((11, 1), (9, 2)):
        assert repository.has_blob(digest)
        time.now_s = 1000.0 + registry.token_life_s - left_s
        assert repository.has_blob(digest)
        assert registry.requested("GET", "/token") == tokens


def test_each_scope_has_a_token_of_its_own(registry: InProcessRegistry, time: Time) -> None:
    repository = repository_of(registry.host, time)
    repository.has_blob(described(b"content").digest)
    push_blob(repository, b"more")
    assert list(registry.tokens.values()) == [
        ("repository:digits:pull",),
        ("repository:digits:pull,push",),
    ]


def test_a_token_that_is_refused_is_fetched_anew_once(
    registry: InProcessRegistry, time: Time
) -> None:
    repository = repository_of(registry.host, time)
    digest = described(b"content").digest
    assert repository.has_blob(digest)
    registry.tokens.clear()  # as a registry that has been started anew
    assert repository.has_blob(digest)
    assert registry.requested("GET", "/token") == 2


def test_credentials_that_do_not_allow_it_are_tried_once(
    registry: InProcessRegistry, time: Time
) -> None:
    repository = repository_of(registry.host, time, credentials=None)
    assert repository.has_blob(described(b"content").digest)  # reading is allowed to all
    registry.requests.clear()
    with pytest.raises(RegistryAuthenticationError, match="ortpkg login 127"):
        push_blob(repository, b"more")
    assert registry.requested("POST") == 2
    assert registry.requested("GET", "/token") == 2


def test_an_identity_token_is_exchanged(registry: InProcessRegistry, time: Time) -> None:
    known = Credentials(identity_token=Secret("identity-1"))
    push_blob(repository_of(registry.host, time, known), b"more")
    assert registry.requested("POST", "/token") == 1
    assert all("identity-1" not in line for entry in registry.log for line in entry)
    wrong = repository_of(registry.host, time, Credentials(identity_token=Secret("other")))
    with pytest.raises(RegistryAuthenticationError, match="refuses the credentials"):
        push_blob(wrong, b"more")


def test_a_registry_token_is_sent_as_it_is(registry: InProcessRegistry, time: Time) -> None:
    registry.tokens["own"] = ("repository:digits:pull,push",)
    known = Credentials(registry_token=Secret("own"))
    push_blob(repository_of(registry.host, time, known), b"more")
    assert registry.requested("GET", "/token") == 0


def test_a_password_goes_to_the_token_server_alone(registry: InProcessRegistry, time: Time) -> None:
    push_blob(repository_of(registry.host, time), b"more")
    with_password = {path for _, path, header in registry.log if header.startswith("Basic")}
    assert with_password
    assert all(path.startswith("/token?") for path in with_password)


def test_nothing_is_asked_of_helpers_before_the_registry_asks(time: Time) -> None:
    def fail(key: str) -> Credentials | None:
        raise AssertionError(key)

    with running(InProcessRegistry()) as registry:
        client = RegistryClient(parse_registry_host(registry.host), find=fail)
        assert not OciRegistry(client, "digits").has_blob(described(b"x").digest)


@pytest.mark.skipif(os.name == "nt", reason="the helper is a shell script")
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (None, "docker-credential-x, which is not on PATH"),
        ("#!/bin/sh\necho the key chain is locked; exit 1", "get ended with status 1"),
        ("#!/bin/sh\nexec sleep 60", "get did not answer within 0.3 s"),
        ("#!/no/such/program\n", "get does not start"),
        ("#!/bin/sh\necho nonsense", "get did not print Username and Secret"),
    ],
)
def test_without_the_program_that_keeps_passwords_what_is_public_is_read(
    registry: InProcessRegistry,
    time: Time,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    script: str | None,
    problem: str,
) -> None:
    (tmp_path / "config.json").write_text('{"credsStore": "x"}')
    if script is not None:
        program = tmp_path / "docker-credential-x"
        program.write_text(script)
        program.chmod(0o755)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    if script is not None and "sleep" in script:
        monkeypatch.setattr(credential_helpers, "_MOST_S", 0.3)
    asked: list[str] = []

    def find(key: str) -> Credentials | None:
        asked.append(key)
        return find_credentials(key)

    client = RegistryClient(
        parse_registry_host(registry.host),
        is_plain_http=True,
        transport=HttpTransport(clock=time.clock()),
        find=find,
    )
    repository = OciRegistry(client, "digits")

    assert repository.has_blob(described(b"content").digest)
    with repository.read_blob(described(b"content")) as chunks:
        assert b"".join(chunks) == b"content"
    with pytest.raises(CredentialsError, match=r"and .* is not written to without"):
        push_blob(repository, b"new")
    assert len(asked) == 1
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert problem in warning
    assert re.search(r"; 127\.0\.0\.1:\d+ is read without credentials", warning)


@pytest.fixture
def proxy(registry: InProcessRegistry) -> Iterator[FaultProxy]:
    with fault_proxy(registry.host) as running_proxy:
        yield running_proxy


@pytest.mark.parametrize(
    "realm",
    ["http://tokens.example/", "ftp://127.0.0.1/", "https://ann:pw@tokens.example/", "https://a b"],
)
def test_a_token_server_that_is_not_safe_gets_nothing(
    proxy: FaultProxy, time: Time, realm: str
) -> None:
    proxy.fails(status=401, headers={"WWW-Authenticate": f'Bearer realm="{realm}",service="x"'})
    with pytest.raises(RegistryAuthenticationError, match="no credentials go there"):
        repository_of(proxy.host, time).tags()


@pytest.mark.parametrize("challenge", ["", "Negotiate", 'Digest realm="x"', "Bearer", ",,,"])
def test_a_registry_that_asks_for_what_we_have_not_is_refused(
    proxy: FaultProxy, time: Time, challenge: str
) -> None:
    proxy.fails(status=401, headers={"WWW-Authenticate": challenge})
    with pytest.raises(RegistryAuthenticationError):
        repository_of(proxy.host, time).tags()


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (b"{}", RegistryError, "gives no token"),
        (b"[", RegistryError, "gives no token"),
        (b'{"token": 5}', RegistryError, "gives no token"),
        (b'{"token": "a\\r\\nX-Evil: b"}', RegistryAuthenticationError, "no text that a header"),
        (b" " * (2 << 20), ArtifactFormatError, "more than 1048576 bytes"),
    ],
)
def test_what_is_no_token_is_refused(
    proxy: FaultProxy, time: Time, answer: bytes, kind: type[Exception], message: str
) -> None:
    challenge = f'Bearer realm="http://{proxy.host}/token",service="x"'
    proxy.fails(part="/tags/", status=401, headers={"WWW-Authenticate": challenge})
    proxy.fails(part="/token", status=200, body=answer)
    with pytest.raises(kind, match=message):
        repository_of(proxy.host, time).tags()


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize("known", [ANN, Credentials(identity_token=Secret("identity-1"))])
def test_a_password_does_not_follow_a_token_server_elsewhere(
    proxy: FaultProxy, time: Time, status: int, known: Credentials
) -> None:
    with running(InProcessRegistry()) as other:
        challenge = f'Bearer realm="http://{proxy.host}/token",service="x"'
        proxy.fails(part="/tags/", status=401, headers={"WWW-Authenticate": challenge}, times=2)
        location = {"Location": f"{other.url}/token"}
        proxy.fails(part="/token", status=status, headers=location)
        with pytest.raises(RegistryError):
            repository_of(proxy.host, time, known).tags()
        assert {header for _, _, header in other.log} <= {""}
        assert other.requested("POST") == 0


def test_tokens_live_as_long_as_they_say_within_limits(
    proxy: FaultProxy, registry: InProcessRegistry, time: Time
) -> None:
    challenge = f'Bearer realm="http://{proxy.host}/token",service="x"'
    registry.tokens["t"] = ("repository:digits:pull",)
    digest = described(b"content").digest
    for life, kept_s in ((-5, 45), ("soon", 45), (None, 45), (1e30, 80_000)):
        repository = repository_of(proxy.host, time)
        proxy.fails(part="/blobs/", status=401, headers={"WWW-Authenticate": challenge})
        body: dict[str, Any] = {"access_token": "t", "expires_in": life}
        proxy.fails(part="/token", status=200, body=json.dumps(body).encode())
        assert repository.has_blob(digest)
        time.now_s += kept_s
        asked = proxy.asked("GET", "/token")
        assert repository.has_blob(digest)
        assert proxy.asked("GET", "/token") == asked


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (['Basic realm="x"'], [("basic", {"realm": "x"})]),
        (
            ['Bearer realm="https://a/t",service="b",scope="repository:c:pull,push"'],
            [
                (
                    "bearer",
                    {"realm": "https://a/t", "service": "b", "scope": "repository:c:pull,push"},
                )
            ],
        ),
        (
            ['Negotiate abc==, Bearer realm=a , service = "b\\"c", Basic realm=d'],
            [
                ("negotiate", {}),
                ("abc==", {}),
                ("bearer", {"realm": "a", "service": 'b"c'}),
                ("basic", {"realm": "d"}),
            ],
        ),
        (["Bearer", "Basic realm=x"], [("bearer", {}), ("basic", {"realm": "x"})]),
        (['Bearer realm="open'], [("bearer", {}), ("realm=", {})]),
        (['"', "x" * 20_000, ""], []),
    ],
)
def test_challenges_are_read(headers: list[str], expected: list[tuple[str, Any]]) -> None:
    assert parse_challenges(headers) == tuple(
        Challenge(scheme=scheme, parameters=parameters) for scheme, parameters in expected
    )
