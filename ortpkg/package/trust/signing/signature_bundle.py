"""File format of a signature: a sigstore bundle v0.3 with a DSSE envelope.

Source: sigstore's protobuf specification (bundle v0.3 in JSON), DSSE v1.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import PackageFormatError, SignatureError, quoted
from ortpkg.package.trust.signing.statement import PAYLOAD_TYPE

BUNDLE_MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
#: Largest signature file, whatever it signs.
MOST_BUNDLE_NBYTES = 64 * 1024 * 1024
_MOST_BESIDE_FILES_NBYTES = 256 * 1024
_MOST_CERTIFICATES = 8
_HINT = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureBundle:
    """Signature and signed content, neither of them verified.

    Attributes:
        payload: Bytes of the statement.
        signature: Signature over :func:`signed_bytes` of the payload; of an EC key, in DER.
        key_digest: SHA-256 of the PEM text of the public key that it claims; "" with certificates.
        certificates: Certificates in DER: the signer's, then those up to a root.
    """

    payload: bytes
    signature: bytes
    key_digest: str = ""
    certificates: tuple[bytes, ...] = ()


def most_bundle_nbytes(record_nbytes: int) -> int:
    """Return the largest size of a signature over a digests.json of that size; more is not read."""
    return min(MOST_BUNDLE_NBYTES, _MOST_BESIDE_FILES_NBYTES + 4 * record_nbytes)


def signed_bytes(payload: bytes) -> bytes:
    """Return the bytes to sign: DSSE's encoding of the payload and its type ("PAE")."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def dump_bundle(bundle: SignatureBundle) -> bytes:
    """Return the bytes of a signature file."""
    material: dict[str, Any] = (
        {
            "x509CertificateChain": {
                "certificates": [
                    {"rawBytes": _text(certificate)} for certificate in bundle.certificates
                ]
            }
        }
        if bundle.certificates
        else {"publicKey": {"hint": bundle.key_digest}}
    )
    document = {
        "mediaType": BUNDLE_MEDIA_TYPE,
        "verificationMaterial": {**material, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": _text(bundle.payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": _text(bundle.signature), "keyid": ""}],
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()


def parse_bundle(content: bytes, *, where: str) -> SignatureBundle:
    """Parse an untrusted signature file.

    ``where`` names it in messages.

    Raises:
        SignatureError: It is not a bundle of version 0.3 with one signature over an in-toto
            statement, by a key or by at most 8 certificates.
    """
    if len(content) > MOST_BUNDLE_NBYTES:
        raise _wrong(where, f"it has {len(content)} bytes; at most {MOST_BUNDLE_NBYTES} are read")
    limits = DocumentLimits(
        nbytes=MOST_BUNDLE_NBYTES, depth=16, values=1000, string_length=MOST_BUNDLE_NBYTES
    )
    try:
        document = parse_document(content, document="the bundle", limits=limits)
    except PackageFormatError as error:
        raise _wrong(where, f"it is no JSON document: {error}") from error
    if document.get("mediaType") != BUNDLE_MEDIA_TYPE:
        kind = quoted(document.get("mediaType"))
        raise _wrong(where, f"it is of type {kind}, not {BUNDLE_MEDIA_TYPE}")
    envelope = _object(document, "dsseEnvelope", where)
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        kind = quoted(envelope.get("payloadType"))
        raise _wrong(where, f"its payload is of type {kind}, not {PAYLOAD_TYPE}")
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or len(signatures) != 1:
        raise _wrong(where, "it has not exactly one signature")
    key_digest, certificates = _signer(_object(document, "verificationMaterial", where), where)
    return SignatureBundle(
        payload=_bytes(envelope.get("payload"), "its payload", where),
        signature=_bytes(
            signatures[0].get("sig") if isinstance(signatures[0], dict) else None,
            "its signature",
            where,
        ),
        key_digest=key_digest,
        certificates=certificates,
    )


def _signer(material: Mapping[str, Any], where: str) -> tuple[str, tuple[bytes, ...]]:
    """Return the digest of the key ("" with certificates), and the certificates."""
    if "publicKey" in material:
        hint = _object(material, "publicKey", where).get("hint")
        if not isinstance(hint, str) or _HINT.fullmatch(hint) is None:
            raise _wrong(where, "it does not say by which key it is (publicKey.hint)")
        return hint, ()
    if "certificate" in material:
        raise _wrong(
            where, "it is by sigstore's public service, which takes the network: not supported"
        )
    chain = _object(material, "x509CertificateChain", where).get("certificates")
    if not isinstance(chain, list) or not 0 < len(chain) <= _MOST_CERTIFICATES:
        raise _wrong(where, f"it has not 1 to {_MOST_CERTIFICATES} certificates")
    return "", tuple(
        _bytes(
            certificate.get("rawBytes") if isinstance(certificate, dict) else None,
            "a certificate",
            where,
        )
        for certificate in chain
    )


def _object(document: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise _wrong(where, f"its {key} is no object")
    return value


def _bytes(value: Any, what: str, where: str) -> bytes:
    try:
        if not isinstance(value, str) or not value:
            raise ValueError("no text")
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise _wrong(where, f"{what} is not text in Base64") from error


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _wrong(where: str, what: str) -> SignatureError:
    return SignatureError(f"{where} is not accepted: {what}")
