"""Files of keys that are none, or of another kind: one sentence that says what would be right."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ortpkg.foundations.errors import UsageError
from ortpkg.package.trust.signing.signing_keys import (
    PasswordNeededError,
    new_private_key,
    read_private_key,
    read_public_key,
)

OTHER_KINDS: dict[str, Callable[[], Any]] = {
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "RSA": lambda: rsa.generate_private_key(65537, 1024),
    "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_key_of_another_kind_is_told_which_kinds_there_are(tmp_path: Path, kind: str) -> None:
    key = OTHER_KINDS[kind]()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "k.pem").write_bytes(private)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "k.pub").write_bytes(public)

    with pytest.raises(UsageError, match=r"k\.pem' is not a key on P-256, P-384 or P-521: the"):
        read_private_key(tmp_path / "k.pem")
    with pytest.raises(UsageError, match=r"k\.pub' is not a key on P-256, P-384 or P-521: the"):
        read_public_key(tmp_path / "k.pub")


@pytest.mark.parametrize("read", [read_private_key, read_public_key])
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("none", "'.*none' cannot be read: No such file"),
        ("folder", "'.*folder' cannot be read: Is a directory"),
        ("large", "'.*large' is larger than any file of keys"),
        ("empty", "'.*empty' is no (private|public) key in PEM form"),
        ("binary", "'.*binary' is no (private|public) key in PEM form"),
    ],
)
def test_a_file_that_holds_no_key_is_named(
    tmp_path: Path, read: Callable[[Path], object], name: str, what: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b" " * 70_000)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "binary").write_bytes(bytes(range(256)))

    with pytest.raises(UsageError, match=what):
        read(tmp_path / name)


def test_an_encrypted_key_takes_its_password_and_no_other(tmp_path: Path) -> None:
    key = new_private_key()
    (tmp_path / "k.pem").write_bytes(key.pem(b"correct horse"))
    (tmp_path / "plain.pem").write_bytes(key.pem(None))

    assert read_private_key(tmp_path / "k.pem", b"correct horse").public.digest == key.public.digest
    with pytest.raises(PasswordNeededError, match="give --password-file FILE"):
        read_private_key(tmp_path / "k.pem")
    with pytest.raises(UsageError, match="or the password is wrong"):
        read_private_key(tmp_path / "k.pem", b"battery staple")
    with pytest.raises(UsageError, match="is not encrypted: leave the password out"):
        read_private_key(tmp_path / "plain.pem", b"correct horse")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_key_may_come_through_a_pipe(tmp_path: Path) -> None:
    """As shells give what a command prints: ``--key <(command)``."""
    key, pipe = new_private_key(), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(key.pem(None),))
    writer.start()
    assert read_private_key(pipe).public.digest == key.public.digest
    writer.join()
