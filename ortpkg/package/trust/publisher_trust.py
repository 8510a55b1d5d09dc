"""Native code that the trust policy lets a package's publisher ship."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.errors import SignatureError
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digests import parse_digests
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.package.trust.signing.signed_package import SignedPackage, read_signed_package
from ortpkg.package.trust.trust_policy_file import read_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherTrust:
    """Files of a package that may be native code.

    Attributes:
        digests: SHA-256 of the files signed by a publisher who may ship native contexts.
        why_none: Reason why there are none, for messages; "" without a policy.
    """

    digests: frozenset[str] = frozenset()
    why_none: str = ""


def publisher_trust(package: PackageInfo) -> PublisherTrust:
    """Return the decision of the policy that applies here about a package's native contexts.

    Raises:
        UsageError: The policy cannot be read, or no library for signatures is installed.
    """
    return remote_publisher_trust(lambda: read_signed_package(package))


def remote_publisher_trust(
    read_signed: Callable[[], SignedPackage], trust_policy: Path | None = None
) -> PublisherTrust:
    """Return the decision about a package that may not be here yet; see :func:`publisher_trust`.

    Args:
        read_signed: Returns the package with its signatures.
        trust_policy: File of the policy; None for the one that applies here.
    """
    policy = read_policy(trust_policy)
    if policy is None:
        return PublisherTrust()
    try:
        signed = read_signed()
    except SignatureError as error:
        return PublisherTrust(why_none=str(error))
    recorded = parse_digests(signed.record, Path(DIGESTS_FILE))
    manifest = recorded.files.get(MANIFEST)
    if manifest is None or manifest.digests != (signed.manifest_digest,):
        # The policy decides by the name, which therefore must be signed.
        return PublisherTrust(why_none=f"{MANIFEST} is not as {DIGESTS_FILE} records it")
    judgement = policy.judge(
        signed.name, signed.version, signed.record, signed.signatures, reference=signed.origin
    )
    if not judgement.is_accepted:
        return PublisherTrust(why_none=judgement.reason)
    if not judgement.may_ship_native_contexts:
        return PublisherTrust(why_none="the trust policy does not say native_contexts = true of it")
    files = recorded.files.values()
    return PublisherTrust(digests=frozenset(file.digests[-1] for file in files))
