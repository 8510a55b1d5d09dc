"""Which addresses are registries, and which are followed."""

from __future__ import annotations

import pytest

from ortpkg.distribution.registry.http_connections import proxy_for
from ortpkg.foundations.errors import PackageReferenceError
from ortpkg.package.references.http_addresses import (
    is_loopback,
    next_url,
    origin,
    parse_registry_host,
    shown_url,
)


@pytest.mark.parametrize(
    ("text", "url", "credentials_key"),
    [
        ("registry.example", "https://registry.example", "registry.example"),
        ("Registry.Example:5000", "https://registry.example:5000", "registry.example:5000"),
        ("[2001:db8::1]:5000", "https://[2001:db8::1]:5000", "[2001:db8::1]:5000"),
        ("[::1]", "https://[::1]", "[::1]"),
        ("127.0.0.1:80", "https://127.0.0.1:80", "127.0.0.1:80"),
        ("docker.io", "https://registry-1.docker.io", "https://index.docker.io/v1/"),
        ("index.docker.io", "https://registry-1.docker.io", "https://index.docker.io/v1/"),
    ],
)
def test_a_registry_has_an_address(text: str, url: str, credentials_key: str) -> None:
    host = parse_registry_host(text)
    assert (host.url("https"), host.credentials_key) == (url, credentials_key)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":5000", "a:0", "a:65536", "a:b", "a/b", "a b", "user@host", "https://a", "[::1"),
        *("[g]", "::1", "-a", "a..b", "a\nb", "x" * 300, "a:5000:6000", "ä.example"),
    ],
)
def test_what_is_no_registry_is_refused(text: str) -> None:
    with pytest.raises(PackageReferenceError, match="is no registry; write host or host:port"):
        parse_registry_host(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("localhost", True), ("a.localhost", True), ("127.9.9.9", True), ("[::1]", True)),
        *(("localhost.example", False), ("128.0.0.1", False), ("127.0.0.1.example", False)),
    ],
)
def test_this_machine_is_known_by_its_names(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("url", "location", "expected"),
    [
        ("https://a/v2/x", "/v2/y?z=1#f", "https://a/v2/y?z=1"),
        ("https://a/v2/x", "https://b:1/y", "https://b:1/y"),
        ("http://a/x", "https://b/y", "https://b/y"),
        ("http://a/x", "http://a:5000/y", "http://a:5000/y"),
        ("http://127.0.0.1/x", "http://localhost:1/y", "http://localhost:1/y"),
    ],
)
def test_an_address_that_is_followed(url: str, location: str, expected: str) -> None:
    assert next_url(url, location) == expected


@pytest.mark.parametrize(
    ("url", "location"),
    [
        *(("https://a/", "http://a/"), ("https://a/", "http://127.0.0.1/")),
        *(("http://a/", "http://b/"), ("http://a/", "http://127.0.0.1/")),
        ("https://a/", "file:///etc/passwd"),
        *(("https://a/", "https://b:99999/"), ("https://a/", "https://u@b/")),
        ("https://a/", "https://b/" + "x" * 9000),
    ],
)
def test_an_address_that_is_not_followed(url: str, location: str) -> None:
    with pytest.raises(ValueError, match=r"^it |out of range"):
        next_url(url, location)


def test_credentials_are_for_scheme_host_and_port() -> None:
    assert origin("https://a/x") == origin("https://A:443/y")
    different = {origin(url) for url in ("https://a/", "http://a/", "https://a:444/", "https://b/")}
    assert len(different) == 4


def test_messages_show_no_query() -> None:
    assert shown_url("https://a:1/x?signature=s#f") == "https://a:1/x"


@pytest.mark.parametrize(
    ("variables", "scheme", "host", "expected"),
    [
        ({}, "https", "a.example", None),
        ({"HTTPS_PROXY": "http://p:1"}, "https", "a.example", "http://p:1"),
        ({"https_proxy": "p:1"}, "https", "a.example", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http", "a.example", None),
        ({"HTTP_PROXY": "http://p:1"}, "http", "a.example", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "https", "127.0.0.1", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b,.example"}, "https", "a.example", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b"}, "https", "a.example", "http://p:1"),
    ],
)
def test_proxies_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    scheme: str,
    host: str,
    expected: str | None,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(scheme, host, host) == expected
