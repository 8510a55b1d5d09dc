"""Which signatures a package carries, who made them, and whether they are accepted here.

Nothing is asked of a network or of a person: what counts is the trust policy of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortpkg.errors import OrtpkgError, SignatureError, quoted
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import signature_names
from ortpkg.trust.signing.openssf_signature import FoundSignature, is_over
from ortpkg.trust.signing.signature_bundle import parse_bundle
from ortpkg.trust.trust_policy import Judgement
from ortpkg.trust.trust_policy_file import read_policy

if TYPE_CHECKING:
    from ortpkg.trust.signing.signed_package import SignedPackage

_KEY_DIGITS = 16
_NO_POLICY = (
    "There is no trust policy on this machine, so nobody says whose signatures are accepted;"
    " ortpkg verify --signature --key FILE checks one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureFact:
    """One signature.

    Attributes:
        where: its file in the package.
        signer: by whom it says it is: a name of the certificate, or a key.
        is_current: whether it is over what digests.json records now.
        accepted_as: the signer of the trust policy who it proved to be; "" for nobody.
        problem: why it cannot be read; "" where it can.
    """

    where: str
    signer: str
    is_current: bool
    accepted_as: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureFacts:
    """All signatures of a package.

    Attributes:
        signatures: each of them.
        policy: what the trust policy of this machine says of the package, in a sentence.
        is_judged: whether there is a policy.
        is_refused: whether the policy refuses the package.
    """

    signatures: tuple[SignatureFact, ...] = ()
    policy: str = ""
    is_judged: bool = False
    is_refused: bool = False


def signature_facts(package: PackageInfo) -> SignatureFacts:
    """The signatures of ``package``; what is wrong with them is said, never raised."""
    if package.is_bare_model:
        return SignatureFacts(policy="An ONNX file has no signatures.")
    if not signature_names(package.root):
        return _unsigned(package)
    try:
        signed = _signed(package)
        judgement = _judgement(signed)
    except OrtpkgError as error:
        return SignatureFacts(policy=str(error), is_refused=True)
    accepted: dict[str, str] = {}
    if judgement is not None:
        accepted = {each.where: each.signer.name for each in judgement.acceptances}
    return SignatureFacts(
        signatures=tuple(_fact(each, signed.record, accepted) for each in signed.signatures),
        policy=_sentence(judgement, signed.signatures),
        is_judged=judgement is not None,
        is_refused=judgement is not None and not judgement.is_accepted,
    )


def _unsigned(package: PackageInfo) -> SignatureFacts:
    """The policy may refuse what nobody signed."""
    try:
        judgement = _judgement(_signed(package)) if read_policy() is not None else None
    except OrtpkgError as error:
        return SignatureFacts(policy=str(error), is_refused=True)
    if judgement is None:
        return SignatureFacts(policy="Nobody has signed the package.")
    return SignatureFacts(policy=_sentence(judgement, ()), is_refused=not judgement.is_accepted)


def _signed(package: PackageInfo) -> SignedPackage:
    # With registries, archives and the store, only for what is signed or judged.
    from ortpkg.trust.signing.signed_package import signed_package

    return signed_package(package)


def _judgement(signed: SignedPackage) -> Judgement | None:
    """What the trust policy of this machine says; None where there is none.

    UsageError where it cannot be read.
    """
    policy = read_policy()
    if policy is None:
        return None
    return policy.judge(
        signed.name, signed.version, signed.record, signed.signatures, reference=signed.place
    )


def _sentence(judgement: Judgement | None, signatures: Sequence[FoundSignature]) -> str:
    if judgement is None:
        return _NO_POLICY
    if not judgement.is_accepted:
        return judgement.reason
    if judgement.acceptances:
        names = dict.fromkeys(quoted(each.signer.name) for each in judgement.acceptances)
        return f"The trust policy of this machine accepts it: signed by {', '.join(names)}."
    which = "these signatures were not checked" if signatures else "it has none"
    return f"The trust policy of this machine demands no signature of it; {which}."


def _fact(signature: FoundSignature, record: bytes, accepted: dict[str, str]) -> SignatureFact:
    signer = problem = ""
    try:
        signer = _claimed_signer(signature)
    except OrtpkgError as error:  # UsageError where no library for certificates is installed
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
    from ortpkg.trust.signing.signing_certificates import names_of_certificate  # cryptography

    names = names_of_certificate(bundle.certificates[0], signature.where)
    if not names:
        raise SignatureError(f"{signature.where}: its certificate names nobody")
    return ", ".join(names[:4])
