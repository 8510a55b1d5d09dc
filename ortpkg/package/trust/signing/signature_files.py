"""Signature files in a package: ``model.sig``, and those of further signers beside it.

``model.sig`` is the name that model-signing's own tool writes. A further signer gets a file in
``model.sig.d/``, named after the key.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterable
from pathlib import Path

from ortpkg.foundations.errors import PackageFormatError, SignatureError, UsageError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.package.sidecar import SIGNATURE_FILE, SIGNATURES_DIRECTORY, signature_names
from ortpkg.package.trust.signing.openssf_signature import FoundSignature
from ortpkg.package.trust.signing.signature_bundle import MOST_BUNDLE_NBYTES, parse_bundle

MOST_SIGNATURES = 16
_STAGED = ".ortpkg-signature"
_HINT_DIGITS = 16


def read_signatures(root: Path) -> tuple[FoundSignature, ...]:
    """Return the unverified signatures in the package at ``root``.

    Raises:
        SignatureError: One cannot be read or is a link, or there are more than 16.
    """
    names = signature_names(root)
    if len(names) > MOST_SIGNATURES:
        raise SignatureError(f"{quoted(root)} has more than {MOST_SIGNATURES} signatures")
    return tuple(FoundSignature(where=name, content=_content(root, name)) for name in names)


def write_signature(
    root: Path, content: bytes, *, key_digest: str, operations: FileOperations | None = None
) -> str:
    """Write a signature into a package, replacing an older one by the same key; return its path.

    Raises:
        OSError: It cannot be written.
        SignatureError: It would lie behind a link.
    """
    operations = operations or FileOperations()
    name = _name_for(root, key_digest)
    target, staged = root / name, root / _STAGED
    if target.parent != root and target.parent.is_symlink():
        raise SignatureError(f"{quoted(target.parent)} is a link: nothing is written behind one")
    is_there = target.exists()
    operations.announce(
        PlannedFiles(
            root=root,
            adds={} if is_there else {name: len(content)},
            changes=(name,) if is_there else (),
        )
    )
    if target.parent != root:
        operations.make_directory(target.parent)
    operations.unlink(staged)
    operations.write_file(staged, content)
    operations.replace(staged, target)
    operations.fsync_directory(target.parent)
    if target.parent != root:
        operations.fsync_directory(root)
    return name


def signature_paths(signatures: Iterable[FoundSignature]) -> dict[str, bytes]:
    """Return the bytes of signatures that came with a package, by path; the first is ``model.sig``.

    Each of the others is named after the key that it claims. If that name is taken, since anybody
    can claim a key, the name is a digest of its bytes.
    """
    paths: dict[str, bytes] = {}
    for signature in list(dict.fromkeys(found_signature.content for found_signature in signatures))[
        :MOST_SIGNATURES
    ]:
        path = _further(_claimed_key(signature)) if paths else SIGNATURE_FILE
        if path in paths:
            path = _further(hash_bytes(signature).sha256)
        paths[path] = signature
    return paths


def key_digest_of(content: bytes, where: str) -> str:
    """Return the digest of the key that a signature file claims.

    Raises:
        SignatureError: It does not say.
    """
    bundle = parse_bundle(content, where=where)
    if not bundle.certificates:
        return bundle.key_digest
    from ortpkg.package.trust.signing.signing_certificates import key_of_certificate  # cryptography

    return key_of_certificate(bundle.certificates[0], where).digest


def _claimed_key(signature: bytes) -> str:
    """Return the digest of the key that a signature claims, else one of its own bytes."""
    with contextlib.suppress(SignatureError, UsageError):  # the library may not be installed
        return key_digest_of(signature, "")
    return hash_bytes(signature).sha256


def _further(digest: str) -> str:
    return f"{SIGNATURES_DIRECTORY}/{digest[:_HINT_DIGITS]}.sig"


def _content(root: Path, name: str) -> bytes:
    path = root / name
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise SignatureError(f"{quoted(name)} of {quoted(root)} is no plain file")
        with path.open("rb") as stream:
            content = stream.read(MOST_BUNDLE_NBYTES + 1)
    except OSError as error:
        raise SignatureError(
            f"{quoted(name)} of {quoted(root)} cannot be read: {error.strerror}"
        ) from error
    if len(content) > MOST_BUNDLE_NBYTES:
        raise SignatureError(
            f"{quoted(name)} of {quoted(root)} has more than {MOST_BUNDLE_NBYTES} bytes"
        )
    return content


def _name_for(root: Path, key_digest: str) -> str:
    further = _further(key_digest)
    if not (root / SIGNATURE_FILE).exists():
        return SIGNATURE_FILE
    try:
        first = key_digest_of(_content(root, SIGNATURE_FILE), SIGNATURE_FILE)
    except (SignatureError, PackageFormatError):
        return further
    return SIGNATURE_FILE if first == key_digest else further
