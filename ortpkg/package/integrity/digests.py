r"""Read and write ``digests.json``: SHA-256 and size of each file of a package.

It detects damage, not tampering. It stands beside manifest.json, so that no other reader of the
package rejects it::

    {"schema_version": "1.0", "algorithm": "sha256",
     "files": {"models/m/metadata.json": {"digests": ["<hex>"], "nbytes": 123}, ...},
     "package": "<hex>"}

``package`` is the SHA-256 over one line ``<hex>  <path>\\n`` per file, sorted by the path's bytes:
the directory hash of onnxruntime's shared assets. digests.json itself is not part of it.

While a change is being committed (``transaction.py``, docs/adr/0002-commit-protocol.md) ``pending``
lists what the change adds, removes and replaces. Each document that it replaces has two digests:
the old one, then the new one that ``pending`` announces. Every other file has exactly one digest; a
record with more is damaged, since any of them would be accepted.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.document_rules import DOCUMENT_SHAPE
from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.finding_collector import finding
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.documents.json_documents import dump_document, parse_document, read_document
from ortpkg.foundations.documents.newer_documents import made_by_newer
from ortpkg.foundations.errors import PackageFormatError, quoted
from ortpkg.foundations.storage.hashing import FileDigest
from ortpkg.package.sidecar import DIGESTS_FILE

STAGING_PREFIX = ".ortpkg-"
"""Prefix of names in the root that hold unpublished files of a change, running or interrupted."""

MOST_FILES = 100_000
WRONG_SUM = "its entries do not add up to the package digest that it states"
#: A file that exceeds its record by more is not read: it differs for certain, and a sparse file
#: of terabytes costs a stranger nothing.
_MOST_EXCESS_NBYTES = 64 << 20
#: How often digests.json is read again because a longer one replaced it meanwhile.
_MOST_ATTEMPTS = 10
_SURROGATE = re.compile("[\ud800-\udfff]")
LIMITS = DocumentLimits(nbytes=128 * 1024 * 1024, values=10 * MOST_FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """Record of a file in digests.json: several digests only while a change is being committed."""

    digests: tuple[str, ...]
    nbytes: int

    @classmethod
    def of(cls, digest: FileDigest) -> RecordedFile:
        """Return the record of a file with this digest and no other."""
        return cls(digests=(digest.sha256,), nbytes=digest.nbytes)

    def has_other_size(self, digest: FileDigest) -> bool:
        """Return True if the record has this digest with another size: it contradicts itself.

        Always False while a change is committed: a document then has two sizes, only one of them
        recorded.
        """
        return self.digests == (digest.sha256,) and self.nbytes != digest.nbytes

    def is_far_exceeded_by(self, nbytes: int) -> bool:
        """Return True if a file of this size differs for certain, so that it need not be read.

        Always False while a change is committed: a document then has two sizes, only one of them
        recorded.
        """
        return len(self.digests) == 1 and nbytes > self.nbytes + _MOST_EXCESS_NBYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """Change that was begun; the digest of one document shows if it happened.

    Attributes:
        commit_document: the document whose replacement is the commit point.
        committed_digest: its SHA-256 afterwards; the change has happened if and only if the file
            has it.
        adds: files and directories that are garbage if the change did not happen.
        removes: files and directories that are garbage if it did.
        documents: the other documents that it replaces → their SHA-256 afterwards.
    """

    commit_document: str
    committed_digest: str
    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    documents: Mapping[str, str] = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageDigests:
    """Content of digests.json; paths are relative to the root, with ``/``.

    Attributes:
        files: path → record.
        pending: the change that is being committed; None for none.
        declared_digest: the sum in the document that was read; None if none was read.
    """

    files: Mapping[str, RecordedFile] = field(default_factory=dict)
    pending: PendingChange | None = None
    declared_digest: str | None = field(default=None, compare=False)

    @property
    def wrong_sum(self) -> str:
        """Reason why the stated sum proves nothing; "" if it is right, or none was read."""
        return "" if self.declared_digest in {None, self.package_digest} else WRONG_SUM

    @property
    def package_digest(self) -> str:
        """SHA-256 of the whole package, as it is once a pending change is done."""
        sha256 = hashlib.sha256()
        for path in sorted(self.files, key=os.fsencode):
            sha256.update(f"{self.files[path].digests[-1]}  {path}\n".encode())
        return sha256.hexdigest()


def read_digests(root: Path) -> PackageDigests | None:
    """Return the content of ``root/digests.json``; None if there is none ("unverified").

    Raises:
        PackageFormatError: it breaks its schema, names a path that is not a plain relative one, or
            contradicts itself: a second digest of a file, or a sum that is not that of its entries.
    """
    recorded = read_entries(root)
    if recorded is not None and (why_not := recorded.wrong_sum):
        raise _malformed(root, "/package", why_not, _GET_ANOTHER)
    return recorded


def read_entries(root: Path) -> PackageDigests | None:
    """Read digests.json like :func:`read_digests`, but leave the sum to the caller."""
    if not os.path.lexists(root / DIGESTS_FILE):
        return None
    return _digests_in(read_digests_document(root), root)


def read_digests_document(root: Path) -> dict[str, Any]:
    """Return digests.json as JSON, unchecked.

    Raises:
        PackageFormatError: it cannot be read or exceeds a limit.
    """
    path = root / DIGESTS_FILE
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise _malformed(root, "", "is a link that leads out of the package")
    for _ in range(_MOST_ATTEMPTS):
        # The reader allocates as much memory as it may read: no more than the file's size.
        nbytes = _nbytes_of(path)
        try:
            return read_document(path, document=DIGESTS_FILE, limits=LIMITS._replace(nbytes=nbytes))
        except PackageFormatError:
            if _nbytes_of(path) == nbytes:
                raise
            # a command replaced it meanwhile, perhaps with a longer one
    return read_document(path, document=DIGESTS_FILE, limits=LIMITS)


def _nbytes_of(path: Path) -> int:
    """Return how much of digests.json may be read; 0 if the reader will report the error."""
    try:
        return min(path.stat().st_size, LIMITS.nbytes)
    except OSError:
        return 0


def parse_digests(content: bytes, root: Path) -> PackageDigests:
    """Parse a digests.json like :func:`read_digests`; ``root`` is for messages."""
    recorded = _digests_in(parse_document(content, document=DIGESTS_FILE, limits=LIMITS), root)
    if why_not := recorded.wrong_sum:
        raise _malformed(root, "/package", why_not, _GET_ANOTHER)
    return recorded


def _digests_in(document: Mapping[str, Any], root: Path) -> PackageDigests:
    if findings := check_schema(document, "digests", document=DIGESTS_FILE):
        if newer := made_by_newer(document):
            raise _malformed(root, "/schema_version", newer, remedy="")
        raise PackageFormatError.from_findings(findings, path=root)
    files = {
        path: RecordedFile(digests=tuple(entry["digests"]), nbytes=entry["nbytes"])
        for path, entry in document["files"].items()
    }
    pending = _pending_of(document.get("pending"), root)
    named = (
        (*pending.adds, *pending.removes, *pending.documents, pending.commit_document)
        if pending
        else ()
    )
    check_recordable(root, (*files, *named), remedy=_WRITE_ANEW)
    _check_one_digest_each(root, files, pending)
    return PackageDigests(files=files, pending=pending, declared_digest=document["package"])


def dump_digests(digests: PackageDigests) -> bytes:
    """Return the bytes of digests.json: sorted by path, two spaces, a final line feed."""
    document: dict[str, Any] = {
        "schema_version": "1.0",
        "algorithm": "sha256",
        "files": {
            path: {
                "digests": list(digests.files[path].digests),
                "nbytes": digests.files[path].nbytes,
            }
            for path in sorted(digests.files, key=os.fsencode)
        },
        "package": digests.package_digest,
    }
    if digests.pending is not None:
        document["pending"] = {
            "commit_document": digests.pending.commit_document,
            "committed_digest": digests.pending.committed_digest,
            "adds": list(digests.pending.adds),
            "removes": list(digests.pending.removes),
        }
        if digests.pending.documents:
            document["pending"]["documents"] = dict(digests.pending.documents)
    return dump_document(document)


def _pending_of(value: Any, root: Path) -> PendingChange | None:
    if value is None:
        return None
    try:
        texts = [value["commit_document"], value["committed_digest"]]
        adds, removes = _list_of(value["adds"]), _list_of(value["removes"])
        documents = dict(value.get("documents", {}))
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(
            root, "/pending", "pending is not an object with commit_document, adds and removes"
        ) from error
    if not all(
        isinstance(text, str) for text in (*texts, *adds, *removes, *documents, *documents.values())
    ):
        raise _malformed(root, "/pending", "pending holds something else than texts")
    if len(adds) + len(removes) + len(documents) > MOST_FILES:
        raise _malformed(root, "/pending", f"pending names more than {MOST_FILES} files")
    if not all(path.endswith(".json") for path in (texts[0], *documents)):
        raise _malformed(
            root, "/pending", "pending calls a file a document whose name does not end in .json"
        )
    return PendingChange(
        commit_document=texts[0],
        committed_digest=texts[1],
        adds=adds,
        removes=removes,
        documents=documents,
    )


def _check_one_digest_each(
    root: Path, files: Mapping[str, RecordedFile], pending: PendingChange | None
) -> None:
    """Raise PackageFormatError if a file has a second digest that no announced change explains.

    A reader accepts any digest of a file, while a signature states one.
    """
    new_digests: dict[str, str] = {}
    if pending is not None:
        new_digests = {**pending.documents, pending.commit_document: pending.committed_digest}
    for path, file in files.items():
        count = len(file.digests)
        if count == 1 or (count == 2 and new_digests.get(path) == file.digests[-1]):
            continue
        pointer = f"/files/{path.replace('~', '~0').replace('/', '~1')}/digests"
        message = (
            f"has {count} digests of {quoted(path)}; a file has one, and only a document that an"
            " announced change replaces has two, the new one last"
        )
        raise _malformed(root, pointer, message, _GET_ANOTHER)


def _list_of(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(value)


#: Remedies for a wrong document, a contradictory one, and a wrong file name.
_WRITE_ANEW = "delete digests.json: the next authoring command writes it anew"
_GET_ANOTHER = f"do not trust the package: fetch it anew, or take {DIGESTS_FILE} from a good copy"
_RENAME = "rename the file"


def check_recordable(root: Path, paths: Iterable[str], *, remedy: str = _RENAME) -> None:
    """Raise PackageFormatError for a path that digests.json may not hold.

    The document is untrusted: its files are hashed, and pending ones deleted, so paths must stay in
    the package.

    Args:
        root: the package.
        paths: relative to it.
        remedy: for a wrong path; by default that of a file to be recorded.
    """
    for path in paths:
        segments = path.split("/")
        is_plain = (
            not any(segment in ("", ".", "..") for segment in segments) and ":" not in segments[0]
        )
        if _SURROGATE.search(path):
            raise _malformed(root, "", f"{quoted(path)} is not well-formed Unicode", remedy)
        if not is_plain or "\\" in path or "\0" in path:
            problem = f"{quoted(path)} is not a plain relative path with '/'"
            raise _malformed(root, "", problem, remedy)


def _malformed(
    root: Path, pointer: str, message: str, remedy: str = _WRITE_ANEW
) -> PackageFormatError:
    problem = finding(DOCUMENT_SHAPE, DIGESTS_FILE, message, pointer=pointer, remedy=remedy)
    return PackageFormatError.from_findings([problem], path=root)
