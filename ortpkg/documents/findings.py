"""Collects findings while documents are read, so that a user sees all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from ortpkg.documents.document_rules import Rule
from ortpkg.errors import Finding, PackageFormatError, Severity, quoted

_MOST_NAMES_LISTED = 8
MOST_FINDINGS = 1000
"""Of one severity, in one reading: a package can be made to have any number."""


def json_pointer(*tokens: str | int) -> str:
    """The JSON pointer (RFC 6901) that goes through ``tokens``.

    No tokens give ``""``, the whole document.
    """
    pointer = ""
    for token in tokens:
        text = str(token)
        if "~" in text or "/" in text:
            text = text.replace("~", "~0").replace("/", "~1")
        pointer = f"{pointer}/{text}"
    return pointer


def listed(names: Sequence[str]) -> str:
    """Names for a message: quoted, and only as many as a person reads."""
    more = f" and {len(names) - _MOST_NAMES_LISTED} more" if len(names) > _MOST_NAMES_LISTED else ""
    return ", ".join(map(quoted, names[:_MOST_NAMES_LISTED])) + more


def finding(
    rule: Rule, document: str, message: str, *, pointer: str = "", remedy: str = ""
) -> Finding:
    """A finding of ``rule``; a more precise ``remedy`` replaces the rule's own."""
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
    """Ends the reading of a document with one finding."""
    found = finding(rule, document, message, pointer=pointer, remedy=remedy)
    raise PackageFormatError(str(found), findings=(found,))


class FindingCollector:
    """A list of findings in document order; readers add to it and go on.

    Beyond ``MOST_FINDINGS`` errors, and as many warnings, they are only counted.

    Args:
        statuses: rule id → the status that another reader gives to what breaks the rule. With
            these, findings carry the status in place of the id, and warnings, which that reader
            does not give, are left out.
    """

    __slots__ = ("_counts", "_findings", "_statuses")

    def __init__(self, statuses: Mapping[str, str] | None = None) -> None:
        self._findings: list[Finding] = []
        self._counts = dict.fromkeys(Severity, 0)
        self._statuses = statuses

    def add(
        self, rule: Rule, document: str, message: str, *, pointer: str = "", remedy: str = ""
    ) -> None:
        """Adds a finding of ``rule``."""
        self.extend((finding(rule, document, message, pointer=pointer, remedy=remedy),))

    def extend(self, findings: Iterable[Finding]) -> None:
        """Adds findings, or what ``statuses`` makes of them."""
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
        """All that were taken, in that order.

        Where some were only counted, the last one says so.
        """
        left_out = sum(max(count - MOST_FINDINGS, 0) for count in self._counts.values())
        if not left_out:
            return tuple(self._findings)
        last = self._findings[-1]
        message = f"{last.message} (and {left_out:,} more findings, not listed)"
        return (*self._findings[:-1], replace(last, message=message))

    @property
    def has_errors(self) -> bool:
        """Whether one of them is an error, not a warning."""
        return self._counts[Severity.ERROR] > 0
