"""Certificates of a private authority that say whose a key is.

Nothing imports this module before a certificate is needed: it takes ``cryptography``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path

from ortpkg.errors import SignatureError, UsageError, quoted
from ortpkg.trust.signing.signing_keys import PublicKey, public_key_of, read_key_file

# Behind signing_keys, which says what to install.
from cryptography import x509  # isort: skip
from cryptography.exceptions import UnsupportedAlgorithm  # isort: skip
from cryptography.hazmat.primitives.serialization import Encoding  # isort: skip
from cryptography.x509 import verification  # isort: skip
from cryptography.x509.oid import ExtendedKeyUsageOID  # isort: skip

_MOST_ROOTS = 1000
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_Name = x509.RFC822Name | x509.UniformResourceIdentifier | x509.DNSName


def read_certificates(file: Path) -> tuple[bytes, ...]:
    """The certificates of a PEM file, in DER. UsageError where there are none."""
    try:
        found = x509.load_pem_x509_certificates(read_key_file(file))
    except ValueError as error:
        raise UsageError(f"{quoted(file)} holds no certificates in PEM form") from error
    if len(found) > _MOST_ROOTS:
        raise UsageError(f"{quoted(file)} holds more than {_MOST_ROOTS} certificates")
    return tuple(each.public_bytes(Encoding.DER) for each in found)


def key_of_certificate(certificate: bytes, where: str) -> PublicKey:
    """The key that a certificate, in DER, is about."""
    return _key_of(_parsed([certificate], where)[0], where)


def names_of_certificate(certificate: bytes, where: str) -> list[str]:
    """The names that a certificate, in DER, gives its holder; nobody has vouched for them yet."""
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
    """The signer's key, once the roots vouch for it and for ``identity``.

    Args:
        chain: the signer's certificate, then those between it and a root.
        roots: certificates, in PEM, of the authorities that are believed.
        identity: a subject alternative name of the signer: a mail address, URI or DNS name.
        where: what messages call the signature.
        now: the time at which all of them have to be valid; a signature states none of its own.

    Raises:
        SignatureError: they do not, a certificate has expired, may not sign, or is somebody else's.
        UsageError: the roots are no certificates.
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
    """Source: RFC 5280, 6.1.4 (n); roots that say nothing of usage may certify."""
    if value is not None and not value.key_cert_sign:
        raise ValueError("an issuer's key is not for certificates (keyUsage without keyCertSign)")


def _check_certifies_code(
    _policy: verification.Policy,
    _certificate: x509.Certificate,
    value: x509.ExtendedKeyUsage | None,
) -> None:
    """An authority for web servers alone names no signers, as programs that verify code read it."""
    if value is not None and not _is_for_code(value):
        raise ValueError("an issuer is not for signing code (extendedKeyUsage)")


def _is_for_code(purposes: x509.ExtendedKeyUsage) -> bool:
    of_code = (ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
    return any(purpose in of_code for purpose in purposes)


def _check_is_named(leaf: x509.Certificate, identity: str, where: str) -> None:
    """SignatureError unless the identity is one of the certificate's names of its own kind.

    An authority whose names are constrained, to hosts say, is free in names of other kinds: a URI
    that reads as a host's name would be such a host's to whoever compares texts.
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
    """UsageError where one of the certificates, in DER, is not valid now: nobody would take it."""
    for certificate in _parsed(chain, "the signature"):
        if problem := _why_not_valid_at(now or dt.datetime.now(dt.UTC), certificate):
            raise UsageError(f"nothing is signed: {problem}; ask the authority for a new one")


def _why_not_valid_at(now: dt.datetime, certificate: x509.Certificate) -> str:
    """Since when a certificate is expired, or from when it is valid; "" where it is valid."""
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
        return [x509.load_der_x509_certificate(each) for each in certificates]
    except (ValueError, x509.InvalidVersion) as error:
        raise _wrong(where, "one of its certificates is none") from error


def _check_may_sign(leaf: x509.Certificate, where: str) -> None:
    """A certificate that says what it is for has to say that it is for this."""
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
    """The names of one kind, or of all kinds that identities are of."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    kinds = (x509.RFC822Name, x509.UniformResourceIdentifier, x509.DNSName)
    return [str(name.value) for name in names if isinstance(name, kind or kinds)]


def _reason(error: Exception) -> str:
    """The sentence of the library, or of ours, without the certificate that it prints."""
    sentence = str(error).removeprefix("validation failed: ").partition(" (encountered")[0]
    return sentence.replace("Python extension validator failed: ValueError: ", "")


def _wrong(where: str, what: str) -> SignatureError:
    return SignatureError(f"{where} is not accepted: {what}")
