"""Compares patterns of a trust policy with names and places, whichever way a place is spelled.

One registry has many spellings: upper case, a default port, a dot behind the host, an address in
other digits, a scheme that asks for plain HTTP, the hub's names, needless slashes and escapes. A
rule holds for all of them, so that nobody reaches a laxer rule by spelling. In patterns ``*`` and
``?`` match any characters and every other character stands for itself, ``[`` too, in which
addresses of IPv6 stand.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote

from ortpkg.errors import PackageReferenceError
from ortpkg.registry.http_addresses import parse_registry_host

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: Scheme → how it is spelled where it does not ask for plain HTTP, and its default port.
_WEB: dict[str, tuple[str, str]] = {
    "oci": ("oci", "443"),
    "oci+http": ("oci", "80"),
    "https": ("https", "443"),
    "http": ("https", "80"),
    "ortpkg+http": ("https", "80"),
}
_OCI, _HUB, _LAYOUT = "oci", "hf", "oci-layout:"
_BUCKETS = frozenset({"s3", "gs", "az"})
_DOCKER_HUB, _DOCKER_HUB_PREFIX = "docker.io", "library/"
_HOST = re.compile(r"(.*?)(?::([0-9]+|[0-9*?]+))?", re.DOTALL)
#: An IPv4 address as the system's library takes it: 127.1, 0x7f000001.
_LOOSE_ADDRESS = re.compile(r"[0-9][0-9a-fx.]*")
_WILDCARDS = re.compile(r"[*?]")
#: Escapes of characters, without those of ``*`` and ``?``, which a pattern takes for wildcards.
_ESCAPE = re.compile(r"(?:%(?!2[aA]|3[fF])[0-9a-fA-F]{2})+")
_SLASHES = re.compile("/{2,}")


def is_match(pattern: str, text: str) -> bool:
    """Whether a policy's pattern is about a name, or about a place in one of its spellings."""
    glob = _pattern_form(pattern).replace("[", "[[]")
    return any(fnmatchcase(form, glob) for form in _forms(text))


def _pattern_form(pattern: str) -> str:
    """The pattern with what is spelled out in it in normal form."""
    scheme, location = _split(pattern)
    if scheme in _WEB:
        host, port, path = _host_port_path(location)
        # A wildcard could stand for another port, too, once this one is left out.
        if port == _WEB[scheme][1] and not _WILDCARDS.search(host):
            port = ""
        return _joined(scheme, host, port, path)
    if scheme == _HUB:
        return f"{_HUB}://{_hub_path(location)}"
    if scheme in _BUCKETS:
        return f"{scheme}://{_SLASHES.sub('/', location)}"
    return f"{scheme}://{location}" if scheme else pattern


def _forms(text: str) -> Iterator[str]:
    """The normal forms of a name or place: each that a pattern may be about."""
    scheme, location = _split(text)
    if scheme in _WEB:
        host, port, path = _host_port_path(location)
        encrypted, default = _WEB[scheme]
        ports = ("", default) if port in ("", default) else (port,)
        for own_scheme in dict.fromkeys((scheme, encrypted)):
            for own_port in ports:
                for own_path in _paths(own_scheme, host, path):
                    yield _joined(own_scheme, host, own_port, own_path)
    elif scheme == _HUB:
        yield f"{_HUB}://{_hub_path(location)}"
    elif scheme in _BUCKETS:
        yield f"{scheme}://{_SLASHES.sub('/', location)}"
    elif text.startswith(_LAYOUT):
        yield _LAYOUT + _file_path_form(text.removeprefix(_LAYOUT))
    elif scheme:
        yield f"{scheme}://{location}"
    else:
        yield _file_path_form(text) if Path(text).is_absolute() else text


def _split(text: str) -> tuple[str, str]:
    """(scheme in lower case, what is behind it); "" where there is no scheme."""
    match = _SCHEME.match(text)
    return ("", text) if match is None else (match[1].lower(), text[match.end() :])


def _joined(scheme: str, host: str, port: str, path: str) -> str:
    return f"{scheme}://{host}{f':{port}' if port else ''}{path}"


def _host_port_path(location: str) -> tuple[str, str, str]:
    host, slash, path = location.partition("/")
    match = _HOST.fullmatch(host)
    assert match is not None, "any text is a host with or without a port"
    port = (match[2] or "").lstrip("0")
    return _host_form(match[1].lower()), port, slash + _path_form(path).lstrip("/")


def _host_form(host: str) -> str:
    host = host.removesuffix(".")
    if host.startswith("[") and host.endswith("]"):
        try:
            address = ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return host
        # ::ffff:10.0.0.1 is 10.0.0.1 to every system.
        return str(address.ipv4_mapped or f"[{address.compressed}]")
    if _LOOSE_ADDRESS.fullmatch(host):
        try:
            return socket.inet_ntoa(socket.inet_aton(host))
        except OSError:
            return host
    try:
        return _DOCKER_HUB if parse_registry_host(host).is_docker_hub else host
    except PackageReferenceError:
        return host


def _path_form(path: str) -> str:
    """A path without escapes, doubled slashes, ``.`` and ``..``: servers differ in which they read.

    What one of them takes for the same is the same here.
    """
    path = _ESCAPE.sub(lambda match: unquote(match[0], errors="surrogateescape"), path)
    parts: list[str] = []
    for part in _SLASHES.sub("/", path).split("/"):
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _file_path_form(path: str) -> str:
    """A path of files; normpath leaves two slashes in front, which mean one."""
    normal = os.path.normpath(path)
    return normal[1:] if normal.startswith("//") and sys.platform != "win32" else normal


def _paths(scheme: str, host: str, path: str) -> tuple[str, ...]:
    """A path, and on the hub a repository of one word with and without ``library/``."""
    name = path.removeprefix("/").removeprefix(_DOCKER_HUB_PREFIX)
    if not scheme.startswith(_OCI) or host != _DOCKER_HUB or "/" in name:
        return (path,)
    return f"/{name}", f"/{_DOCKER_HUB_PREFIX}{name}"


def _hub_path(location: str) -> str:
    """``owner/name/path`` of the hub of models, whose names have no case; without a revision."""
    parts = _path_form(location.removeprefix("models/")).split("/")
    first = 1 if parts[0] in ("datasets", "spaces") else 0
    names = [part.partition("@")[0].lower() for part in parts[first : first + 2]]
    return "/".join([*parts[:first], *names, *parts[first + 2 :]])
