"""Signing of what digests.json records, and checking whose signatures cover a package.

A signature lists every recorded file with its SHA-256, and digests.json with the SHA-256 of its
bytes. Only digests.json is read for it, so a package with absent variants is signed and verified
like a complete one. ``ortpkg verify`` and every session compare the files with the recorded
digests.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.errors import PackageFormatError, SignatureError, UsageError, quoted
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.integrity.digests import PackageDigests, dump_digests, parse_digests
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.package.trust.signing.signature_bundle import (
    SignatureBundle,
    dump_bundle,
    most_bundle_nbytes,
    parse_bundle,
    signed_bytes,
)
from ortpkg.package.trust.signing.statement import Statement, dump_statement, parse_statement

if TYPE_CHECKING:
    from ortpkg.package.trust.signing.signing_keys import PrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedSigner:
    """Signer whose signatures are accepted: owner of a key, or a name certified by an authority.

    Attributes:
        name: Name for messages.
        key: Public key in PEM; empty if ``identity`` is given.
        identity: Subject alternative name of the signer's certificate.
        roots: Certificates of the authorities in PEM.
    """

    name: str
    key: bytes = b""
    identity: str = ""
    roots: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSignature:
    """Signature found next to a package: its bytes and where they come from."""

    where: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Signer who vouches for a package, and the signature."""

    signer: TrustedSigner
    where: str


def sign_digests(
    record: bytes,
    *,
    name: str,
    key: PrivateKey,
    certificates: Sequence[bytes] = (),
    now: dt.datetime | None = None,
) -> bytes:
    """Return the signature file for the digests.json ``record``.

    Args:
        record: Bytes of digests.json.
        name: Name of the package, for people.
        key: Key of the signer.
        certificates: Certificates in DER, the signer's first; without them, the key alone
            identifies the signer.
        now: Time at which they must be valid; default: now.

    Raises:
        SignatureError: The record is damaged, or belongs to an unfinished change.
        UsageError: The first certificate has another key, or one has expired.
    """
    digests = _recorded(record, "the package")
    if certificates:
        from ortpkg.package.trust.signing.signing_certificates import (  # cryptography
            check_valid_now,
            key_of_certificate,
        )

        check_valid_now(certificates, now)
        if key_of_certificate(certificates[0], "the signature").digest != key.public.digest:
            raise UsageError("the certificate is not that of the key")
    payload = dump_statement(Statement(name=name, files=_signed_files(record, digests)))
    return dump_bundle(
        SignatureBundle(
            payload=payload,
            signature=key.sign(signed_bytes(payload)),
            key_digest="" if certificates else key.public.digest,
            certificates=tuple(certificates),
        )
    )


def accepted_signers(
    record: bytes, signatures: Sequence[FoundSignature], signers: Sequence[TrustedSigner]
) -> tuple[Acceptance, ...]:
    """Return the ``signers`` who vouch for what ``record`` records, with their signatures.

    Args:
        record: Bytes of the package's digests.json.
        signatures: Signatures found next to the package.
        signers: Signers to accept.

    Raises:
        SignatureError: None of them does; the message has a reason for each signature.
    """
    if not signatures:
        raise SignatureError("the package is not signed: it has no signature at all")
    acceptances: list[Acceptance] = []
    refused: list[str] = []
    for signature in signatures:
        try:
            signer = check_signature(record, signature, signers)
        except SignatureError as error:
            refused.append(str(error))
        else:
            acceptances.append(Acceptance(signer=signer, where=signature.where))
    if not acceptances:
        raise SignatureError("; ".join(refused))
    return tuple(acceptances)


def check_signature(
    record: bytes, signature: FoundSignature, signers: Sequence[TrustedSigner]
) -> TrustedSigner:
    """Return the signer of a signature that covers what ``record`` records.

    Raises:
        SignatureError: None of the ``signers`` made it, or it covers other files.
    """
    where = signature.where
    if len(signature.content) > most_bundle_nbytes(len(record)):
        raise SignatureError(
            f"{where} is not accepted: it has {len(signature.content)} bytes, more than any"
            f" signature over this package ({most_bundle_nbytes(len(record))})"
        )
    bundle = parse_bundle(signature.content, where=where)
    signer = _signer_of(bundle, signers, where)
    _check_covers(parse_statement(bundle.payload, where=where), record, where)
    return signer


def is_over(record: bytes, signature: FoundSignature) -> bool:
    """Return True if a signature, whoever made it, covers what ``record`` records."""
    try:
        bundle = parse_bundle(signature.content, where=signature.where)
        _check_covers(parse_statement(bundle.payload, where=signature.where), record, "")
    except SignatureError:
        return False
    return True


def _signer_of(
    bundle: SignatureBundle, signers: Sequence[TrustedSigner], where: str
) -> TrustedSigner:
    """Return the signer of a bundle; its payload is not read before the signer is known."""
    refused = []
    for signer in signers:
        try:
            _check_signer(bundle, signer, where)
        except SignatureError as error:
            refused.append(error)
        else:
            return signer
    if len(refused) == 1:
        raise refused[0]
    names = ", ".join(quoted(signer.name) for signer in signers) or "nobody"
    reason = _one_certificate_reason(bundle, refused, signers)
    raise SignatureError(
        f"{where} is not accepted: it is by none of those accepted ({names}){reason}"
    )


def _one_certificate_reason(
    bundle: SignatureBundle, refused: Sequence[SignatureError], signers: Sequence[TrustedSigner]
) -> str:
    """Return why the certificate was refused if there is one reason, such as its expiry.

    Else "".
    """
    if not bundle.certificates:
        return ""
    reasons = dict.fromkeys(
        str(error).partition(" is not accepted: ")[2]
        for error, signer in zip(refused, signers, strict=True)
        if not signer.key
    )
    return f": {next(iter(reasons))}" if len(reasons) == 1 else ""


def _check_signer(bundle: SignatureBundle, signer: TrustedSigner, where: str) -> None:
    from ortpkg.package.trust.signing.signing_keys import parse_public_key  # cryptography

    if signer.key:
        if bundle.certificates:
            raise SignatureError(
                f"{where} is not accepted: it is by a certificate, not by the key"
                f" {quoted(signer.name)}"
            )
        key = parse_public_key(signer.key, Path(signer.name))
        if bundle.key_digest != key.digest:
            raise SignatureError(
                f"{where} is not accepted: it is by another key ({bundle.key_digest[:16]}...) than"
                f" {quoted(signer.name)} ({key.digest[:16]}...)"
            )
    else:
        from ortpkg.package.trust.signing.signing_certificates import (
            check_certificates,  # cryptography
        )

        if not bundle.certificates:
            raise SignatureError(
                f"{where} is not accepted: it is by a key without certificates, which says nothing"
                f" of {quoted(signer.identity)}"
            )
        key = check_certificates(bundle.certificates, signer.roots, signer.identity, where=where)
    if not key.is_by_it(bundle.signature, signed_bytes(bundle.payload)):
        raise SignatureError(
            f"{where} is not accepted: the signature is not one of that key over this statement:"
            " one of the two was changed"
        )


def _check_covers(statement: Statement, record: bytes, where: str) -> None:
    """Raise SignatureError unless exactly the recorded files are signed, with their digests."""
    digests = _recorded(record, where)
    expected = _signed_files(record, digests)
    signed = dict(statement.files)
    if DIGESTS_FILE not in signed:
        # Only the entries are signed, so the file must contain nothing else.
        if dump_digests(digests) != record:
            raise SignatureError(
                f"{where} is not accepted: it does not cover {DIGESTS_FILE}, which is not in the"
                " form that ortpkg writes"
            )
        del expected[DIGESTS_FILE]
    if signed == expected:
        return
    differing = sorted(
        name for name in {*signed, *expected} if signed.get(name) != expected.get(name)
    )
    raise SignatureError(
        f"{where} is not accepted: it is over other files than the package's: {listed(differing)}"
    )


def _signed_files(record: bytes, digests: PackageDigests) -> dict[str, str]:
    files = {path: recorded.digests[-1] for path, recorded in digests.files.items()}
    return {**files, DIGESTS_FILE: hash_bytes(record).sha256}


def _recorded(record: bytes, where: str) -> PackageDigests:
    try:
        digests = parse_digests(record, Path(DIGESTS_FILE))
    except PackageFormatError as error:
        raise SignatureError(f"{where}: {error}") from error
    if digests.pending is not None:
        raise SignatureError(
            f"{where}: a change of the package was interrupted; the next command that changes it"
            " finishes or undoes it"
        )
    return digests
