"""``ortpkg explain``: explains a rule of ``validate``, and what to do about it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ortpkg.authoring.rule_registry import RULES, find_rule
from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.documents.document_rules import ALL_FORMATS, Rule

RuleArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RULE", help="Id of the rule, as in ORT101. Without one, all rules are listed."
    ),
]


def command(
    output: Output,
    rule: RuleArgument = None,
) -> int:
    """Say what a rule of `ortpkg validate` means, why it matters, what breaks it and what to do."""
    if rule is not None:
        described_rule = find_rule(rule)
        output.json("rule", _as_json(described_rule)) if output.is_json else _print(
            described_rule, output
        )
    elif output.is_json:
        output.json("rules", {"rules": [_as_json(listed_rule) for listed_rule in RULES.values()]})
    else:
        columns = (Column("rule"), Column("severity"), Column("title", wraps=24))
        output.table(
            columns,
            [
                (listed_rule.id, listed_rule.severity.value, listed_rule.title)
                for listed_rule in RULES.values()
            ],
        )
    return 0


def _as_json(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "title": rule.title,
        "severity": rule.severity.value,
        "explanation": rule.explanation,
        "example": rule.example,
        "remedy": rule.remedy,
        "formats": list(rule.formats),
        "targets": list(rule.targets),
    }


def _print(rule: Rule, output: Output) -> None:
    output.line(f"{rule.id} ({rule.severity.value}): {rule.title}", style="bold", hang="  ")
    if rule.formats != ALL_FORMATS:
        output.line(f"for the formats {' and '.join(rule.formats)}")
    if rule.targets:
        output.line(f"only with --target {' or '.join(rule.targets)}")
    for heading, text in (
        ("Why it matters", rule.explanation),
        ("Example", rule.example),
        ("What to do", rule.remedy),
    ):
        output.line()
        output.line(heading, style="bold")
        output.line(f"    {text}", hang="    ")
