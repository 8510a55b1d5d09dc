"""Certificates of a private authority that say who owns a key.

This module is imported only when a certificate is needed, because it loads ``cryptography``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path

from ortpkg.foundations.errors import SignatureError, UsageError, quoted
from ortpkg.package.trust.signing.signing_keys import PublicKey, public_key_of, read_key_file

# Imported after signing_keys, which says what to install.
from cryptography import x509  # isort: skip
from cryptography.exceptions import UnsupportedAlgorithm  # isort: skip
from cryptography.hazmat.primitives.serialization import Encoding  # isort: skip
from cryptography.x509 import verification  # isort: skip
from cryptography.x509.oid import ExtendedKeyUsageOID  # isort: skip

_MOST_ROOTS = 1000
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_Name = x509.RFC822Name | x509.UniformResourceIdentifier | x509.DNSName


def read_certificates(file: Path) -> tuple[bytes, ...]:
    """Return the certificates of a PEM file, in DER.

    Raises:
        UsageError: There are none.
    """
    try:
        certificates = x509.load_pem_x509_certificates(read_key_file(file))
    except ValueError as error:
        raise UsageError(f"{quoted(file)} holds no certificates in PEM form") from error
    if len(certificates) > _MOST_ROOTS:
        raise UsageError(f"{quoted(file)} holds more than {_MOST_ROOTS} certificates")
    return tuple(certificate.public_bytes(Encoding.DER) for certificate in certificates)


def key_of_certificate(certificate: bytes, where: str) -> PublicKey:
    """Return the key of a certificate in DER."""
    return _key_of(_parsed([certificate], where)[0], where)


def names_of_certificate(certificate: bytes, where: str) -> list[str]:
    """Return the holder's names in a certificate in DER, which are not verified."""
    try:
        return _names_of(_parsed([certificate], where)[0])
    except (ValueError, x509.UnsupportedGeneralNameType) as error:
        raise _wrong(where, "its certificate's names are damaged, or of no known kind") from error


def check_certificates(
    chain: Sequence[bytes],
    roots: bytes,
    identity: str,
    *,
    where: str,
    now: dt.datetime | None = None,
) -> PublicKey:
    """Return the signer's key if the roots vouch for it and for ``identity``.

    Args:
        chain: The signer's certificate, then those up to a root.
        roots: Certificates of the trusted authorities in PEM.
        identity: Subject alternative name of the signer: a mail address, URI or DNS name.
        where: Name of the signature in messages.
        now: Time at which all of them must be valid; a signature states none itself.

    Raises:
        SignatureError: They do not vouch for it, or a certificate has expired, may not sign, or
            belongs to another signer.
        UsageError: The roots are not certificates.
    """
    leaf, *others = _parsed(chain, where)
    now = now or dt.datetime.now(dt.UTC)
    for certificate in (leaf, *others):
        if problem := _why_not_valid_at(now, certificate):
            raise _wrong(where, problem)
    try:
        store = verification.Store(x509.load_pem_x509_certificates(roots))
    except ValueError as error:
        raise UsageError("the trust roots hold no certificates in PEM form") from error
    any_criticality = verification.Criticality.AGNOSTIC
    issuers = verification.ExtensionPolicy.permit_all()
    issuers = issuers.require_present(x509.BasicConstraints, any_criticality, None)
    issuers = issuers.may_be_present(x509.KeyUsage, any_criticality, _check_may_certify)
    issuers = issuers.may_be_present(x509.ExtendedKeyUsage, any_criticality, _check_certifies_code)
    builder = (
        verification.PolicyBuilder()
        .store(store)
        .time(now)
        .extension_policies(ca_policy=issuers, ee_policy=verification.ExtensionPolicy.permit_all())
    )
    try:
        builder.build_client_verifier().verify(leaf, others)
    except (verification.VerificationError, ValueError, UnsupportedAlgorithm) as error:
        raise _wrong(where, f"the roots do not vouch for it ({quoted(_reason(error))})") from error
    _check_may_sign(leaf, where)
    _check_is_named(leaf, identity, where)
    return _key_of(leaf, where)


def _check_may_certify(
    _policy: verification.Policy, _certificate: x509.Certificate, value: x509.KeyUsage | None
) -> None:
    """Check an issuer's keyUsage (RFC 5280, 6.1.4 (n)); issuers without one may certify."""
    if value is not None and not value.key_cert_sign:
        raise ValueError("an issuer's key is not for certificates (keyUsage without keyCertSign)")


def _check_certifies_code(
    _policy: verification.Policy,
    _certificate: x509.Certificate,
    value: x509.ExtendedKeyUsage | None,
) -> None:
    """Check that an issuer is not for web servers only, as programs that verify code do."""
    if value is not None and not _is_for_code(value):
        raise ValueError("an issuer is not for signing code (extendedKeyUsage)")


def _is_for_code(purposes: x509.ExtendedKeyUsage) -> bool:
    of_code = (ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
    return any(purpose in of_code for purpose in purposes)


def _check_is_named(leaf: x509.Certificate, identity: str, where: str) -> None:
    """Raise SignatureError unless the identity is one of the certificate's names of its own kind.

    An authority that is restricted to certain hosts may be free in names of other kinds. A URI that
    looks like a host's name would then pass for that host if only texts were compared.
    """
    names = _names_of(leaf, _kind_of(identity))
    if identity in names:
        return
    other_names = [name for name in _names_of(leaf) if name not in names]
    names_of_kind = ", ".join(map(quoted, names)) or "none"
    other_kinds = f"; of other kinds: {', '.join(map(quoted, other_names))}" if other_names else ""
    raise _wrong(
        where,
        f"it is not by {quoted(identity)}; its certificate's names of that kind:"
        f" {names_of_kind}{other_kinds}",
    )


def _kind_of(identity: str) -> type[_Name]:
    if _URI.match(identity):
        return x509.UniformResourceIdentifier
    return x509.RFC822Name if "@" in identity else x509.DNSName


def check_valid_now(chain: Sequence[bytes], now: dt.datetime | None = None) -> None:
    """Raise UsageError if a certificate in DER is not valid now, since nobody would accept it."""
    for certificate in _parsed(chain, "the signature"):
        if problem := _why_not_valid_at(now or dt.datetime.now(dt.UTC), certificate):
            raise UsageError(f"nothing is signed: {problem}; ask the authority for a new one")


def _why_not_valid_at(now: dt.datetime, certificate: x509.Certificate) -> str:
    """Return since when a certificate is expired, or when it becomes valid; "" if it is valid."""
    try:
        first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        name = certificate.subject.rfc4514_string()
    except ValueError:
        return "a certificate's dates or names are damaged"
    if now > last:
        return f"the certificate of {quoted(name)} has expired on {_text(last)}"
    if now < first:
        return f"the certificate of {quoted(name)} is not valid before {_text(first)}"
    return ""


def _text(time: dt.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _key_of(certificate: x509.Certificate, where: str) -> PublicKey:
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _wrong(where, "its certificate's key is damaged, or of no known kind") from error
    return public_key_of(key, where)


def _parsed(certificates: Sequence[bytes], where: str) -> list[x509.Certificate]:
    try:
        return [x509.load_der_x509_certificate(certificate) for certificate in certificates]
    except (ValueError, x509.InvalidVersion) as error:
        raise _wrong(where, "one of its certificates is none") from error


def _check_may_sign(leaf: x509.Certificate, where: str) -> None:
    """Check that a certificate that states its purpose allows signing code."""
    try:
        usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        pass
    else:
        if not usage.digital_signature:
            raise _wrong(where, "its certificate's key is not for signatures (keyUsage)")
    try:
        purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not _is_for_code(purposes):
        raise _wrong(where, "its certificate is not for signing code (extendedKeyUsage)")


def _names_of(leaf: x509.Certificate, kind: type[_Name] | None = None) -> list[str]:
    """Return a certificate's names of one kind, or of all kinds that identities may have."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    kinds = (x509.RFC822Name, x509.UniformResourceIdentifier, x509.DNSName)
    return [str(name.value) for name in names if isinstance(name, kind or kinds)]


def _reason(error: Exception) -> str:
    """Return the message of the library, or ours, without the certificate that it prints."""
    sentence = str(error).removeprefix("validation failed: ").partition(" (encountered")[0]
    return sentence.replace("Python extension validator failed: ValueError: ", "")


def _wrong(where: str, what: str) -> SignatureError:
    return SignatureError(f"{where} is not accepted: {what}")
