"""The signatures that lie in a package: each read as what it is, none written elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortpkg.foundations.errors import SignatureError
from ortpkg.package.trust.signing.openssf_signature import sign_digests
from ortpkg.package.trust.signing.signature_files import read_signatures, write_signature
from ortpkg.package.trust.signing.signing_keys import PrivateKey
from tests.trust.signing.signers import record_of, some_key


def write(root: Path, key: PrivateKey) -> str:
    content = sign_digests(record_of(), name="p", key=key)
    return write_signature(root, content, key_digest=key.public.digest)


def test_each_signer_has_one_file(tmp_path: Path) -> None:
    first, second = some_key(), some_key()
    name = f"model.sig.d/{second.public.digest[:16]}.sig"

    assert [write(tmp_path, key) for key in (first, second, first, second)] == [
        "model.sig",
        name,
        "model.sig",
        name,
    ]
    assert [each.where for each in read_signatures(tmp_path)] == ["model.sig", name]


def test_nothing_is_written_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "p").mkdir()
    write(tmp_path / "p", some_key())
    (tmp_path / "p" / "model.sig.d").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(SignatureError, match="nothing is written behind one"):
        write(tmp_path / "p", some_key())
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_signature_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "model.sig").symlink_to("secret")

    with pytest.raises(SignatureError, match="is no plain file"):
        read_signatures(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.sig")

    with pytest.raises(SignatureError, match="is no plain file"):
        read_signatures(tmp_path)


def test_more_signatures_than_anybody_has_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.sig.d").mkdir()
    for number in range(17):
        (tmp_path / "model.sig.d" / f"{number:016x}.sig").write_text("{}")

    with pytest.raises(SignatureError, match="more than 16 signatures"):
        read_signatures(tmp_path)
