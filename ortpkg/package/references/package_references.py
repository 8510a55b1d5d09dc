"""References to packages: a directory, a packed file, a name in the store, a repository.

docs/references.md has the grammar.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.foundations.errors import PackageReferenceError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.storage.digest_text import is_digest
from ortpkg.package.references.url_references import (
    ARCHIVE_SUFFIX,
    URL_SCHEMES,
    UrlReference,
    parse_url_reference,
)

DEFAULT_TAG = "latest"
_PATH_SUFFIXES = (".ortpackage", ARCHIVE_SUFFIX, ".onnx")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LAYOUT = "oci-layout:"
_OCI = "oci"
_PLAIN_OCI = "oci+http"
_SCHEMES = (_OCI, _PLAIN_OCI, *URL_SCHEMES)

_PART = "[a-z0-9]+(?:(?:[.]|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(_PART)
_REPOSITORY = re.compile(f"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HOST = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?)(?::([0-9]{1,5}))?"
)
_MOST_CHARACTERS = 4096
_MOST_REPOSITORY_CHARACTERS = 255
_MOST_NAME_CHARACTERS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class PathReference:
    """Reference to a directory or packed file (``name.ortpkg``) at ``path``."""

    path: Path

    @property
    def is_archive(self) -> bool:
        """True if the name is that of a packed file."""
        return self.path.name.endswith(ARCHIVE_SUFFIX)

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReference:
    """Reference to an installed package by its name, and the tag or digest of one version.

    Without tag and digest it means the version in use.
    """

    name: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        return self.name + _version_text(self.tag, self.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class OciReference:
    """Reference to a package in an OCI registry.

    Attributes:
        host: Host, with its port if it has one; an IPv6 address in brackets.
        repository: Path of the repository.
        tag, digest: Version; if both are set, the digest decides.
        is_plain_http: True if the reference asks for plain HTTP.
    """

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None
    is_plain_http: bool = False

    @property
    def version(self) -> str:
        """Tag or digest to request: the digest, else the tag, else ``latest``."""
        return self.digest or self.tag or DEFAULT_TAG

    @property
    def without_version(self) -> OciReference:
        """Reference to the repository alone."""
        return replace(self, tag=None, digest=None)

    def __str__(self) -> str:
        scheme = _PLAIN_OCI if self.is_plain_http else _OCI
        version = _version_text(self.tag, self.digest)
        return f"{scheme}://{self.host}/{self.repository}{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutReference:
    """Reference to a package in a folder that is an OCI image layout."""

    directory: Path
    tag: str | None = None
    digest: str | None = None

    @property
    def version(self) -> str:
        """Tag or digest to request: the digest, else the tag, else ``latest``."""
        return self.digest or self.tag or DEFAULT_TAG

    @property
    def without_version(self) -> LayoutReference:
        """Reference to the folder alone."""
        return replace(self, tag=None, digest=None)

    def __str__(self) -> str:
        return f"{_LAYOUT}{self.directory}{_version_text(self.tag, self.digest)}"


Reference = PathReference | StoreReference | OciReference | LayoutReference | UrlReference


def parse_reference(text: str | os.PathLike[str]) -> Reference:
    """Parse a reference.

    A bare word means the file or directory of that name if there is one here, else a name in the
    store; the disk is read for nothing else.

    Raises:
        PackageReferenceError: The text breaks the grammar; the message says where.
    """
    if not isinstance(text, str):
        return PathReference(path=Path(text))
    if not text or "\0" in text or len(text) > _MOST_CHARACTERS:
        raise PackageReferenceError(
            f"{quoted(text[:80])} names no package: a reference is a directory, a packed file, a"
            " name in the store, or a place such as oci://host/repository:tag",
            reference=text,
        )
    if text.startswith(_LAYOUT):
        return _layout_reference(text)
    if match := _SCHEME.match(text):
        return _with_scheme(text, match[1].lower(), text[match.end() :])
    return _path_or_name(text)


def unversioned_reference(text: str) -> str:
    """Return a reference without its version, with absolute paths; "" if it is invalid."""
    try:
        reference = parse_reference(text)
    except PackageReferenceError:
        return ""
    if isinstance(reference, OciReference):
        return str(reference.without_version)
    if isinstance(reference, LayoutReference):
        return f"{_LAYOUT}{reference.directory.absolute()}"
    return str(reference.path.absolute()) if isinstance(reference, PathReference) else text


def is_store_name(text: str) -> bool:
    """Return True if a package may have that name in the store."""
    return len(text) <= _MOST_NAME_CHARACTERS and _NAME.fullmatch(text) is not None


def is_repository(text: str) -> bool:
    """Return True for a valid repository name, such as ``models/digits``."""
    return len(text) <= _MOST_REPOSITORY_CHARACTERS and _REPOSITORY.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Return True for a valid tag."""
    return _TAG.fullmatch(text) is not None


def _with_scheme(text: str, scheme: str, rest: str) -> Reference:
    if scheme in (_OCI, _PLAIN_OCI):
        return _oci_reference(text, rest, is_plain_http=scheme == _PLAIN_OCI)
    if scheme not in (*_SCHEMES, "http"):
        schemes = ", ".join(f"{scheme_name}://" for scheme_name in _SCHEMES)
        raise _wrong(text, f"{quoted(scheme)} is none of {schemes}{did_you_mean(scheme, _SCHEMES)}")
    return parse_url_reference(text, scheme, rest)


def _oci_reference(text: str, rest: str, *, is_plain_http: bool) -> OciReference:
    host, slash, path = rest.partition("/")
    if "@" in host:
        # Not quoted, because the text before the @ is a secret.
        host = host.rpartition("@")[2]
        raise PackageReferenceError(
            "a reference holds no credentials: leave them out, and use ortpkg login"
            f" {quoted(host)}",
            reference=f"oci://{host}",
        )
    match = _HOST.fullmatch(host)
    if match is None or ".." in host or (match[1] and not 0 < int(match[1]) < 65536):
        raise _wrong(text, f"{quoted(host)} is not a host, or a host and a port")
    if not slash or not path:
        raise _wrong(text, "it names no repository: oci://host/repository[:tag][@digest]")
    repository, tag, digest = _split_version(text, path)
    if not is_repository(repository):
        raise _wrong(
            text,
            f"{quoted(repository)} is not a repository: names of lower-case letters and digits,"
            " with . _ - inside and / between",
        )
    return OciReference(
        host=host.lower(),
        repository=repository,
        tag=tag,
        digest=digest,
        is_plain_http=is_plain_http,
    )


def _layout_reference(text: str) -> LayoutReference:
    rest = text.removeprefix(_LAYOUT)
    directory, at, digest = rest.rpartition("@")
    if not at or not digest.startswith("sha256:"):
        directory, digest = rest, ""
    elif not is_digest(digest):
        raise _wrong_digest(text, digest)
    before, colon, tag = directory.rpartition(":")
    has_tag = bool(colon) and is_tag(tag)
    directory = before if has_tag else directory
    if not directory:
        raise _wrong(text, f"it names no folder: {_LAYOUT}FOLDER[:tag][@digest]")
    return LayoutReference(
        directory=Path(directory), tag=tag if has_tag else None, digest=digest or None
    )


def _path_or_name(text: str) -> PathReference | StoreReference:
    is_path = (
        "/" in text
        or os.sep in text
        or text.startswith(".")
        or text.endswith(_PATH_SUFFIXES)
        or os.path.lexists(text)
    )
    name, separator, _ = text.replace("@", ":", 1).partition(":")
    if is_path or not is_store_name(name):
        return PathReference(path=Path(text))
    if not separator:
        return StoreReference(name=text)
    name, tag, digest = _split_version(text, text)
    return StoreReference(name=name, tag=tag, digest=digest)


def _split_version(text: str, path: str) -> tuple[str, str | None, str | None]:
    """Split a path into name, tag and digest."""
    rest, at, digest = path.partition("@")
    if at and not is_digest(digest):
        raise _wrong_digest(text, digest)
    name, colon, tag = rest.partition(":")
    if colon and not is_tag(tag):
        raise _wrong(
            text,
            f"{quoted(tag)} is not a tag: at most 128 letters, digits, . _ - and no . or - in"
            " front",
        )
    return name, tag if colon else None, digest if at else None


def _version_text(tag: str | None, digest: str | None) -> str:
    return (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")


def _wrong_digest(text: str, digest: str) -> PackageReferenceError:
    return _wrong(
        text, f"{quoted(digest[:80])} is not a digest: sha256: and 64 lower-case hex digits"
    )


def _wrong(text: str, why: str) -> PackageReferenceError:
    return PackageReferenceError(f"{quoted(text)} names no package: {why}", reference=text)
