"""Check of a package against the trust policy before it is installed.

It runs once the documents are fetched, before variants are selected and files are fetched.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.distribution.fetched_documents import FetchedDocuments
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import RegistryError, SignatureError, quoted
from ortpkg.package.trust.signing.openssf_signature import Acceptance, FoundSignature, is_over
from ortpkg.package.trust.signing.signature_files import signature_paths
from ortpkg.package.trust.signing.signed_package import SignedPackage
from ortpkg.package.trust.trust_policy import check_publisher
from ortpkg.package.trust.trust_policy_file import read_policy

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouching:
    """Signatures of a package that the policy, if any, accepts.

    Attributes:
        signatures: Signatures to install, by path in the package: those that the policy accepts
            first, then others over the same files.
        acceptances: Signers that the policy accepts; none without a policy.
    """

    signatures: Mapping[str, bytes] = EMPTY
    acceptances: tuple[Acceptance, ...] = ()


def check_documents(
    fetched: FetchedDocuments, store_name: str, trust_policy: Path | None = None
) -> Vouching:
    """Check a package by its documents and signatures.

    Args:
        fetched: Documents of the package.
        store_name: Name in the store.
        trust_policy: File of the policy; default: the one that applies here, if any.

    Raises:
        SignatureError: The policy refuses the package; the message says what it demands.
        UsageError: The policy cannot be read.
        RegistryError: The signatures cannot be read; without a policy, that is a warning.
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
            reference=package.origin,
            called=store_name,
        )
    except SignatureError as error:
        raise SignatureError(
            f"{quoted(source.reference)} ({source.digest}) is not taken: {error}"
        ) from error
    accepted = {acceptance.where for acceptance in judgement.acceptances}
    return Vouching(
        signatures=_matching_signatures(package, accepted=accepted),
        acceptances=judgement.acceptances,
    )


def _unjudged(fetched: FetchedDocuments) -> Vouching:
    try:
        return Vouching(signatures=_matching_signatures(fetched.signed()))
    except (RegistryError, SignatureError) as error:
        logger.warning("the signatures of %s are left out: %s", fetched.source.reference, error)
        return Vouching()


def _matching_signatures(
    package: SignedPackage, accepted: Collection[str] = ()
) -> dict[str, bytes]:
    """Return the signatures over exactly these files, without those left from before a change."""

    def is_other(signature: FoundSignature) -> bool:
        return signature.where not in accepted

    matching = [
        found_signature
        for found_signature in package.signatures
        if is_over(package.record, found_signature)
    ]
    return signature_paths(sorted(matching, key=is_other))
