"""Read and write ``ortpkg.lock``: the exact bytes chosen for a project, for all its machines.

The lock is a sorted JSON document, so that two locks differ only where their packages do. One lock
serves all machines: it has every file that any of them gets, and the variants that each of them
runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.distribution.project.project_file import find_project
from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.documents.json_documents import dump_document, read_document
from ortpkg.foundations.documents.newer_documents import made_by_newer
from ortpkg.foundations.errors import AuthoringError, PackageFormatError, UsageError, quoted
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.package.references.package_references import StoreReference

LOCK_FILE = "ortpkg.lock"
NO_PROFILE = ""
"""Name for the machine that the lock was made on, in a project without profiles."""

_LIMITS = DocumentLimits(nbytes=64 * 1024 * 1024, depth=16, values=5_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedFile:
    """One file of a package: its SHA-256 and its size in bytes."""

    sha256: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """One package of a lock.

    Attributes:
        name: in the project.
        source: the repository as in the project's file, without a version.
        version: the tag by which it was found; for people, the digest decides.
        digest: of its manifest, ``sha256:<hex>``.
        package_digest: SHA-256 over all its files, as ``ortpkg verify`` prints it.
        files: path → file; of the whole package, absent variants included.
        variants: profile → ``component/variant`` of the variants chosen for it.
    """

    name: str
    source: str
    version: str
    digest: str
    package_digest: str
    files: Mapping[str, LockedFile]
    variants: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A whole lock.

    Attributes:
        packages: name → the package.
        requests: name → the project's request when the lock was made ("oci://h/d >=1,<2"); if the
            request differs by now, the lock is out of date.
    """

    packages: Mapping[str, LockedPackage]
    requests: Mapping[str, str] = EMPTY


def read_lock(folder: Path) -> Lock | None:
    """Return the lock of the project in ``folder``; None if there is none.

    Raises:
        UsageError: it cannot be read, or is not valid.
    """
    path = folder / LOCK_FILE
    if not path.exists():
        return None
    try:
        document = read_document(path, document=LOCK_FILE, limits=_LIMITS)
        if findings := check_schema(document, "lock", document=LOCK_FILE):
            if newer := made_by_newer(document):
                raise UsageError(f"{quoted(path)} {newer}")
            raise PackageFormatError.from_findings(findings, path=path)
    except PackageFormatError as error:
        lines = "; ".join(str(finding) for finding in error.findings[:3]) or str(error)
        raise UsageError(
            f"{quoted(path)} is no lock: {lines}; bring back an earlier copy, or remove the file:"
            " ortpkg lock then makes a new one"
        ) from error
    packages = document["packages"]
    return Lock(
        packages={name: _package(name, value) for name, value in packages.items()},
        requests={name: value["wanted"] for name, value in packages.items()},
    )


def as_locked(reference: StoreReference, folder: Path | None = None) -> StoreReference:
    """Return the reference with the digest in the lock of the project of ``folder``.

    A reference with a tag or digest is returned as it is, and so is a name that the project does
    not request, or has not locked. ``folder`` is the current one by default.

    Raises:
        UsageError: the project's file or lock is wrong.
    """
    if reference.tag is not None or reference.digest is not None:
        return reference
    project = find_project(folder)
    if project is None or reference.name not in project.packages:
        return reference
    lock = read_lock(project.folder)
    locked = None if lock is None else lock.packages.get(reference.name)
    return reference if locked is None else replace(reference, digest=locked.digest)


def write_lock(folder: Path, lock: Lock) -> None:
    """Write the lock of the project in ``folder``, in one step.

    Raises:
        AuthoringError: that is impossible; the previous lock stays.
    """
    content = dump_lock(lock)
    try:
        replace_file(folder / LOCK_FILE, lambda file: file.write(content))
    except OSError as error:
        raise AuthoringError(
            f"{quoted(folder / LOCK_FILE)} cannot be written: {error.strerror or error}"
        ) from error


def dump_lock(lock: Lock) -> bytes:
    """Return the lock's bytes: names and paths sorted."""
    packages = {
        name: _document(lock.packages[name], lock.requests.get(name, ""))
        for name in sorted(lock.packages)
    }
    return dump_document({"schema_version": "1.0", "packages": packages})


def _document(package: LockedPackage, wanted: str) -> dict[str, Any]:
    return {
        "wanted": wanted,
        "from": package.source,
        "version": package.version,
        "digest": package.digest,
        "package_digest": package.package_digest,
        "variants": {
            profile: list(package.variants[profile]) for profile in sorted(package.variants)
        },
        "files": {
            path: {"sha256": package.files[path].sha256, "nbytes": package.files[path].nbytes}
            for path in sorted(package.files)
        },
    }


def _package(name: str, value: Mapping[str, Any]) -> LockedPackage:
    return LockedPackage(
        name=name,
        source=value["from"],
        version=value["version"],
        digest=value["digest"],
        package_digest=value["package_digest"],
        files={
            path: LockedFile(sha256=file["sha256"], nbytes=file["nbytes"])
            for path, file in value["files"].items()
        },
        variants={profile: tuple(names) for profile, names in value["variants"].items()},
    )
