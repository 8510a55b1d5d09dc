"""Signatures of a package: who made them, and if they are accepted here.

Neither the network nor a person is asked: the trust policy of this machine decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortpkg.foundations.errors import OrtpkgError, SignatureError, quoted
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import signature_names
from ortpkg.package.trust.signing.openssf_signature import FoundSignature, is_over
from ortpkg.package.trust.signing.signature_bundle import parse_bundle
from ortpkg.package.trust.trust_policy import Judgement
from ortpkg.package.trust.trust_policy_file import read_policy

if TYPE_CHECKING:
    from ortpkg.package.trust.signing.signed_package import SignedPackage

_KEY_DIGITS = 16
_NO_POLICY = (
    "There is no trust policy on this machine, so nobody says whose signatures are accepted;"
    " ortpkg verify --signature --key FILE checks one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureFact:
    """One signature.

    Attributes:
        where: Its file in the package.
        signer: Claimed signer: a name in the certificate, or a key.
        is_current: True if it covers what digests.json records now.
        accepted_as: Signer of the trust policy that it was proven to be, or "".
        problem: Reason why it cannot be read, or "".
    """

    where: str
    signer: str
    is_current: bool
    accepted_as: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSignatureFacts:
    """All signatures of a package.

    Attributes:
        signatures: The signatures.
        policy: Sentence on the decision of this machine's trust policy.
        is_judged: True if there is a policy.
        is_refused: True if the policy refuses the package.
    """

    signatures: tuple[SignatureFact, ...] = ()
    policy: str = ""
    is_judged: bool = False
    is_refused: bool = False


def signature_facts(package: PackageInfo) -> PackageSignatureFacts:
    """Return the signatures of ``package``; problems are described, not raised."""
    if package.is_bare_model:
        return PackageSignatureFacts(policy="An ONNX file has no signatures.")
    if not signature_names(package.root):
        return _unsigned(package)
    try:
        signed = _signed(package)
        judgement = _judgement(signed)
    except OrtpkgError as error:
        return PackageSignatureFacts(policy=str(error), is_refused=True)
    accepted: dict[str, str] = {}
    if judgement is not None:
        accepted = {item.where: item.signer.name for item in judgement.acceptances}
    return PackageSignatureFacts(
        signatures=tuple(_fact(item, signed.record, accepted) for item in signed.signatures),
        policy=_sentence(judgement, signed.signatures),
        is_judged=judgement is not None,
        is_refused=judgement is not None and not judgement.is_accepted,
    )


def _unsigned(package: PackageInfo) -> PackageSignatureFacts:
    """Return the facts of a package without signatures, which the policy may refuse."""
    try:
        judgement = _judgement(_signed(package)) if read_policy() is not None else None
    except OrtpkgError as error:
        return PackageSignatureFacts(policy=str(error), is_refused=True)
    if judgement is None:
        return PackageSignatureFacts(policy="Nobody has signed the package.")
    return PackageSignatureFacts(
        policy=_sentence(judgement, ()), is_refused=not judgement.is_accepted
    )


def _signed(package: PackageInfo) -> SignedPackage:
    # This import loads registries, archives and the store, so only if needed.
    from ortpkg.package.trust.signing.signed_package import read_signed_package

    return read_signed_package(package)


def _judgement(signed: SignedPackage) -> Judgement | None:
    """Return the decision of this machine's trust policy, or None without a policy.

    Raises:
        UsageError: The policy cannot be read.
    """
    policy = read_policy()
    if policy is None:
        return None
    return policy.judge(
        signed.name, signed.version, signed.record, signed.signatures, reference=signed.origin
    )


def _sentence(judgement: Judgement | None, signatures: Sequence[FoundSignature]) -> str:
    if judgement is None:
        return _NO_POLICY
    if not judgement.is_accepted:
        return judgement.reason
    if judgement.acceptances:
        names = dict.fromkeys(
            quoted(acceptance.signer.name) for acceptance in judgement.acceptances
        )
        return f"The trust policy of this machine accepts it: signed by {', '.join(names)}."
    which = "these signatures were not checked" if signatures else "it has none"
    return f"The trust policy of this machine demands no signature of it; {which}."


def _fact(signature: FoundSignature, record: bytes, accepted: dict[str, str]) -> SignatureFact:
    signer = problem = ""
    try:
        signer = _claimed_signer(signature)
    except OrtpkgError as error:  # UsageError if no library for certificates is installed
        problem = str(error)
    return SignatureFact(
        where=signature.where,
        signer=signer,
        is_current=is_over(record, signature),
        accepted_as=accepted.get(signature.where, ""),
        problem=problem,
    )


def _claimed_signer(signature: FoundSignature) -> str:
    bundle = parse_bundle(signature.content, where=signature.where)
    if not bundle.certificates:
        return f"key {bundle.key_digest[:_KEY_DIGITS]}..."
    from ortpkg.package.trust.signing.signing_certificates import (
        names_of_certificate,  # cryptography
    )

    names = names_of_certificate(bundle.certificates[0], signature.where)
    if not names:
        raise SignatureError(f"{signature.where}: its certificate names nobody")
    return ", ".join(names[:4])
