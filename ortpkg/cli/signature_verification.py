"""``ortpkg verify --signature``: checks whose signatures cover a package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ortpkg.authoring.opening import NamedKind, kind_of
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.package.reader import open_package
from ortpkg.package.references.package_references import LayoutReference, OciReference
from ortpkg.package.trust.policy_place import POLICY_ENVIRONMENT
from ortpkg.package.trust.signing.openssf_signature import (
    Acceptance,
    TrustedSigner,
    accepted_signers,
)
from ortpkg.package.trust.signing.signed_package import (
    SignedPackage,
    read_signed_package,
    signed_archive,
)
from ortpkg.package.trust.trust_policy import check_publisher
from ortpkg.package.trust.trust_policy_file import read_policy

KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="The signer's public key, in PEM form."),
]
IdentityOption = Annotated[
    str | None,
    typer.Option(
        "--identity", metavar="NAME", help="A name in the signer's certificate, such as a mail."
    ),
]
TrustRootsOption = Annotated[
    Path | None,
    typer.Option(
        "--trust-roots", metavar="FILE", help="The authorities' certificates, in PEM form."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSigner:
    """Wanted signer: a key, an identity, or one that the trust policy accepts."""

    key: Path | None = None
    identity: str | None = None
    trust_roots: Path | None = None
    policy: Path | None = None

    @property
    def is_stated(self) -> bool:
        """True if any signer was given."""
        return any((self.key, self.identity, self.trust_roots, self.policy))

    def check(self, package: SignedPackage) -> tuple[Acceptance, ...]:
        """Return who vouches for the package.

        Raises:
            SignatureError: No wanted signer does.
        """
        if signers := self._signers():
            return accepted_signers(package.record, package.signatures, signers)
        policy = read_policy(self.policy)
        if policy is None:
            raise UsageError(
                "say whose signature is wanted: --key FILE, --identity NAME with --trust-roots"
                f" FILE, or a trust policy ({POLICY_ENVIRONMENT}, trust.toml in the folder of"
                " settings)"
            )
        judgement = check_publisher(
            policy,
            package.name,
            package.version,
            package.record,
            package.signatures,
            reference=package.origin,
        )
        return judgement.acceptances

    def _signers(self) -> tuple[TrustedSigner, ...]:
        if (self.identity is None) != (self.trust_roots is None):
            raise UsageError("--identity and --trust-roots belong together: give both")
        if sum(option is not None for option in (self.key, self.identity, self.policy)) > 1:
            raise UsageError("give one of --key, --identity and --trust-policy")
        if self.key is not None:
            from ortpkg.package.trust.signing.signing_keys import read_public_key  # cryptography

            return (TrustedSigner(name=str(self.key), key=read_public_key(self.key).pem),)
        if self.identity is not None and self.trust_roots is not None:
            from ortpkg.package.trust.signing.signing_keys import read_key_file  # cryptography

            roots = read_key_file(self.trust_roots)
            return (TrustedSigner(name=self.identity, identity=self.identity, roots=roots),)
        return ()


def check_here(path: Path, wanted: WantedSigner) -> tuple[Acceptance, ...]:
    """Return who vouches for the recorded files of a package in a folder or packed file."""
    if kind_of(path) is NamedKind.PACKED:
        return wanted.check(signed_archive(path))
    return wanted.check(read_signed_package(open_package(path)))


def vouching_publisher(
    reference: OciReference | LayoutReference, wanted: WantedSigner
) -> tuple[Acceptance, ...]:
    """Return who vouches for a published package; only its documents are fetched."""
    from ortpkg.distribution.package_signing import read_signed_artifact  # a client of registries

    return wanted.check(read_signed_artifact(reference))


def print_acceptances(acceptances: tuple[Acceptance, ...], output: Output) -> None:
    """Print who vouches for a package."""
    if not acceptances:
        output.warning("the trust policy demands no signature of it, so none was looked at")
    for acceptance in acceptances:
        output.note(f"signed by {quoted(acceptance.signer.name)} ({acceptance.where})")


def acceptances_json(acceptances: tuple[Acceptance, ...]) -> list[dict[str, Any]]:
    """Return who vouches for a package, as JSON."""
    return [
        {"signer": acceptance.signer.name, "signature": acceptance.where}
        for acceptance in acceptances
    ]
