"""References to packed files by address: on a web server, in a bucket, on a hub of models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ortpkg.foundations.errors import PackageReferenceError, quoted
from ortpkg.package.references.http_addresses import is_loopback, split_url

ARCHIVE_SUFFIX = ".ortpkg"
_HTTP, _HTTPS, _PLAIN_HTTP, _HUB = "http", "https", "ortpkg+http", "hf"
#: Schemes of storage that need the library of an extra.
_STORES = ("s3", "gs", "az", _HUB)
URL_SCHEMES = (_HTTPS, _PLAIN_HTTP, *_STORES)

_BUCKET = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_HUB_KINDS = ("models", "datasets", "spaces")
_HUB_NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_HUB_REVISION = re.compile("[A-Za-z0-9_][A-Za-z0-9._/-]{0,254}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlReference:
    """Reference to a packed file (``name.ortpkg``) by its address.

    Attributes:
        scheme: ``https``, ``http``, or a scheme of an extra.
        url: The address. Its query may be a signature and is never shown.
    """

    scheme: str
    url: str

    def __str__(self) -> str:
        shown = self.url.partition("?")[0].partition("#")[0]
        if self.scheme == _HTTP and not is_loopback(urlsplit(self.url).hostname or ""):
            return f"{_PLAIN_HTTP}{shown.removeprefix(_HTTP)}"
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """File of a repository on a hub.

    Attributes:
        kind: ``models``, ``datasets`` or ``spaces``.
        repository: ``owner/name``.
        revision: Branch, tag or commit; None for the main branch.
        path: Path of the file in the repository.
    """

    kind: str
    repository: str
    revision: str | None
    path: str


def parse_url_reference(text: str, scheme: str, rest: str) -> UrlReference:
    """Parse the reference ``text``, which is ``scheme://rest``.

    Raises:
        PackageReferenceError: The text does not name a packed file; the message shows no secrets.
    """
    if not rest.strip("/"):
        raise _wrong(text, f"it ends after {scheme}://")
    host, _, path = rest.partition("/")
    if scheme != _HUB and "@" in host:
        raise _with_credentials(scheme, host)
    if not path.partition("?")[0].partition("#")[0].endswith(ARCHIVE_SUFFIX):
        raise _wrong(
            text,
            f"a package behind {scheme}:// is a packed file, whose name ends in {ARCHIVE_SUFFIX};"
            " a registry is oci://host/repository",
        )
    if scheme in (_HTTPS, _HTTP, _PLAIN_HTTP):
        return _web_reference(text, scheme, rest)
    if "?" in rest or "#" in rest:
        raise _wrong(text, "there is no ? or # in it")
    if scheme == _HUB:
        hub_file(UrlReference(scheme=scheme, url=text))
    elif _BUCKET.fullmatch(host) is None:
        raise _wrong(text, f"{quoted(host)} is not the name of a bucket")
    return UrlReference(scheme=scheme, url=f"{scheme}://{rest}")


def hub_file(reference: UrlReference) -> HubFile:
    """Parse an ``hf://`` reference.

    Raises:
        PackageReferenceError: The reference breaks the grammar.
    """
    parts = reference.url.partition("://")[2].split("/")
    kind = parts.pop(0) if parts[0] in _HUB_KINDS else _HUB_KINDS[0]
    owner, name, *path = [*parts, "", ""][: max(2, len(parts))]
    name, at, revision = name.partition("@")
    revision = unquote(revision)
    is_right = (
        all(_HUB_NAME.fullmatch(part) for part in (owner, name))
        and (not at or (_HUB_REVISION.fullmatch(revision) and ".." not in revision))
        and path
        and all(part not in ("", ".", "..") for part in path)
    )
    if not is_right:
        raise _wrong(
            str(reference),
            f"a file on the hub is hf://OWNER/NAME[@REVISION]/PATH{ARCHIVE_SUFFIX}, with datasets/"
            " or spaces/ before OWNER where it is in one",
        )
    return HubFile(
        kind=kind,
        repository=f"{owner}/{name}",
        revision=revision if at else None,
        path="/".join(path),
    )


def _web_reference(text: str, scheme: str, rest: str) -> UrlReference:
    is_plain = scheme != _HTTPS
    url = f"{_HTTP if is_plain else _HTTPS}://{rest.partition('#')[0]}"
    try:
        parts = split_url(url)
    except ValueError as error:
        raise _wrong(text, str(error)) from None
    if scheme == _HTTP and not is_loopback(parts.hostname or ""):
        raise _wrong(
            text,
            "plain HTTP is not taken: use https://, or ortpkg+http:// for a server that has"
            " nothing else",
        )
    return UrlReference(scheme=parts.scheme, url=url)


def _with_credentials(scheme: str, host: str) -> PackageReferenceError:
    # The text before the @ is a secret and is not repeated.
    host = host.rpartition("@")[2]
    return PackageReferenceError(
        f"a reference holds no credentials: leave out what stands before {quoted(host)}",
        reference=f"{scheme}://{host}",
    )


def _wrong(text: str, why: str) -> PackageReferenceError:
    shown = text.partition("?")[0]
    return PackageReferenceError(f"{quoted(shown)} names no package: {why}", reference=shown)
