"""Matching of a trust policy's patterns against names and sources, in any spelling of a source.

One registry has many spellings: upper case, a default port, a trailing dot, a numeric address in
another notation, a scheme for plain HTTP, the hub's names, extra slashes and escapes. A rule
applies to all of them, so that no spelling reaches a laxer rule. In patterns ``*`` and ``?`` match
any characters. Every other character stands for itself, including ``[``, which IPv6 addresses
contain.
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

from ortpkg.foundations.errors import PackageReferenceError
from ortpkg.package.references.http_addresses import parse_registry_host

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: Scheme without a request for plain HTTP, and default port, by scheme.
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
#: IPv4 address as the system's library accepts it: 127.1, 0x7f000001.
_LOOSE_ADDRESS = re.compile(r"[0-9][0-9a-fx.]*")
_WILDCARDS = re.compile(r"[*?]")
#: Escaped characters, except ``*`` and ``?``, which a pattern treats as wildcards.
_ESCAPE = re.compile(r"(?:%(?!2[aA]|3[fF])[0-9a-fA-F]{2})+")
_SLASHES = re.compile("/{2,}")


def is_match(pattern: str, text: str) -> bool:
    """Return True if a pattern matches a name, or a source in one of its spellings."""
    glob = _pattern_form(pattern).replace("[", "[[]")
    return any(fnmatchcase(form, glob) for form in _forms(text))


def _pattern_form(pattern: str) -> str:
    """Return the pattern with its literal parts in normal form."""
    scheme, location = _split(pattern)
    if scheme in _WEB:
        host, port, path = _host_port_path(location)
        # Without this port, a wildcard in the host could match another port, too.
        if port == _WEB[scheme][1] and not _WILDCARDS.search(host):
            port = ""
        return _joined(scheme, host, port, path)
    if scheme == _HUB:
        return f"{_HUB}://{_hub_path(location)}"
    if scheme in _BUCKETS:
        return f"{scheme}://{_SLASHES.sub('/', location)}"
    return f"{scheme}://{location}" if scheme else pattern


def _forms(text: str) -> Iterator[str]:
    """Yield all normal forms of a name or source that a pattern may match."""
    scheme, location = _split(text)
    if scheme in _WEB:
        host, port, path = _host_port_path(location)
        encrypted, default = _WEB[scheme]
        ports = ("", default) if port in ("", default) else (port,)
        for form_scheme in dict.fromkeys((scheme, encrypted)):
            for form_port in ports:
                for form_path in _paths(form_scheme, host, path):
                    yield _joined(form_scheme, host, form_port, form_path)
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
    """Split a text into lower-case scheme and rest; the scheme is "" if there is none."""
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
    """Return a path without escapes, doubled slashes, ``.`` and ``..``.

    Servers differ in which of these they resolve; what is the same for one of them is the same
    here.
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
    """Return a normalized file path; normpath keeps two leading slashes, which mean one."""
    normal = os.path.normpath(path)
    return normal[1:] if normal.startswith("//") and sys.platform != "win32" else normal


def _paths(scheme: str, host: str, path: str) -> tuple[str, ...]:
    """Return the spellings of a path: on Docker Hub, one word with and without ``library/``."""
    name = path.removeprefix("/").removeprefix(_DOCKER_HUB_PREFIX)
    if not scheme.startswith(_OCI) or host != _DOCKER_HUB or "/" in name:
        return (path,)
    return f"/{name}", f"/{_DOCKER_HUB_PREFIX}{name}"


def _hub_path(location: str) -> str:
    """Return ``owner/name/path`` on the hub of models in lower case, without a revision."""
    parts = _path_form(location.removeprefix("models/")).split("/")
    first = 1 if parts[0] in ("datasets", "spaces") else 0
    names = [part.partition("@")[0].lower() for part in parts[first : first + 2]]
    return "/".join([*parts[:first], *names, *parts[first + 2 :]])
