"""Collect findings while documents are read, so that a user sees all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.errors import Finding, PackageFormatError, Severity, quoted

_MOST_NAMES_LISTED = 8
MOST_FINDINGS = 1000
"""Most findings of one severity in one reading: a package can be made to have any number."""


def json_pointer(*tokens: str | int) -> str:
    """Return the JSON pointer (RFC 6901) through ``tokens``; "" for none, the whole document."""
    pointer = ""
    for token in tokens:
        text = str(token)
        if "~" in text or "/" in text:
            text = text.replace("~", "~0").replace("/", "~1")
        pointer = f"{pointer}/{text}"
    return pointer


def listed(names: Sequence[str]) -> str:
    """Return names for a message: quoted, and only as many as a person reads."""
    more = f" and {len(names) - _MOST_NAMES_LISTED} more" if len(names) > _MOST_NAMES_LISTED else ""
    return ", ".join(map(quoted, names[:_MOST_NAMES_LISTED])) + more


def finding(
    rule: Rule, document: str, message: str, *, pointer: str = "", remedy: str = ""
) -> Finding:
    """Return a finding of ``rule``; a more precise ``remedy`` replaces the rule's own."""
    return Finding(
        rule=rule.id,
        document=document,
        message=message,
        pointer=pointer,
        remedy=remedy or rule.remedy,
        severity=rule.severity,
    )


def fail(
    rule: Rule, document: str, message: str, *, pointer: str = "", remedy: str = ""
) -> NoReturn:
    """End the reading of a document with one finding.

    Raises:
        PackageFormatError: always.
    """
    problem = finding(rule, document, message, pointer=pointer, remedy=remedy)
    raise PackageFormatError(str(problem), findings=(problem,))


class FindingCollector:
    """List of findings in document order; readers add to it and go on.

    Beyond ``MOST_FINDINGS`` errors, and as many warnings, findings are only counted.

    Args:
        statuses: rule id → another reader's status for a violation of the rule. If given, findings
            carry the status instead of the id, and warnings, which that reader does not give, are
            left out.
    """

    __slots__ = ("_counts", "_findings", "_statuses")

    def __init__(self, statuses: Mapping[str, str] | None = None) -> None:
        self._findings: list[Finding] = []
        self._counts = dict.fromkeys(Severity, 0)
        self._statuses = statuses

    def add(
        self, rule: Rule, document: str, message: str, *, pointer: str = "", remedy: str = ""
    ) -> None:
        """Add a finding of ``rule``."""
        self.extend((finding(rule, document, message, pointer=pointer, remedy=remedy),))

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings, converted by ``statuses``."""
        for item in findings:
            if self._statuses is not None:
                if item.severity is not Severity.ERROR:
                    continue
                item = replace(item, rule=self._statuses.get(item.rule, item.rule))
            self._counts[item.severity] += 1
            if self._counts[item.severity] <= MOST_FINDINGS:
                self._findings.append(item)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All collected findings, in order; if some were only counted, the last one says so."""
        left_out = sum(max(count - MOST_FINDINGS, 0) for count in self._counts.values())
        if not left_out:
            return tuple(self._findings)
        last = self._findings[-1]
        message = f"{last.message} (and {left_out:,} more findings, not listed)"
        return (*self._findings[:-1], replace(last, message=message))

    @property
    def has_errors(self) -> bool:
        """True if one of the findings is an error, not a warning."""
        return self._counts[Severity.ERROR] > 0
