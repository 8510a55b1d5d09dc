"""Findings of ``ortpkg validate``."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.authoring.rule_registry import RULES
from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.errors import Finding, Severity
from ortpkg.report.report_subject import ReportSubject
from ortpkg.report.sections.section import Section, Status, left_out

_MOST_FINDINGS = 1000
_LONGEST_MESSAGE = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """One finding with the title of its rule.

    Attributes:
        rule, title: Id of the rule and its subject; the title is "" for an unknown id.
        severity: "error" or "warning".
        source: Document, and the pointer in it.
        message, remedy: What is wrong and what would be right, at most 600 characters each.
    """

    rule: str
    title: str
    severity: str
    source: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingSection(Section):
    """Findings, errors first.

    Attributes:
        rows: At most a thousand findings.
        left_out: Sentence on the number of further ones, or "".
    """

    rows: tuple[FindingRow, ...]
    left_out: str


def finding_section(subject: ReportSubject) -> FindingSection:
    """Return the findings of the package."""
    ordered = sorted(subject.findings, key=lambda finding: finding.severity is not Severity.ERROR)
    errors = sum(finding.severity is Severity.ERROR for finding in ordered)
    return FindingSection(
        headline=_headline(errors, len(ordered) - errors),
        status=Status.BAD if errors else Status.WARN if ordered else Status.GOOD,
        rows=tuple(map(_row, ordered[:_MOST_FINDINGS])),
        left_out=left_out(len(ordered) - _MOST_FINDINGS, "findings", "ortpkg validate"),
    )


def _headline(errors: int, warnings: int) -> str:
    if not errors and not warnings:
        return "Valid: nothing was found"
    words = [
        f"{count} {noun}{'s' * (count != 1)}"
        for count, noun in ((errors, "error"), (warnings, "warning"))
        if count
    ]
    return " and ".join(words)


def _row(finding: Finding) -> FindingRow:
    rule = RULES.get(finding.rule)
    return FindingRow(
        rule=finding.rule,
        title=rule.title if rule is not None else "",
        severity=finding.severity.value,
        source=f"{finding.document} {finding.pointer}".strip(),
        message=shortened(finding.message, _LONGEST_MESSAGE),
        remedy=shortened(finding.remedy, _LONGEST_MESSAGE),
    )
