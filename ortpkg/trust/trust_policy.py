"""Who may publish which packages, and whose native contexts run: the user's trust policy.

A policy is a list of rules; of the name that a package states, what it is called here and the place
that it comes from, each is decided by the first rule about it, and all rules that decide have to
accept. So neither a registry that gives another package than was asked for, nor a package that
calls itself something harmless, finds a laxer rule. A package that no rule is about is refused.

Name and version are those of ``manifest.json``, which ``digests.json`` records, which a signature
covers. docs/trust.md says what a policy protects from.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ortpkg.errors import SignatureError, quoted
from ortpkg.trust.place_patterns import is_match
from ortpkg.trust.signing.openssf_signature import (
    Acceptance,
    FoundSignature,
    TrustedSigner,
    accepted_signers,
)
from ortpkg.versions import parse_version


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

    def is_about(self, text: str) -> bool:
        """Whether one of its patterns matches a name, or a place."""
        return any(is_match(pattern, text) for pattern in self.names)


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
        called: str = "",
        today: dt.date | None = None,
    ) -> Judgement:
        """Whether a package may be used, and how far.

        Args:
            name: as its manifest states it; "" where that has none.
            version: as its manifest states it, not a tag, which anybody moves.
            record: the bytes of its digests.json; the caller compares the files with it.
            signatures: what lies beside the package.
            reference: where it comes from, without a version; "" where that is not known.
            called: its name in the store, which its repository may have given it; "" for none.
            today: the day that ``valid_until`` is compared with; left out, today in UTC.
        """
        of_place, of_called = self._first(reference), self._first(called)
        if of_called is not None and not (
            of_called.is_about(name) or (reference and of_called.is_about(reference))
        ):
            return self._refused(
                f"it was asked for as {quoted(called)} and calls itself {quoted(name)}, which the"
                f" rule about {quoted(called)} is not about: it is another package, or the rule's"
                " names lack that one"
            )
        stated = next((rule for rule in self.rules if rule.is_about(name)), None)
        found = ((of_place, reference), (of_called, called), (stated, name))
        deciding = {id(rule): (rule, text) for rule, text in found[::-1] if rule is not None}
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
        refused = next((each for each in judgements if not each.is_accepted), None)
        if refused is not None:
            return refused
        acceptances = {each.where: each for found in judgements for each in found.acceptances}
        return Judgement(
            is_accepted=True,
            acceptances=tuple(acceptances.values()),
            may_ship_native_contexts=all(each.may_ship_native_contexts for each in judgements),
        )

    def _first(self, text: str) -> PublisherRule | None:
        """The rule that decides about a text; none about one that is not known."""
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
            stated = f"version {quoted(version[:80])}" if version else "no version"
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
    called: str = "",
) -> Judgement:
    """What an installer asks before it fetches files; arguments as :meth:`TrustPolicy.judge`.

    Without a policy everything is accepted, and nothing is vouched for.

    Raises:
        SignatureError: the policy refuses it; says why.
    """
    if policy is None:
        return Judgement(is_accepted=True)
    judgement = policy.judge(name, version, record, signatures, reference=reference, called=called)
    if not judgement.is_accepted:
        raise SignatureError(judgement.reason)
    return judgement


def _is_at_least(version: str, minimal: str) -> bool:
    stated, demanded = parse_version(version), parse_version(minimal)
    return stated is not None and demanded is not None and stated >= demanded
