"""What ``ortpkg validate`` found."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.authoring.rule_registry import RULES
from ortpkg.drawing.svg import shortened
from ortpkg.errors import Finding, Severity
from ortpkg.report.report_subject import ReportSubject
from ortpkg.report.sections.section import Section, Status, left_out

_MOST_FINDINGS = 1000
_LONGEST_MESSAGE = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """One finding with what its rule says.

    Attributes:
        rule, title: its id and what it is about; the title is "" for an id that is no rule's.
        severity: "error" or "warning".
        place: the document, and the pointer in it.
        message, remedy: what is wrong, and what would be right; at most 600 letters each.
    """

    rule: str
    title: str
    severity: str
    place: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingSection(Section):
    """The findings, errors first, each as the validator gave it.

    Attributes:
        rows: at most a thousand.
        left_out: how many more there are, in a sentence; "" where there are none.
    """

    rows: tuple[FindingRow, ...]
    left_out: str


def finding_section(subject: ReportSubject) -> FindingSection:
    """The findings of the package."""
    ordered = sorted(subject.findings, key=lambda each: each.severity is not Severity.ERROR)
    errors = sum(each.severity is Severity.ERROR for each in ordered)
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
        place=f"{finding.document} {finding.pointer}".strip(),
        message=shortened(finding.message, _LONGEST_MESSAGE),
        remedy=shortened(finding.remedy, _LONGEST_MESSAGE),
    )
