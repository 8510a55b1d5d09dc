"""All rules by id, and the user's choice of them by ``--select`` and ``--ignore``, as in ruff."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ortpkg.authoring.rules import AUTHORING_RULES
from ortpkg.authoring.rules.targets import TARGETS
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.package.rules import PACKAGE_RULES

RULES: dict[str, Rule] = {rule.id: rule for rule in (*PACKAGE_RULES, *AUTHORING_RULES)}
"""Rules by id, in the order of ids."""

_ID_LENGTH = len("ORT101")
_FAMILY = "ORT"
_FEWEST_IN_COMMON = len(_FAMILY) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFilter:
    """Choice of rules: of all prefixes that fit a rule's id, the longest decides.

    Attributes:
        select: prefixes of ids; empty for all.
        ignore: prefixes of ids to exclude; of two equal prefixes this one decides.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def wants(self, rule: str) -> bool:
        """Return True if findings of the rule with this id are selected."""
        selected = _longest_prefix(rule, self.select) if self.select else 0
        return selected is not None and (_longest_prefix(rule, self.ignore) or -1) < selected


def rule_filter(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> RuleFilter:
    """Return the filter for ids or their beginnings as a user wrote them: with commas, in any case.

    Raises:
        UsageError: no rule has such an id.
    """
    return RuleFilter(select=_prefixes(select), ignore=_prefixes(ignore))


def find_rule(identifier: str) -> Rule:
    """Return the rule with this id, in any case.

    Raises:
        UsageError: there is none.
    """
    wanted = identifier.strip().upper()
    if wanted in RULES:
        return RULES[wanted]
    raise UsageError(f"there is no rule {quoted(identifier)}{_suggestion(wanted)}")


def check_targets(targets: Iterable[str]) -> tuple[str, ...]:
    """Return the targets, each once.

    Raises:
        UsageError: one is not known.
    """
    for target in targets:
        if target not in TARGETS:
            hint = did_you_mean(target, TARGETS)
            raise UsageError(
                f"there is no target {quoted(target)}{hint}; known are: {', '.join(TARGETS)}"
            )
    return tuple(dict.fromkeys(targets))


def _prefixes(written: Iterable[str]) -> tuple[str, ...]:
    prefixes = [
        prefix.strip().upper() for text in written for prefix in text.split(",") if prefix.strip()
    ]
    for prefix in prefixes:
        if not any(identifier.startswith(prefix) for identifier in RULES):
            raise UsageError(f"there is no rule {quoted(prefix)}{_suggestion(prefix)}")
    return tuple(prefixes)


def _suggestion(identifier: str) -> str:
    """Return the rules that a wrong id begins like, or else the most similar one."""
    for length in range(min(len(identifier), _ID_LENGTH), _FEWEST_IN_COMMON - 1, -1):
        prefix = identifier[:length]
        if similar := [rule_id for rule_id in RULES if rule_id.startswith(prefix)]:
            return f"; these begin with {prefix}: {', '.join(similar)}"
    hint = "" if identifier.startswith(_FAMILY) else did_you_mean(identifier, RULES)
    return f"{hint}; ortpkg explain lists all"


def _longest_prefix(rule: str, prefixes: Iterable[str]) -> int | None:
    return max((len(prefix) for prefix in prefixes if rule.startswith(prefix)), default=None)
