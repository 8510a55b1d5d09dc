"""Addresses of registries, and which other address an answer may send us to.

Addresses in answers are a stranger's. Those with characters that parsers of addresses read in
different ways, or with a user's name in them, are not followed.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, urljoin, urlsplit

from ortpkg.errors import PackageReferenceError, quoted

_MOST_URL_CHARACTERS = 8 * 1024
_URL = re.compile(r"[!-\[\]-~]+")  # printable ASCII without a blank and without a backslash
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_-]{1,63})*\.?"
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: What people call Docker Hub → where its registry answers.
_DOCKER_HUB_NAMES = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_DOCKER_HUB = "registry-1.docker.io"
#: Under this name Docker keeps the credentials of Docker Hub.
_DOCKER_HUB_CREDENTIALS = "https://index.docker.io/v1/"

Scheme = Literal["http", "https"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryHost:
    """A registry as references name it.

    Attributes:
        host: a name or an IP address; one of IPv6 without brackets.
        port: None where none is named.
    """

    host: str
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def is_docker_hub(self) -> bool:
        """Whether it is Docker Hub under one of its names."""
        return self.port is None and self.host.lower() in _DOCKER_HUB_NAMES

    @property
    def credentials_key(self) -> str:
        """The name under which Docker's config file has its credentials."""
        return _DOCKER_HUB_CREDENTIALS if self.is_docker_hub else str(self)

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine."""
        return is_loopback(self.host)

    def url(self, scheme: Scheme) -> str:
        """``https://host:port`` of its API."""
        return f"{scheme}://{_DOCKER_HUB if self.is_docker_hub else self}"


def parse_registry_host(text: str) -> RegistryHost:
    """``host[:port]``; an IPv6 address in brackets. PackageReferenceError for anything else."""
    wrong = PackageReferenceError(
        f"{quoted(text)} is no registry; write host or host:port, such as models.example:5000",
        reference=text,
    )
    bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.]{2,45})\](?::([0-9]{1,5}))?", text)
    plain = re.fullmatch(r"([^:\[\]]+)(?::([0-9]{1,5}))?", text)
    match = bracketed or plain
    if match is None:
        raise wrong
    host, port = match[1], None if match[2] is None else int(match[2])
    if bracketed:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise wrong from None
    elif _HOST_NAME.fullmatch(host) is None:
        raise wrong
    if port is not None and not 0 < port < 65536:
        raise wrong
    return RegistryHost(host=host.lower(), port=port)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its very name, whatever a name server says."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: credentials for one are for no other."""
    parts = split_url(url)
    assert parts.hostname is not None
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]


def split_url(url: str) -> SplitResult:
    """An http or https address in its parts. ValueError, which says what is wrong with others."""
    if len(url) > _MOST_URL_CHARACTERS or _URL.fullmatch(url) is None:
        raise ValueError("it is too long, or has characters that addresses do not have")
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("it is neither http nor https")
    if not parts.hostname or "@" in parts.netloc:
        raise ValueError("it names no host, or a user with it")
    _ = parts.port  # ValueError where it is none
    return parts


def next_url(url: str, location: str) -> str:
    """Where an answer of ``url`` sends us.

    ValueError, which says why, for an address that is none, and where it would leave encryption: to
    plain HTTP goes only what came by plain HTTP, and stays on its host, or on this machine.
    """
    target = urljoin(url, location)
    to, came = split_url(target), split_url(url)
    if to.scheme == "http":
        if came.scheme == "https":
            raise ValueError("it leaves encryption")
        if to.hostname != came.hostname and not (
            is_loopback(to.hostname or "") and is_loopback(came.hostname or "")
        ):
            raise ValueError("it is another host without encryption")
    return target.partition("#")[0]


def shown_url(url: str) -> str:
    """An address for messages: without a query, which may be signed."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
