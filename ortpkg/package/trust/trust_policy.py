"""The user's trust policy: who may publish which packages, and whose native contexts run.

A policy is a list of rules. Three texts are checked: the name that a package states, its name here,
and its source. For each, the first matching rule decides, and all deciding rules must accept. So a
registry that returns another package than requested, or a package with a harmless name, cannot
reach a laxer rule. A package that no rule matches is refused.

Name and version are those of ``manifest.json``, which ``digests.json`` records, which a signature
covers. docs/trust.md explains what a policy protects from.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.errors import SignatureError, quoted
from ortpkg.foundations.versions import parse_version
from ortpkg.package.trust.place_patterns import is_match
from ortpkg.package.trust.signing.openssf_signature import (
    Acceptance,
    FoundSignature,
    TrustedSigner,
    accepted_signers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherRule:
    """Rule for packages with certain names.

    Attributes:
        names: Patterns with ``*`` and ``?`` of names (``vision-*``) and of references without a
            version (``oci://models.example/vision/*``).
        signers: Signers one of whom must vouch for the package; None if no signature is needed.
        may_ship_native_contexts: True if their compiled contexts run without ``--trust``.
        minimal_version: Oldest version that is accepted; "" for any.
        valid_until: Last day of the rule; after it, nothing is accepted until the rule is reviewed.
    """

    names: tuple[str, ...]
    signers: tuple[TrustedSigner, ...] | None
    may_ship_native_contexts: bool = False
    minimal_version: str = ""
    valid_until: dt.date | None = None

    def is_about(self, text: str) -> bool:
        """Return True if one of its patterns matches a name or source."""
        return any(is_match(pattern, text) for pattern in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Decision of a policy about one package.

    Attributes:
        is_accepted: True if the package may be used.
        reason: Reason of a refusal, or "".
        acceptances: Signers who vouch for it.
        may_ship_native_contexts: True if its compiled contexts run without ``--trust``.
    """

    is_accepted: bool
    reason: str = ""
    acceptances: tuple[Acceptance, ...] = ()
    may_ship_native_contexts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """Rules of one policy file, in their order."""

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
        called: str = "",
        today: dt.date | None = None,
    ) -> Judgement:
        """Decide if a package may be used, and if its native contexts run.

        Args:
            name: Name in its manifest, or "".
            version: Version in its manifest; not a tag, which anybody can move.
            record: Bytes of its digests.json; the caller compares the files with it.
            signatures: Signatures next to the package.
            reference: Source without a version, or "" if unknown.
            called: Name in the store, which the repository may have given; "" for none.
            today: Day to compare with ``valid_until``; default: today in UTC.
        """
        place_rule, called_rule = self._first(reference), self._first(called)
        if called_rule is not None and not (
            called_rule.is_about(name) or (reference and called_rule.is_about(reference))
        ):
            return self._refused(
                f"it was asked for as {quoted(called)} and calls itself {quoted(name)}, which the"
                f" rule about {quoted(called)} is not about: it is another package, or the rule's"
                " names lack that one"
            )
        name_rule = next((rule for rule in self.rules if rule.is_about(name)), None)
        matches = ((place_rule, reference), (called_rule, called), (name_rule, name))
        deciding = {id(rule): (rule, text) for rule, text in matches[::-1] if rule is not None}
        if not deciding:
            texts = " nor ".join(quoted(text) for text in (name, reference) if text)
            return self._refused(
                f"no rule is about {texts or 'a package without a name'}, and what no rule is about"
                " is refused: name it in a [[packages]]"
            )
        judgements = [
            self._by_rule(rule, quoted(text or name), version, record, signatures, today)
            for rule, text in deciding.values()
        ]
        refused = next((judgement for judgement in judgements if not judgement.is_accepted), None)
        if refused is not None:
            return refused
        acceptances = {
            judgement.where: judgement
            for matches in judgements
            for judgement in matches.acceptances
        }
        return Judgement(
            is_accepted=True,
            acceptances=tuple(acceptances.values()),
            may_ship_native_contexts=all(
                judgement.may_ship_native_contexts for judgement in judgements
            ),
        )

    def _first(self, text: str) -> PublisherRule | None:
        """Return the first rule that matches a text; None for an empty text."""
        return next((rule for rule in self.rules if text and rule.is_about(text)), None)

    def _by_rule(
        self,
        rule: PublisherRule,
        called: str,
        version: str,
        record: bytes,
        signatures: Sequence[FoundSignature],
        today: dt.date | None,
    ) -> Judgement:
        day = today or dt.datetime.now(dt.UTC).date()
        if rule.valid_until is not None and day > rule.valid_until:
            return self._refused(
                f"the rule about {called} was valid until {rule.valid_until}: look at what is new,"
                " and set a later day"
            )
        if rule.minimal_version and not _is_at_least(version, rule.minimal_version):
            version_text = f"version {quoted(version[:80])}" if version else "no version"
            return self._refused(
                f"{called} has {version_text}; at least {rule.minimal_version} is demanded"
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
    called: str = "",
) -> Judgement:
    """Check a package before its files are fetched.

    See :meth:`TrustPolicy.judge` for the arguments.

    Without a policy everything is accepted, without a signer who vouches for it.

    Raises:
        SignatureError: The policy refuses the package; the message says why.
    """
    if policy is None:
        return Judgement(is_accepted=True)
    judgement = policy.judge(name, version, record, signatures, reference=reference, called=called)
    if not judgement.is_accepted:
        raise SignatureError(judgement.reason)
    return judgement


def _is_at_least(version: str, minimal: str) -> bool:
    actual, demanded = parse_version(version), parse_version(minimal)
    return actual is not None and demanded is not None and actual >= demanded
