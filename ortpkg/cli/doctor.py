"""``ortpkg doctor``: finds problems of this machine, with remedies.

It also prints a block for bug reports.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ortpkg.api.doctor.diagnosis import (
    DoctorReport,
    doctor,
    report_lines,
    report_to_json,
    report_to_markdown,
)
from ortpkg.api.doctor.doctor_checks import Gravity
from ortpkg.cli.parameters import StrictOption
from ortpkg.cli.rendering import Output, plain
from ortpkg.foundations.errors import ExitCode, UsageError

_STYLES = {Gravity.ERROR: "bold red", Gravity.WARNING: "yellow", Gravity.INFO: ""}


MarkdownOption = Annotated[
    bool,
    typer.Option(
        "--markdown", help="One block to paste into a bug report; it names no user and no host."
    ),
]


def command(
    output: Output,
    as_markdown: MarkdownOption = False,
    strict: StrictOption = False,
) -> int:
    """Find what keeps models from running well: drivers, libraries, permissions, environments.

    Exit code 1 where something that is installed or plugged in cannot be used.
    """
    if as_markdown and output.is_json:
        raise UsageError("choose one of --markdown and --json")
    report = doctor()
    if output.is_json:
        output.json("doctor", report_to_json(report))
    elif as_markdown:
        output.line(report_to_markdown(report).rstrip("\n"))
    else:
        _print_report(report, output)
    is_fatal = report.has_errors or (strict and report.has_warnings)
    return ExitCode.FINDINGS if is_fatal else ExitCode.DONE


def _print_report(report: DoctorReport, output: Output) -> None:
    styles = {f"  {gravity.value} [": style for gravity, style in _STYLES.items()}
    for line in report_lines(report):
        is_title = not line.startswith(" ")
        style = (
            "bold"
            if is_title
            else next((s for start, s in styles.items() if line.startswith(start)), "")
        )
        output.line(plain(line), style=style, hang=" " * (len(line) - len(line.lstrip()) + 2))
