"""What we sign, model-signing accepts, and the other way round; both refuse what was changed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from ortpkg.cli.app import run
from ortpkg.package.trust.signing.signing_keys import PrivateKey
from tests.signing_interop.conftest import TOOL
from tests.trust.signing.signers import Authority, new_key

pytestmark = pytest.mark.signing
DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"
IDENTITY = "releases@models.example"
CURVES = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}


def theirs(*words: object) -> int:
    return subprocess.run([TOOL, *map(str, words)], check=False, capture_output=True).returncode


def ours(*words: object) -> int:
    return run(list(map(str, words)))


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))


@pytest.fixture(params=CURVES)
def key(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = PrivateKey(ec.generate_private_key(CURVES[request.param]))
    (tmp_path / "k.pem").write_bytes(made.pem(None))
    (tmp_path / "k.pem.pub").write_bytes(made.public.pem)
    return tmp_path / "k.pem"


def test_they_accept_what_we_signed_by_a_key(digits: Path, key: Path) -> None:
    assert ours("sign", digits, "--key", key) == 0
    verify = ("verify", "key", digits, "--signature", digits / "model.sig")
    assert theirs(*verify, "--public_key", f"{key}.pub") == 0

    (digits / "README.md").write_text("forged")
    assert theirs(*verify, "--public_key", f"{key}.pub") != 0


def test_we_accept_what_they_signed_by_a_key(digits: Path, key: Path) -> None:
    sign = ("sign", "key", digits, "--signature", digits / "model.sig", "--private_key", key)
    assert theirs(*sign) == 0
    assert ours("verify", digits, "--key", f"{key}.pub") == 0

    (digits / "README.md").write_text("forged")
    assert ours("verify", digits, "--key", f"{key}.pub") == 16
    assert ours("verify", digits, "--record") == 0
    assert ours("verify", digits, "--key", f"{key}.pub") == 7


def test_certificates_are_accepted_both_ways(digits: Path, tmp_path: Path) -> None:
    root = Authority.new()
    middle = Authority.new("middle", by=root)
    library_key, key = new_key()
    leaf = x509.load_der_x509_certificate(middle.certify(library_key, IDENTITY))
    names = {
        "key": key.pem(None),
        "leaf": leaf.public_bytes(Encoding.PEM),
        "chain": middle.pem,
        "root": root.pem,
    }
    at = {name: tmp_path / name for name in names}
    for name, content in names.items():
        at[name].write_bytes(content)
    signature = digits / "model.sig"
    by_us = ("--key", at["key"], "--certificate", at["leaf"], "--certificate-chain", at["chain"])

    assert ours("sign", digits, *by_us) == 0
    check = ("verify", "certificate", digits, "--signature", signature)
    assert theirs(*check, "--certificate_chain", at["root"]) == 0

    signature.unlink()
    by_them = ("--private_key", at["key"], "--signing_certificate", at["leaf"])
    sign = ("sign", "certificate", digits, "--signature", signature, *by_them)
    assert theirs(*sign, "--certificate_chain", at["chain"]) == 0
    wanted = ("--identity", IDENTITY, "--trust-roots", at["root"])
    assert ours("verify", digits, *wanted) == 0
