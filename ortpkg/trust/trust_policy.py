"""Who may publish which packages, and whose native contexts run: the user's trust policy.

A policy is a list of rules. The first whose names match decides; a package that no rule is about is
refused. What is judged is signed: the name and version of ``manifest.json``, which ``digests.json``
records, which a signature covers. docs/trust.md says what a policy protects from.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ortpkg.errors import SignatureError, quoted
from ortpkg.trust.signing.openssf_signature import (
    Acceptance,
    FoundSignature,
    TrustedSigner,
    accepted_signers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherRule:
    """What holds for the packages of some names.

    Attributes:
        names: patterns with ``*`` and ``?`` of names (``vision-*``) and of references without a
            version (``oci://models.example/vision/*``).
        signers: one of them has to vouch for the package; where this is None, nobody has to.
        may_ship_native_contexts: their compiled contexts run without ``--trust``.
        minimal_version: older ones are refused; "" takes any.
        valid_until: after that day nothing is accepted until somebody looks at the rule again.
    """

    names: tuple[str, ...]
    signers: tuple[TrustedSigner, ...] | None
    may_ship_native_contexts: bool = False
    minimal_version: str = ""
    valid_until: dt.date | None = None

    def is_about(self, name: str, reference: str) -> bool:
        """Whether one of its patterns matches."""
        candidates = [text for text in (name, reference) if text]
        return any(fnmatchcase(text, glob) for glob in self.names for text in candidates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a policy says of one package.

    Attributes:
        is_accepted: it may be used.
        reason: why not; "" where it may.
        acceptances: who vouches for it.
        may_ship_native_contexts: its compiled contexts run without ``--trust``.
    """

    is_accepted: bool
    reason: str = ""
    acceptances: tuple[Acceptance, ...] = ()
    may_ship_native_contexts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """The rules of one file, in their order."""

    source: Path
    rules: tuple[PublisherRule, ...]

    def judge(
        self,
        name: str,
        version: str,
        record: bytes,
        signatures: Sequence[FoundSignature],
        *,
        reference: str = "",
        today: dt.date | None = None,
    ) -> Judgement:
        """Whether a package may be used, and how far.

        Args:
            name: under which it is used: that of its manifest, or the one it gets in the store.
            version: as its manifest states it, not a tag, which anybody moves.
            record: the bytes of its digests.json; the caller compares the files with it.
            signatures: what lies beside the package.
            reference: where it comes from, without a version.
            today: the day that ``valid_until`` is compared with; left out, today in UTC.
        """
        rule = next((rule for rule in self.rules if rule.is_about(name, reference)), None)
        called = quoted(name or reference)
        if rule is None:
            return self._refused(f"no rule is about {called}, and what no rule is about is refused")
        day = today or dt.datetime.now(dt.UTC).date()
        if rule.valid_until is not None and day > rule.valid_until:
            return self._refused(
                f"the rule about {called} was valid until {rule.valid_until}: look at what is new,"
                " and set a later day"
            )
        if rule.minimal_version and not _is_at_least(version, rule.minimal_version):
            stated = f"version {quoted(version)}" if version else "no version"
            return self._refused(
                f"{called} has {stated}; at least {rule.minimal_version} is demanded"
            )
        if rule.signers is None:
            return Judgement(is_accepted=True)
        try:
            acceptances = accepted_signers(record, signatures, rule.signers)
        except SignatureError as error:
            names = ", ".join(quoted(signer.name) for signer in rule.signers)
            return self._refused(f"{called} has to be signed by {names}: {error}")
        return Judgement(
            is_accepted=True,
            acceptances=acceptances,
            may_ship_native_contexts=rule.may_ship_native_contexts,
        )

    def _refused(self, reason: str) -> Judgement:
        return Judgement(
            is_accepted=False, reason=f"the trust policy {quoted(self.source)} refuses it: {reason}"
        )


def check_publisher(
    policy: TrustPolicy | None,
    name: str,
    version: str,
    record: bytes,
    signatures: Sequence[FoundSignature],
    *,
    reference: str = "",
) -> Judgement:
    """What an installer asks before it activates a package; arguments as :meth:`TrustPolicy.judge`.

    Without a policy everything is accepted, and nothing is vouched for.

    Raises:
        SignatureError: the policy refuses it; says why.
    """
    if policy is None:
        return Judgement(is_accepted=True)
    judgement = policy.judge(name, version, record, signatures, reference=reference)
    if not judgement.is_accepted:
        raise SignatureError(judgement.reason)
    return judgement


def _is_at_least(version: str, minimal: str) -> bool:
    from packaging.version import InvalidVersion, Version  # only where a rule demands one

    try:
        return Version(version) >= Version(minimal)
    except InvalidVersion:
        return False
