"""Keys, certificates and records for tests: what somebody who signs packages has."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.integrity.digests import (
    PackageDigests,
    RecordedFile,
    dump_digests,
    parse_digests,
)
from ortpkg.package.trust.signing.openssf_signature import TrustedSigner
from ortpkg.package.trust.signing.signature_bundle import SignatureBundle, dump_bundle, signed_bytes
from ortpkg.package.trust.signing.signing_keys import PrivateKey, new_private_key
from ortpkg.package.trust.signing.statement import Statement, dump_statement

CODE_SIGNING = ExtendedKeyUsageOID.CODE_SIGNING
SERVER = ExtendedKeyUsageOID.SERVER_AUTH


def record_of(**contents: bytes) -> bytes:
    """The digests.json of a package whose files have these contents."""
    files = {name: RecordedFile.of(hash_bytes(content)) for name, content in contents.items()}
    return dump_digests(PackageDigests(files=files))


def sign_entries_alone(record: bytes, key: PrivateKey) -> bytes:
    """A signature over every recorded file but digests.json, as other tools can make it."""
    recorded = parse_digests(record, Path())
    files = {path: entry.digests[-1] for path, entry in recorded.files.items()}
    payload = dump_statement(Statement(name="digits", files=files))
    signature = key.sign(signed_bytes(payload))
    return dump_bundle(
        SignatureBundle(payload=payload, signature=signature, key_digest=key.public.digest)
    )


def trusted(key: PrivateKey, name: str = "somebody") -> TrustedSigner:
    """Somebody whose key is believed."""
    return TrustedSigner(name=name, key=key.public.pem)


@dataclass(frozen=True)
class Authority:
    """One that says whose keys are whose."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate | None

    @classmethod
    def new(
        cls,
        name: str = "authority",
        *,
        by: Authority | None = None,
        permitted: Sequence[x509.GeneralName] = (),
        may_certify: bool | None = None,
        purposes: Sequence[x509.ObjectIdentifier] = (),
    ) -> Authority:
        """One whose certificate says nothing of its key's usage where ``may_certify`` is None."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = by or cls(key, None)
        extensions: list[x509.ExtensionType] = [x509.BasicConstraints(True, None)]
        if permitted:
            extensions.append(x509.NameConstraints(permitted, None))
        if may_certify is not None:
            usage = [True, *[False] * 4, may_certify, *[False] * 3]
            extensions.append(x509.KeyUsage(*usage))
        certificate = _certificate(name, key, issuer, critical=extensions, purposes=purposes)
        return cls(key, certificate)

    @property
    def pem(self) -> bytes:
        assert self.certificate is not None
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        assert self.certificate is not None
        return self.certificate.public_bytes(Encoding.DER)

    def certify(
        self,
        key: ec.EllipticCurvePrivateKey,
        identity: str = "releases@models.example",
        *,
        days: tuple[int, int] = (-1, 30),
        purposes: Sequence[x509.ObjectIdentifier] = (CODE_SIGNING,),
        may_sign: bool = True,
        names: Sequence[x509.GeneralName] = (),
    ) -> bytes:
        """A certificate, in DER, that ``key`` is that of ``identity``, or of the ``names``."""
        made = _certificate(
            "signer",
            key,
            self,
            critical=[x509.KeyUsage(may_sign, *[False] * 8)],
            names=names or [x509.RFC822Name(identity)],
            days=days,
            purposes=purposes,
        )
        return made.public_bytes(Encoding.DER)


def new_key() -> tuple[ec.EllipticCurvePrivateKey, PrivateKey]:
    """A key, as the library has it and as we do."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key, PrivateKey(key)


def some_key() -> PrivateKey:
    """A key of nobody's in particular."""
    return new_private_key()


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: Authority,
    *,
    critical: Sequence[x509.ExtensionType],
    names: Sequence[x509.GeneralName] = (),
    days: tuple[int, int] = (-1, 30),
    purposes: Sequence[x509.ObjectIdentifier] = (),
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    subject = _name(name)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer.certificate is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=days[0]))
        .not_valid_after(now + dt.timedelta(days=days[1]))
    )
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder.sign(issuer.key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
