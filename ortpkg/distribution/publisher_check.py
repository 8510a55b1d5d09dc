"""Whether the trust policy takes a package that is about to come here, and what vouches for it.

It is asked once the documents are here, before anything is chosen or any file is fetched.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.fetched_documents import FetchedDocuments
from ortpkg.documents.frozen import EMPTY
from ortpkg.errors import RegistryError, SignatureError, quoted
from ortpkg.trust.signing.openssf_signature import Acceptance, FoundSignature, is_over
from ortpkg.trust.signing.signature_files import signature_paths
from ortpkg.trust.signing.signed_package import SignedPackage
from ortpkg.trust.trust_policy import check_publisher
from ortpkg.trust.trust_policy_file import read_policy

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouching:
    """What vouches for a package that a policy, if there is one, takes.

    Attributes:
        signatures: path in the package → a signature that comes along: those that the policy
            accepts in front, then others over the same files.
        acceptances: whose signatures the policy accepts; none without a policy.
    """

    signatures: Mapping[str, bytes] = EMPTY
    acceptances: tuple[Acceptance, ...] = ()


def check_documents(
    fetched: FetchedDocuments, called: str, trust_policy: Path | None = None
) -> Vouching:
    """Judges a package by its documents and signatures.

    Args:
        fetched: its documents.
        called: its name in the store.
        trust_policy: the policy's file; left out, the one that holds here, if any.

    Raises:
        SignatureError: the policy refuses it; says what it demands.
        UsageError: the policy cannot be read.
        RegistryError: its signatures cannot be read; without a policy, that is a warning.
    """
    source, policy = fetched.source, read_policy(trust_policy)
    if policy is None:
        return _unjudged(fetched)
    try:
        package = fetched.signed()
        judgement = check_publisher(
            policy,
            package.name,
            package.version,
            package.record,
            package.signatures,
            reference=package.place,
            called=called,
        )
    except SignatureError as error:
        raise SignatureError(
            f"{quoted(source.reference)} ({source.digest}) is not taken: {error}"
        ) from error
    accepted = {each.where for each in judgement.acceptances}
    return Vouching(signatures=_kept(package, accepted=accepted), acceptances=judgement.acceptances)


def _unjudged(fetched: FetchedDocuments) -> Vouching:
    try:
        return Vouching(signatures=_kept(fetched.signed()))
    except (RegistryError, SignatureError) as error:
        logger.warning("the signatures of %s are left out: %s", fetched.source.reference, error)
        return Vouching()


def _kept(package: SignedPackage, accepted: Collection[str] = ()) -> dict[str, bytes]:
    """The signatures over just these files; a change of the package leaves others behind."""

    def is_other(signature: FoundSignature) -> bool:
        return signature.where not in accepted

    kept = [each for each in package.signatures if is_over(package.record, each)]
    return signature_paths(sorted(kept, key=is_other))
