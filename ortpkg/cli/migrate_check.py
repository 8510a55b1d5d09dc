"""``ortpkg migrate-check``: shows what onnxruntime's releases would do with a package."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ortpkg.authoring.migration import ReleaseChoice, ReleaseReport, migrate_check
from ortpkg.authoring.opening import package_folder
from ortpkg.cli.completion import complete_ep
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.load_limits import LoadLimits, end_at_limits
from ortpkg.cli.parameters import OptionalPackageArgument, StrictOption
from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.errors import ExitCode

EpsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ep",
        metavar="EP",
        help="Ask for this execution provider too. Repeatable.",
        autocompletion=complete_ep,
    ),
]


def command(
    output: Output,
    package: OptionalPackageArgument = None,
    eps: EpsOption = None,
    strict: StrictOption = False,
    *,
    limits: LoadLimits,
) -> int:
    """Say which onnxruntime releases open a package, what each selects, and what it passes over.

    With --strict the exit code is 1 where a release refuses the package, or selects a variant for
    nothing.
    """
    named = chosen_package(package, output)
    with end_at_limits(limits, output), package_folder(named) as root:
        reports = migrate_check(root, eps=eps or ())
    if output.is_json:
        output.json("migrate-check", {"releases": [_json(report) for report in reports]})
    else:
        for report in reports:
            _print(report, output)
    is_short = any(not report.opens or report.never_selected for report in reports)
    return ExitCode.FINDINGS if strict and is_short else ExitCode.DONE


def _print(report: ReleaseReport, output: Output) -> None:
    if not report.opens:
        output.line(f"{report.release}: refuses the package", style="bold red")
        for refusal in report.refusals:
            output.line(f"    {refusal}", hang="      ")
        if report.remedy:
            output.line(f"    {report.remedy} makes one of the form that it opens", hang="      ")
        return
    rows = [
        (choice.component, _request_text(choice), _selected(choice), choice.reason)
        for choice in report.choices
    ]
    columns = [
        Column("component"),
        Column("execution provider", short=short_ep_names),
        Column("selects", wraps=12),
    ]
    columns += [Column("because", wraps=20, short=short_ep_names)]
    output.table(columns, rows, title=f"{report.release}: opens the package")
    for variant, reason in report.never_selected:
        output.line(f"    never selects {variant}: {reason}", style="yellow", hang="      ")
    for what in report.ignored:
        output.line(f"    passes over {what}", hang="      ")


def _request_text(choice: ReleaseChoice) -> str:
    if choice.ep is None:
        return "none named"
    request = f"{choice.ep} on {choice.device}" if choice.device else choice.ep
    return (
        f"{request}, which rates {choice.rated_optimal} OPTIMAL"
        if choice.rated_optimal
        else request
    )


def _selected(choice: ReleaseChoice) -> str:
    if choice.alternatives:
        return f"unpredictable: {' or '.join(choice.alternatives)}"
    return choice.variant or "nothing"


def _json(report: ReleaseReport) -> dict[str, Any]:
    return {
        "release": report.release,
        "opens": report.opens,
        "refusals": list(report.refusals),
        "remedy": report.remedy or None,
        "choices": [
            {
                "component": choice.component,
                "ep": choice.ep,
                "device": choice.device,
                "variant": choice.variant,
                "alternatives": list(choice.alternatives),
                "reason": choice.reason,
                "can_run": choice.can_run,
                "rated_optimal": choice.rated_optimal,
            }
            for choice in report.choices
        ],
        "never_selected": [
            {"variant": variant, "reason": reason} for variant, reason in report.never_selected
        ],
        "ignored": list(report.ignored),
    }
