"""``ortpkg sign`` and ``ortpkg verify --signature``."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_der_x509_certificate

from ortpkg.api.verify import record_digests
from ortpkg.foundations.documents.json_documents import dump_document
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.trust.signing.signing_keys import read_private_key
from tests.cli.conftest import DIGITS, RunCommand
from tests.trust.signing.signers import Authority, new_key, sign_entries_alone


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DIGITS, tmp_path / "digits.ortpackage"))


@pytest.fixture
def key(ortpkg: RunCommand) -> str:
    assert ortpkg("sign", "--new-key", "me.pem").out == "me.pem.pub\n"
    return "me.pem"


def test_what_was_signed_is_accepted_and_a_forged_copy_is_not(
    ortpkg: RunCommand, digits: Path, key: str
) -> None:
    assert ortpkg("sign", digits, "--key", key).out == f"{digits / 'model.sig'}\n"

    done = ortpkg("verify", digits, "--signature", "--key", f"{key}.pub")
    assert (done.code, done.err.splitlines()[-1]) == (0, "signed by 'me.pem.pub' (model.sig)")
    assert ortpkg("verify", digits).code == 0

    (digits / "README.md").write_text("forged")
    assert ortpkg("verify", digits, "--key", f"{key}.pub").code == 16
    record_digests(digits)
    assert ortpkg("verify", digits).code == 0
    done = ortpkg("verify", digits, "--key", f"{key}.pub")
    assert done.code == 7
    assert "over other files than the package's: 'README.md', 'digests.json'" in done.err


def test_a_second_digest_in_front_of_the_signed_one_is_damage_to_every_command(
    ortpkg: RunCommand, digits: Path, key: str
) -> None:
    """The signature leaves digests.json out, so nothing but the record's own rule refuses it."""
    private = read_private_key(Path(key), password=None)
    record = (digits / "digests.json").read_bytes()
    (digits / "model.sig").write_bytes(sign_entries_alone(record, private))
    assert ortpkg("verify", digits, "--signature", "--key", f"{key}.pub").code == 0

    (digits / "README.md").write_text("forged")
    document = json.loads(record)
    entry = document["files"]["README.md"]
    entry["digests"].insert(0, hash_bytes(b"forged").sha256)
    entry["nbytes"] = len("forged")
    (digits / "digests.json").write_bytes(dump_document(document))

    assert ortpkg("verify", digits, "--signature", "--key", f"{key}.pub").code == 7
    for command in (
        ["verify", digits],
        ["validate", digits],
        ["run", digits],
        ["pack", digits, "-o", "p.ortpkg"],
        ["sign", digits, "--key", key],
        ["push", digits, "oci-layout:layout:1"],
    ):
        done = ortpkg(*command)
        assert done.code != 0, command
        assert "has 2 digests of 'README.md'" in done.out + done.err, command


def test_a_file_that_was_changed_to_the_same_length_is_not_signed_over(
    ortpkg: RunCommand, digits: Path, key: str
) -> None:
    path = digits / "README.md"
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])

    done = ortpkg("sign", digits, "--key", key)

    assert done.code == 4
    assert "are not as digests.json records them, so they would not be signed: 'README.md'" in (
        " ".join(done.err.split())
    )
    assert not (digits / "model.sig").exists()


@pytest.mark.parametrize("is_sum", [True, False], ids=["sum", "size"])
def test_a_record_whose_sum_or_size_is_wrong_is_damage_to_every_command_that_hands_it_on(
    ortpkg: RunCommand, digits: Path, key: str, is_sum: bool
) -> None:
    document = json.loads((digits / "digests.json").read_text())
    if is_sum:
        document["package"] = "0" * 64
        said = "its entries do not add up to the package digest that it states"
    else:
        document["files"]["README.md"]["nbytes"] += 1
        said = "it gives 'README.md'"
    (digits / "digests.json").write_bytes(dump_document(document))

    for command in (
        ["verify", digits],
        ["validate", digits],
        ["pack", digits, "-o", "p.ortpkg"],
        ["sign", digits, "--key", key],
        ["push", digits, "oci-layout:layout:1"],
        ["install", digits],
    ):
        done = ortpkg(*command)
        assert done.code != 0, command
        assert said in done.out + done.err, command
    assert not (digits / "model.sig").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["run", "P"],
        ["run", "P", "--random"],
        ["plan", "P"],
        ["bench", "P", "--duration", "100ms"],
        ["verify", "P", "--signature", "--key", "KEY"],
    ],
    ids=" ".join,
)
def test_a_record_whose_sum_is_wrong_is_damage_to_every_command_that_reads_it(
    ortpkg: RunCommand, digits: Path, key: str, words: list[str]
) -> None:
    assert ortpkg("sign", digits, "--key", key).code == 0
    document = json.loads((digits / "digests.json").read_text())
    document["package"] = "0" * 64
    (digits / "digests.json").write_bytes(dump_document(document))

    done = ortpkg(*[{"P": digits, "KEY": f"{key}.pub"}.get(word, word) for word in words])

    assert done.code != 0
    said = "its entries do not add up to the package digest that it states"
    assert said in " ".join((done.out + done.err).split())


@pytest.mark.parametrize(
    "words",
    [
        ["edit", "P", "--description", "another"],
        ["add-variant", "P", "MODEL", "--ep", "cpu"],
        ["remove-variant", "P", "cpu-int8"],
        ["slim", "P", "--in-place", "--variant", "cpu-fp32"],
        ["convert", "P", "--in-place", "--to", "component"],
        ["merge", "OTHER", "--into", "P"],
        ["verify", "P", "--record"],
    ],
    ids=lambda words: words[0],
)
def test_what_breaks_a_signature_says_so(
    ortpkg: RunCommand, digits: Path, key: str, tmp_path: Path, words: list[str]
) -> None:
    other = Path(shutil.copytree(digits, tmp_path / "other.ortpackage"))
    model = next(digits.glob("models/*/*/model.onnx"))
    shutil.copy(model, tmp_path / "extra.onnx")
    assert ortpkg("add-variant", other, tmp_path / "extra.onnx", "--ep", "cpu").code == 0
    assert ortpkg("sign", digits, "--key", key).code == 0
    if words[0] == "verify":
        (digits / "README.md").write_text("edited")
    places = {"P": digits, "OTHER": other, "MODEL": tmp_path / "extra.onnx"}

    done = ortpkg(*(places.get(word, word) for word in words))

    assert done.code == 0, done.err
    assert "is signed ('model.sig'), over its files as they were" in done.err
    assert f"ortpkg sign {digits} --key KEY" in done.err
    assert ortpkg("verify", digits, "--key", f"{key}.pub").code == 7


def test_a_new_package_of_signed_ones_has_no_signature_and_merge_says_so(
    ortpkg: RunCommand, digits: Path, key: str, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(digits, tmp_path / "other.ortpackage"))
    assert ortpkg("remove-variant", other, "cpu-int8").code == 0
    assert ortpkg("sign", digits, "--key", key).code == 0

    done = ortpkg("merge", other, digits, "-o", "both.ortpackage", "--json")

    assert done.code == 0, done.err
    assert f"signed: '{digits}'; " in done.err
    assert "has other files, and no signature: sign it" in done.err
    told = json.loads(done.out)
    assert told["lost_signatures"] == [str(digits / "model.sig")]
    assert told["stale_signatures"] == []
    done = ortpkg("merge", digits, other, "-o", "both.ortpackage", "--overwrite")
    assert "no signature: sign it" in done.err
    ortpkg("edit", digits, "--description", "another")
    assert json.loads(ortpkg("edit", digits, "--name", "seven", "--json").out)[
        "stale_signatures"
    ] == ["model.sig"]


def test_several_sign_one_package_and_who_signs_again_replaces_his_own(
    ortpkg: RunCommand, digits: Path, key: str
) -> None:
    ortpkg("sign", "--new-key", "you.pem")
    for each in (key, "you.pem", key):
        assert ortpkg("sign", digits, "--key", each).code == 0

    assert len(list(digits.rglob("*.sig"))) == 2
    found = ortpkg("verify", digits, "--key", "you.pem.pub", "--json").json["signatures"]
    assert [each["signer"] for each in found] == ["you.pem.pub"]
    assert found[0]["signature"].startswith("model.sig.d/")


def test_a_sparse_package_is_signed_and_verified_as_it_is(
    ortpkg: RunCommand, digits: Path, key: str
) -> None:
    ortpkg("sign", digits, "--key", key)
    shutil.rmtree(digits / "models" / "classifier" / "cpu-int8")

    done = ortpkg("verify", digits, "--key", f"{key}.pub")

    assert "signed by 'me.pem.pub'" in done.err
    assert ortpkg("sign", digits, "--key", key).code == 0


def test_a_published_package_is_signed_where_it_is(
    ortpkg: RunCommand, digits: Path, key: str, tmp_path: Path
) -> None:
    ortpkg("sign", "--new-key", "you.pem")
    ortpkg("push", digits, "oci-layout:shared:1")
    assert ortpkg("verify", "oci-layout:shared:1", "--key", f"{key}.pub").code == 7

    for each in (key, "you.pem", key):
        signed = ortpkg("sign", "oci-layout:shared:1", "--key", each).out
    assert signed.startswith("oci-layout:shared@sha256:")
    for each in (key, "you.pem"):
        assert ortpkg("verify", "oci-layout:shared:1", "--key", f"{each}.pub").code == 0
    assert not list((tmp_path / "digits.ortpackage").rglob("*.sig"))


def test_push_takes_signatures_along_but_for_those_over_other_files(
    ortpkg: RunCommand, digits: Path, key: str
) -> None:
    ortpkg("sign", "--new-key", "you.pem")
    ortpkg("sign", digits, "--key", key)
    (digits / "README.md").write_text("revised")
    record_digests(digits)
    ortpkg("sign", digits, "--key", "you.pem")

    assert ortpkg("push", digits, "oci-layout:shared:1").code == 0

    assert ortpkg("verify", "oci-layout:shared:1", "--key", "you.pem.pub").code == 0
    refused = ortpkg("verify", "oci-layout:shared:1", "--key", f"{key}.pub")
    assert refused.code == 7
    assert "by another key" in refused.err


def test_a_packed_package_keeps_its_signatures(
    ortpkg: RunCommand, digits: Path, key: str, tmp_path: Path
) -> None:
    ortpkg("sign", "--new-key", "you.pem")
    for each in (key, "you.pem"):
        ortpkg("sign", digits, "--key", each)

    packed = ortpkg("pack", digits, "-o", "d.ortpkg")
    assert "packed 12 files" in packed.err
    done = ortpkg("verify", "d.ortpkg", "--key", "you.pem.pub")

    assert (done.code, done.err.splitlines()[-1][:36]) == (
        0,
        "signed by 'you.pem.pub' (model.sig.d",
    )
    assert ortpkg("verify", "d.ortpkg", "--key", f"{key}.pub", "--json").json["signatures"] == [
        {"signer": f"{key}.pub", "signature": "model.sig"}
    ]
    ortpkg("sign", "--new-key", "they.pem")
    assert ortpkg("verify", "d.ortpkg", "--key", "they.pem.pub").code == 7
    ortpkg("unpack", "d.ortpkg", "-o", "d.ortpackage")
    names = sorted(path.relative_to(digits) for path in digits.rglob("*.sig"))
    assert names == sorted(
        path.relative_to("d.ortpackage") for path in Path("d.ortpackage").rglob("*.sig")
    )
    assert len(names) == 2
    assert ortpkg("verify", "d.ortpackage", "--key", f"{key}.pub").code == 0
    assert ortpkg("pack", "d.ortpackage", "-o", "again.ortpkg").code == 0
    assert (tmp_path / "again.ortpkg").read_bytes() == (tmp_path / "d.ortpkg").read_bytes()


def test_what_is_signed_elsewhere_says_where(
    ortpkg: RunCommand, digits: Path, key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    ortpkg("sign", digits, "--key", key)
    ortpkg("pack", digits, "-o", "d.ortpkg")
    ortpkg("install", "d.ortpkg", "--variant", "cpu-int8")
    (root,) = tmp_path.glob("store/packages/*/*/digits.ortpackage")

    for named, what in (
        ("d.ortpkg", "sign the package's directory, and pack that"),
        ("digits", "sign it where it is published"),
        (root, "lies in the store, which is read-only: ortpkg pull digits -o FOLDER"),
    ):
        done = ortpkg("sign", named, "--key", key)
        assert done.code in (2, 4)
        assert what in done.err
    assert "signed by 'me.pem.pub'" in ortpkg("verify", "digits", "--key", f"{key}.pub").err


def test_whom_an_authority_names_signs_from_end_to_end(
    ortpkg: RunCommand, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTPKG_STORE", str(tmp_path / "store"))
    root = Authority.new()
    middle = Authority.new("middle", by=root)
    library_key, key = new_key()
    certificate = load_der_x509_certificate(middle.certify(library_key))
    for name, content in {
        "k.pem": key.pem(None),
        "leaf.pem": certificate.public_bytes(Encoding.PEM),
        "middle.pem": middle.pem,
        "root.pem": root.pem,
        "trust.toml": b'[signers.us]\nidentity = "releases@models.example"\n'
        b'trust_roots = "root.pem"\n[[packages]]\nnames = ["digits"]\nsigners = ["us"]\n',
    }.items():
        (tmp_path / name).write_bytes(content)
    as_us = ("--certificate", "leaf.pem", "--certificate-chain", "middle.pem")
    wanted = ("--identity", "releases@models.example", "--trust-roots", "root.pem")

    assert ortpkg("sign", digits, "--key", "k.pem", *as_us).code == 0
    assert ortpkg("push", digits, "oci-layout:shared:1").code == 0
    done = ortpkg(
        "install", "oci-layout:shared:1", "--variant", "cpu-int8", "--trust-policy", "trust.toml"
    )
    assert done.code == 0
    assert "  signed by 'us' (signature sha256:" in done.err
    for named in (digits, "oci-layout:shared:1", "digits"):
        done = ortpkg("verify", named, *wanted)
        assert (done.code, "signed by 'releases@models.example'" in done.err) == (0, True)
    done = ortpkg("verify", "digits", "--identity", "ann@models.example", *wanted[2:])
    assert done.code == 7
    assert (
        "not by 'ann@models.example'; its certificate's names of that kind: 'releases@models"
        in done.err
    )


def test_only_its_owner_reads_a_new_key_and_none_is_written_over(
    ortpkg: RunCommand, tmp_path: Path, key: str
) -> None:
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / key).stat().st_mode) == 0o600
    made = (tmp_path / key).read_bytes()

    done = ortpkg("sign", "--new-key", key)

    assert (done.code, (tmp_path / key).read_bytes()) == (2, made)
    assert "never written over" in done.err


def test_an_encrypted_key_wants_its_password_in_a_file(
    ortpkg: RunCommand, digits: Path, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("correct horse\n")
    (tmp_path / "other").write_text("battery staple\n")
    ortpkg("sign", "--new-key", "k.pem", "--password-file", "password")

    assert b"ENCRYPTED" in (tmp_path / "k.pem").read_bytes()
    assert read_private_key(tmp_path / "k.pem", b"correct horse").public.digest
    for password, what in ((None, "is encrypted"), ("other", "or the password is wrong")):
        option = () if password is None else ("--password-file", password)
        done = ortpkg("sign", digits, "--key", "k.pem", *option)
        assert done.code == 2
        assert what in done.err
    assert ortpkg("sign", digits, "--key", "k.pem", "--password-file", "password").code == 0


def test_a_rehearsal_writes_nothing(
    ortpkg: RunCommand, digits: Path, key: str, tmp_path: Path
) -> None:
    assert "would add model.sig" in ortpkg("sign", digits, "--key", key, "--dry-run").out
    assert ortpkg("sign", "--new-key", "n.pem", "--dry-run").code == 0

    assert not (digits / "model.sig").exists()
    assert not (tmp_path / "n.pem").exists()


def test_what_no_signature_would_cover_is_not_signed(
    ortpkg: RunCommand, digits: Path, key: str
) -> None:
    (digits / "stray.txt").write_text("")
    done = ortpkg("sign", digits, "--key", key)
    assert done.code == 4
    assert "does not record all files" in done.err
    assert "'stray.txt'" in done.err

    (digits / "digests.json").unlink()
    assert "ortpkg verify --record writes it" in ortpkg("sign", digits, "--key", key).err
    assert "no signature says anything" in ortpkg("verify", digits, "--key", f"{key}.pub").err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("sign",), "name a package and --key FILE"),
        (("sign", "d", "--key", "k", "--new-key", "n"), "give it alone"),
        (("sign", "d", "--key", "none"), "cannot be read: No such file"),
        (("sign", "d.ortpkg", "--key", "me.pem"), "cannot be signed"),
        (("sign", "d", "--key", "me.pem.pub"), "is no private key"),
        (("sign", "d", "--key", "me.pem", "--certificate-chain", "c"), "is for --certificate"),
        (("sign", "d", "--key", "me.pem", "--certificate", "me.pem"), "holds no certificates"),
        (("verify", "DIGITS", "--key", "me.pem"), "is a private key"),
        (("verify", "DIGITS", "--identity", "me"), "belong together"),
        (("verify", "DIGITS", "--signature"), "say whose signature is wanted"),
        (("verify", "DIGITS", "--key", "me.pem.pub", "--record"), "look at signatures after"),
        (("verify", "oci-layout:shared"), "there are no files to hash"),
    ],
)
def test_wrong_usage_says_what_would_be_right(
    ortpkg: RunCommand, key: str, words: tuple[str, ...], what: str
) -> None:
    assert key
    done = ortpkg(*(DIGITS if word == "DIGITS" else word for word in words))

    assert done.code == 2
    assert what in done.err


def test_without_the_library_the_extra_is_named(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [
        name for name in sys.modules if name.startswith("ortpkg.package.trust.signing.signing_")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)

    done = ortpkg("sign", "--new-key", "new.pem")

    assert done.code == 2
    assert "extra sign" in done.err


def test_the_policy_says_whose_signature_is_wanted(
    ortpkg: RunCommand, digits: Path, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trust.toml").write_text(
        f'[signers.me]\nkey = "{key}.pub"\n[[packages]]\nnames = ["digits"]\nsigners = ["me"]\n'
    )
    refused = ortpkg("verify", digits, "--trust-policy", "trust.toml")
    assert refused.code == 7
    assert "'digits' has to be signed by 'me': the package is not signed" in refused.err

    ortpkg("sign", digits, "--key", key)
    monkeypatch.setenv("ORTPKG_TRUST_POLICY", str(tmp_path / "trust.toml"))
    assert "signed by 'me' (model.sig)" in ortpkg("verify", digits, "--signature").err
