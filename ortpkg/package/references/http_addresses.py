"""Addresses of registries, and the check of addresses that an answer sends us to.

Addresses in answers are not trusted. Those that contain a user name, or characters that URL parsers
interpret differently, are not followed.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, urljoin, urlsplit

from ortpkg.foundations.errors import PackageReferenceError, quoted

_MOST_URL_CHARACTERS = 8 * 1024
_URL = re.compile(r"[!-\[\]-~]+")  # printable ASCII without space and backslash
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_-]{1,63})*\.?"
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
#: Names of Docker Hub, and the host at which its registry answers.
_DOCKER_HUB_NAMES = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_DOCKER_HUB = "registry-1.docker.io"
#: Key of Docker Hub's credentials in Docker's config file.
_DOCKER_HUB_CREDENTIALS = "https://index.docker.io/v1/"

Scheme = Literal["http", "https"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryHost:
    """Registry host as references name it.

    Attributes:
        host: Name or IP address; an IPv6 address without brackets.
        port: Port, or None if the reference has none.
    """

    host: str
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def is_docker_hub(self) -> bool:
        """True if this is one of the names of Docker Hub."""
        return self.port is None and self.host.lower() in _DOCKER_HUB_NAMES

    @property
    def credentials_key(self) -> str:
        """Key of the registry's credentials in Docker's config file."""
        return _DOCKER_HUB_CREDENTIALS if self.is_docker_hub else str(self)

    @property
    def is_loopback(self) -> bool:
        """True if the host is this machine."""
        return is_loopback(self.host)

    def url(self, scheme: Scheme) -> str:
        """Return the ``https://host:port`` of the registry's API."""
        return f"{scheme}://{_DOCKER_HUB if self.is_docker_hub else self}"


def parse_registry_host(text: str) -> RegistryHost:
    """Parse ``host[:port]``; an IPv6 address is in brackets.

    Raises:
        PackageReferenceError: The text is not a host.
    """
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
    """Return True if the host name itself means this machine, whatever a name server says."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port; credentials for one origin are sent to no other."""
    parts = split_url(url)
    assert parts.hostname is not None
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]


def split_url(url: str) -> SplitResult:
    """Split an http or https address into its parts.

    Raises:
        ValueError: The address is invalid or not allowed; the message says why.
    """
    if len(url) > _MOST_URL_CHARACTERS or _URL.fullmatch(url) is None:
        raise ValueError("it is too long, or has characters that addresses do not have")
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("it is neither http nor https")
    if not parts.hostname or "@" in parts.netloc:
        raise ValueError("it names no host, or a user with it")
    _ = parts.port  # ValueError if the port is invalid
    return parts


def next_url(url: str, location: str) -> str:
    """Return the absolute address that an answer of ``url`` redirects to.

    Args:
        url: Address that was requested.
        location: Address in the answer, absolute or relative.

    Raises:
        ValueError: The address is invalid or would leave encryption: a redirect to plain HTTP is
            followed only from plain HTTP, on the same host or on this machine.
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
    """Return an address for messages, without its query, which may contain a signature."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
