"""Keys that sign and verify: elliptic curves P-256, P-384 and P-521, in PEM files.

This module is imported only when a key is needed, because it loads ``cryptography``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ortpkg.foundations.errors import MissingExtraError, SignatureError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean_path

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
        load_pem_public_key,
    )
except ImportError as error:
    raise MissingExtraError("a signature", "cryptography", error) from error

_HASHES: dict[str, hashes.HashAlgorithm] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
_MOST_KEY_NBYTES = 64 * 1024


class PasswordNeededError(UsageError):
    """The key is encrypted and no password was given."""


class PublicKey:
    """Public key, which verifies signatures.

    Attributes:
        pem: PEM text of the key.
        digest: SHA-256 of the PEM text, by which signatures name the key.
    """

    def __init__(self, key: ec.EllipticCurvePublicKey) -> None:
        self._key = key
        self.pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.digest = hashlib.sha256(self.pem).hexdigest()

    def is_by_it(self, signature: bytes, content: bytes) -> bool:
        """Return True if the key's owner signed ``content``."""
        try:
            self._key.verify(signature, content, ec.ECDSA(_HASHES[self._key.curve.name]))
        except InvalidSignature:
            return False
        return True


class PrivateKey:
    """Private key, which signs.

    Attributes:
        public: The public key.
    """

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    def sign(self, content: bytes) -> bytes:
        """Return the signature over ``content`` in DER."""
        return self._key.sign(content, ec.ECDSA(_HASHES[self._key.curve.name]))

    def pem(self, password: bytes | None) -> bytes:
        """Return the key as the bytes of a file (PKCS 8), encrypted if there is a password."""
        encryption: KeySerializationEncryption = (
            BestAvailableEncryption(password) if password else NoEncryption()
        )
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def new_private_key() -> PrivateKey:
    """Return a new key on P-256."""
    return PrivateKey(ec.generate_private_key(ec.SECP256R1()))


def read_private_key(file: Path, password: bytes | None = None) -> PrivateKey:
    """Return the key in a PEM file.

    Raises:
        PasswordNeededError: The key is encrypted and no password was given.
        UsageError: The file has no key that can sign, or the password is wrong.
    """
    content = read_key_file(file)
    try:
        key = load_pem_private_key(content, password)
    except TypeError as error:
        if password is None:
            raise PasswordNeededError(
                f"{quoted(file)} is encrypted: give --password-file FILE, or type the password at a"
                " terminal"
            ) from error
        raise UsageError(f"{quoted(file)} is not encrypted: leave the password out") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        why = " or the password is wrong" if password is not None else ""
        raise UsageError(f"{quoted(file)} is no private key in PEM form{why}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in _HASHES:
        raise UsageError(_unsupported(file))
    return PrivateKey(key)


def read_public_key(file: Path) -> PublicKey:
    """Return the key in a PEM file.

    Raises:
        UsageError: The file has no key that can verify.
    """
    return parse_public_key(read_key_file(file), file)


def parse_public_key(content: bytes, file: Path) -> PublicKey:
    """Parse a public key in PEM; ``file`` names it in messages. See :func:`read_public_key`."""
    if b"PRIVATE KEY" in content:
        raise UsageError(
            f"{quoted(file)} is a private key, which nobody needs to verify: give the public one"
        )
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{quoted(file)} is no public key in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _HASHES:
        raise UsageError(_unsupported(file))
    return PublicKey(key)


def public_key_of(key: object, where: str) -> PublicKey:
    """Return the key of a certificate.

    Raises:
        SignatureError: A key of its kind cannot sign packages.
    """
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _HASHES:
        raise SignatureError(
            f"{where} is not accepted: its certificate's key is not on P-256, P-384 or P-521"
        )
    return PublicKey(key)


def read_key_file(file: Path) -> bytes:
    """Return the bytes of a file of keys or certificates.

    Raises:
        UsageError: The file cannot be read.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_KEY_NBYTES + 1)
    except OSError as error:
        hint = did_you_mean_path(file) if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"{quoted(file)} cannot be read: {error.strerror}{hint}") from error
    if len(content) > _MOST_KEY_NBYTES:
        raise UsageError(f"{quoted(file)} is larger than any file of keys or certificates")
    return content


def _unsupported(file: Path) -> str:
    return (
        f"{quoted(file)} is not a key on P-256, P-384 or P-521: the format of signatures knows no"
        " other (ortpkg sign --new-key FILE makes one)"
    )
