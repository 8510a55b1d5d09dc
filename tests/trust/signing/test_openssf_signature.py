"""Signatures that are accepted, and all the ways of being wrong."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from ortpkg.foundations.documents.json_documents import dump_document
from ortpkg.foundations.errors import SignatureError, UsageError
from ortpkg.foundations.storage.hashing import hash_bytes
from ortpkg.package.integrity.digests import (
    PackageDigests,
    PendingChange,
    RecordedFile,
    dump_digests,
)
from ortpkg.package.trust.signing.openssf_signature import (
    FoundSignature,
    TrustedSigner,
    accepted_signers,
    check_signature,
    sign_digests,
)
from ortpkg.package.trust.signing.signature_bundle import SignatureBundle, dump_bundle, signed_bytes
from ortpkg.package.trust.signing.signature_files import key_digest_of
from ortpkg.package.trust.signing.signing_keys import PrivateKey
from tests.trust.signing.signers import (
    CODE_SIGNING,
    SERVER,
    Authority,
    new_key,
    record_of,
    sign_entries_alone,
    some_key,
    trusted,
)

MADE_BY_MODEL_SIGNING = Path(__file__).resolve().parents[2] / "data" / "signatures"
RECORD = record_of(**{"manifest.json": b"{}", "model.onnx": b"weights"})
KEY = some_key()
IDENTITY = "releases@models.example"


def found(content: bytes) -> FoundSignature:
    return FoundSignature(where="model.sig", content=content)


def signed(key: PrivateKey = KEY, record: bytes = RECORD) -> bytes:
    return sign_digests(record, name="digits", key=key)


def payload_of(content: bytes) -> dict[str, Any]:
    bundle = json.loads(content)
    statement: dict[str, Any] = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    return statement


def signed_as(statement: object) -> bytes:
    """A signature by the right key over another statement."""
    payload = statement if isinstance(statement, bytes) else json.dumps(statement).encode()
    signature = KEY.sign(signed_bytes(payload))
    return dump_bundle(
        SignatureBundle(payload=payload, signature=signature, key_digest=KEY.public.digest)
    )


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_what_a_key_signed_is_accepted_from_it(curve: ec.EllipticCurve) -> None:
    key = PrivateKey(ec.generate_private_key(curve))

    signer = check_signature(RECORD, found(signed(key)), [trusted(some_key()), trusted(key, "me")])

    assert signer.name == "me"


def test_a_signature_lists_every_file_and_the_record_itself() -> None:
    statement = payload_of(signed())

    listed = {each["name"]: each["digest"] for each in statement["predicate"]["resources"]}
    assert listed == {
        "digests.json": hash_bytes(RECORD).sha256,
        "manifest.json": hash_bytes(b"{}").sha256,
        "model.onnx": hash_bytes(b"weights").sha256,
    }


@pytest.mark.parametrize("curve", ["p256", "p384", "p521"])
def test_model_signing_s_signatures_by_a_key_are_accepted(curve: str) -> None:
    record = (MADE_BY_MODEL_SIGNING / "digests.json").read_bytes()
    signer = TrustedSigner(name="them", key=(MADE_BY_MODEL_SIGNING / f"{curve}.pub").read_bytes())
    signature = found((MADE_BY_MODEL_SIGNING / f"{curve}.sig").read_bytes())

    assert check_signature(record, signature, [signer]) is signer
    with pytest.raises(SignatureError, match=r"over other files .*'digests.json'"):
        check_signature(RECORD, signature, [signer])


def test_model_signing_s_signature_by_a_certificate_is_accepted() -> None:
    record = (MADE_BY_MODEL_SIGNING / "digests.json").read_bytes()
    roots = (MADE_BY_MODEL_SIGNING / "authority.pem").read_bytes()
    signer = TrustedSigner(name="them", identity=IDENTITY, roots=roots)
    signature = found((MADE_BY_MODEL_SIGNING / "certificate.sig").read_bytes())

    assert check_signature(record, signature, [signer]) is signer


def _changed_statement(change: Callable[[dict[str, Any]], object]) -> bytes:
    statement = payload_of(signed())
    change(statement)
    return signed_as(statement)


def _resources(statement: dict[str, Any]) -> list[dict[str, Any]]:
    resources: list[dict[str, Any]] = statement["predicate"]["resources"]
    return resources


def _changed_bundle(change: Callable[[dict[str, Any]], object]) -> bytes:
    bundle = json.loads(signed())
    change(bundle)
    return json.dumps(bundle).encode()


def _other_payload(bundle: dict[str, Any]) -> None:
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b"digits", b"digitz")
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()


WRONG: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"signed, me", "no JSON document"),
    "an older bundle": (
        _changed_bundle(lambda each: each.update(mediaType="bundle+json;version=0.2")),
        "it is of type 'bundle+json;version=0.2', not application/vnd.dev.sigstore.bundle.v0.3",
    ),
    "two signatures": (
        _changed_bundle(lambda each: each["dsseEnvelope"]["signatures"].append({"sig": "AA=="})),
        "not exactly one signature",
    ),
    "no envelope": (_changed_bundle(lambda each: each.pop("dsseEnvelope")), "no object"),
    "no Base64": (
        _changed_bundle(lambda each: each["dsseEnvelope"].update(payload="?")),
        "its payload is not text in Base64",
    ),
    "another payload type": (
        _changed_bundle(lambda each: each["dsseEnvelope"].update(payloadType="text/plain")),
        "its payload is of type 'text/plain'",
    ),
    "no key named": (
        _changed_bundle(lambda each: each["verificationMaterial"].update(publicKey={})),
        "does not say by which key",
    ),
    "public service": (
        _changed_bundle(lambda each: each.update(verificationMaterial={"certificate": {}})),
        "sigstore's public service",
    ),
    "100 certificates": (
        _changed_bundle(
            lambda each: each.update(
                verificationMaterial={"x509CertificateChain": {"certificates": [{}] * 100}}
            )
        ),
        "not 1 to 8 certificates",
    ),
    "by a certificate": (
        _changed_bundle(
            lambda each: each.update(
                verificationMaterial={
                    "x509CertificateChain": {"certificates": [{"rawBytes": "AAAA"}]}
                }
            )
        ),
        "by a certificate, not by the key 'me'",
    ),
    "another statement": (_changed_bundle(_other_payload), "one of the two was changed"),
    "junk as signature": (
        _changed_bundle(
            lambda each: each["dsseEnvelope"]["signatures"].__setitem__(0, {"sig": "AAAA"})
        ),
        "one of the two was changed",
    ),
    "megabytes": (signed() + b" " * 2_000_000, "more than any signature over this package"),
    "payload no JSON": (signed_as(b"\xff"), "its statement is no JSON document"),
    "unknown statement": (
        _changed_statement(lambda each: each.update(_type="v0")),
        "its statement is of type 'v0'",
    ),
    "unknown predicate": (
        _changed_statement(lambda each: each.update(predicateType="https://slsa.dev/v1")),
        "its predicate is of type 'https://slsa.dev/v1'",
    ),
    "two subjects": (
        _changed_statement(lambda each: each["subject"].append({})),
        "not exactly one subject",
    ),
    "subject of others": (
        _changed_statement(lambda each: each["subject"][0]["digest"].update(sha256="0" * 64)),
        "the digest of its subject is not that of its resources",
    ),
    "shards": (
        _changed_statement(lambda each: each["predicate"]["serialization"].update(method="shards")),
        "does not sign whole files",
    ),
    "no resources": (
        _changed_statement(lambda each: each["predicate"].update(resources=[])),
        "its resources are not a list of 1 to",
    ),
    "resource twice": (
        _changed_statement(lambda each: _resources(each).append(_resources(each)[0])),
        "it lists 'digests.json' twice",
    ),
    "leaves the package": (
        _changed_statement(lambda each: _resources(each)[1].update(name="../manifest.json")),
        "'../manifest.json' is not a plain relative path",
    ),
    "absolute": (
        _changed_statement(lambda each: _resources(each)[1].update(name="/etc/passwd")),
        "'/etc/passwd' is not a plain relative path",
    ),
    "other algorithm": (
        _changed_statement(lambda each: _resources(each)[1].update(algorithm="blake2b")),
        "'manifest.json' is no SHA-256",
    ),
    "no digest": (
        _changed_statement(lambda each: _resources(each)[1].pop("digest")),
        "has no name, or no digest",
    ),
    "a file more": (
        signed(record=record_of(**{"manifest.json": b"{}", "model.onnx": b"weights", "x": b""})),
        "over other files than the package's: 'digests.json', 'x'",
    ),
    "other bytes": (
        signed(record=record_of(**{"manifest.json": b"{}", "model.onnx": b"other"})),
        "over other files than the package's: 'digests.json', 'model.onnx'",
    ),
    "another key": (signed(some_key()), "by another key"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_signature_is_one_error_that_says_what_is_wrong(name: str) -> None:
    content, what = WRONG[name]

    with pytest.raises(SignatureError, match=re.escape(what)) as caught:
        check_signature(RECORD, found(content), [trusted(KEY, "me")])

    assert str(caught.value).startswith("model.sig is not accepted: ")
    assert caught.value.exit_code == 7


def test_a_key_that_claims_to_be_another_s_signs_nothing() -> None:
    content = json.loads(signed(some_key()))
    content["verificationMaterial"]["publicKey"]["hint"] = KEY.public.digest

    with pytest.raises(SignatureError, match="one of the two was changed"):
        check_signature(RECORD, found(json.dumps(content).encode()), [trusted(KEY)])


def test_a_signature_over_the_entries_alone_vouches_for_no_second_digest() -> None:
    forged = json.loads(RECORD)
    forged["files"]["model.onnx"]["digests"].insert(0, hash_bytes(b"forged").sha256)
    record = dump_document(forged)

    with pytest.raises(SignatureError, match=r"has 2 digests of 'model.onnx'"):
        check_signature(record, found(sign_entries_alone(RECORD, KEY)), [trusted(KEY)])


def test_a_signature_over_the_entries_alone_wants_the_record_in_its_own_form() -> None:
    content = found(sign_entries_alone(RECORD, KEY))

    assert check_signature(RECORD, content, [trusted(KEY, "me")]).name == "me"
    with pytest.raises(SignatureError, match="not in the form that ortpkg writes"):
        check_signature(RECORD + b"\n", content, [trusted(KEY)])


def test_one_signature_of_several_suffices_and_all_that_fail_are_told() -> None:
    theirs, stale = some_key(), found(signed(record=record_of(other=b"")))
    signatures = [stale, found(signed()), found(signed(theirs))]

    accepted = accepted_signers(RECORD, signatures, [trusted(KEY, "me"), trusted(theirs, "they")])

    assert [each.signer.name for each in accepted] == ["me", "they"]
    with pytest.raises(SignatureError, match=r"over other files.*; model.sig is .* another key"):
        accepted_signers(RECORD, [stale, found(signed(theirs))], [trusted(KEY)])
    with pytest.raises(SignatureError, match="not signed"):
        accepted_signers(RECORD, [], [trusted(KEY)])


def test_a_record_of_a_change_under_way_is_neither_signed_nor_accepted() -> None:
    pending = PendingChange(commit_document="manifest.json", committed_digest="0" * 64)
    files = {"manifest.json": RecordedFile.of(hash_bytes(b"{}"))}
    record = dump_digests(PackageDigests(files=files, pending=pending))

    with pytest.raises(SignatureError, match="a change of the package was interrupted"):
        signed(record=record)


class TestCertificates:
    """A private authority says whose the key is."""

    root = Authority.new()
    middle = Authority.new("middle", by=root)

    def sign(self, *chain: bytes, key: PrivateKey, days: int = 0) -> FoundSignature:
        """Signs so many days from now."""
        now = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
        content = sign_digests(RECORD, name="digits", key=key, certificates=chain, now=now)
        return found(content)

    def check(
        self, signature: FoundSignature, identity: str = IDENTITY, root: Authority | None = None
    ) -> None:
        roots = (root or self.root).pem
        check_signature(
            RECORD, signature, [TrustedSigner(name=identity, identity=identity, roots=roots)]
        )

    def test_whom_it_names_is_accepted(self) -> None:
        key, signer = new_key()
        signature = self.sign(self.middle.certify(key), self.middle.der, key=signer)

        self.check(signature)
        with pytest.raises(SignatureError, match=r"is not by 'x@models.example'; .* 'releases@"):
            self.check(signature, "x@models.example")
        with pytest.raises(SignatureError, match="the roots do not vouch for it"):
            self.check(signature, root=Authority.new())

    @pytest.mark.parametrize(
        ("wrong", "what"),
        [
            ({"days": (-20, -10)}, r"'CN=signer' has expired on 20\d\d-\d\d-\d\d \d\d:\d\d UTC"),
            ({"days": (10, 20)}, r"'CN=signer' is not valid before 20\d\d-"),
            ({"purposes": (SERVER,)}, "not for signing code"),
            ({"may_sign": False}, "not for signatures"),
        ],
    )
    def test_a_certificate_that_does_not_hold_is_refused(
        self, wrong: dict[str, Any], what: str
    ) -> None:
        key, signer = new_key()

        day = sum(wrong.get("days", (0, 0))) // 2
        signature = self.sign(self.root.certify(key, **wrong), key=signer, days=day)

        with pytest.raises(SignatureError, match=what):
            self.check(signature)

    @pytest.mark.parametrize(
        ("days", "what"), [((-20, -10), "has expired on"), ((10, 20), "is not valid before")]
    )
    def test_nobody_signs_by_a_certificate_that_is_not_valid(
        self, days: tuple[int, int], what: str
    ) -> None:
        key, signer = new_key()

        with pytest.raises(UsageError, match=f"nothing is signed: .* 'CN=signer' {what}"):
            self.sign(self.root.certify(key, days=days), key=signer)

    def test_an_identity_is_compared_with_names_of_its_own_kind(self) -> None:
        """An authority for one host's names is free in URIs: such a URI is no host's name."""
        key, signer = new_key()
        hosts = Authority.new("hosts", by=self.root, permitted=[x509.DNSName("other.example")])
        names = [
            x509.UniformResourceIdentifier("models.example"),
            x509.RFC822Name("models.example"),
            x509.DNSName("other.example"),
        ]
        signature = self.sign(hosts.certify(key, names=names), hosts.der, key=signer)

        self.check(signature, "other.example")
        with pytest.raises(SignatureError, match=r"names of that kind: 'other.example'; of other"):
            self.check(signature, "models.example")
        forged = hosts.certify(key, names=[x509.DNSName("models.example")])
        with pytest.raises(SignatureError, match="no permitted name constraints"):
            self.check(self.sign(forged, hosts.der, key=signer), "models.example")

    @pytest.mark.parametrize("is_root", [True, False])
    def test_an_issuer_whose_key_may_not_certify_is_refused(self, is_root: bool) -> None:
        key, signer = new_key()
        issuer = Authority.new(by=None if is_root else self.root, may_certify=False)
        signature = self.sign(issuer.certify(key), *([] if is_root else [issuer.der]), key=signer)

        with pytest.raises(SignatureError, match="keyUsage without keyCertSign"):
            self.check(signature, root=issuer if is_root else None)

    @pytest.mark.parametrize("is_root", [True, False])
    def test_an_issuer_for_web_servers_alone_names_no_signer(self, is_root: bool) -> None:
        key, signer = new_key()
        by = None if is_root else self.root
        for purposes in ([SERVER], [SERVER, CODE_SIGNING]):
            issuer = Authority.new(by=by, purposes=purposes)
            chain = [] if is_root else [issuer.der]
            signature = self.sign(issuer.certify(key), *chain, key=signer)
            if CODE_SIGNING in purposes:
                self.check(signature, root=issuer if is_root else None)
                continue
            with pytest.raises(SignatureError, match="an issuer is not for signing code"):
                self.check(signature, root=issuer if is_root else None)

    def test_a_certificate_with_one_bit_changed_is_one_error(self) -> None:
        key, signer = new_key()
        certificate = self.root.certify(key)
        for place in range(0, len(certificate), 3):
            changed = bytearray(certificate)
            changed[place] ^= 1
            bundle = SignatureBundle(
                payload=b"{}", signature=signer.sign(b""), certificates=(bytes(changed),)
            )
            with contextlib.suppress(SignatureError):  # its key may be as it was
                key_digest_of(dump_bundle(bundle), "w")
            with pytest.raises(SignatureError):
                self.check(found(dump_bundle(bundle)))

    def test_a_signer_is_no_authority(self) -> None:
        key, signer = new_key()
        own, _ = new_key()
        fake = Authority(own, _parsed(self.root.certify(own)))

        with pytest.raises(SignatureError, match="the roots do not vouch for it"):
            self.check(self.sign(fake.certify(key), fake.der, key=signer))

    def test_a_chain_with_a_gap_is_refused(self) -> None:
        key, signer = new_key()

        with pytest.raises(SignatureError, match="the roots do not vouch for it"):
            self.check(self.sign(self.middle.certify(key), key=signer))

    def test_a_certificate_of_another_key_signs_nothing(self) -> None:
        key, signer = new_key()

        with pytest.raises(UsageError, match="not that of the key"):
            self.sign(self.root.certify(key), key=some_key())
        with pytest.raises(SignatureError, match="by a key without certificates"):
            self.check(found(signed(signer)))


def _parsed(certificate: bytes) -> Any:
    return x509.load_der_x509_certificate(certificate)
