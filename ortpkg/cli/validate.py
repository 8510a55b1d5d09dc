"""``ortpkg validate``: prints everything that is wrong or doubtful in a package."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ortpkg.authoring.package_checks import cautions_of, validate
from ortpkg.cli.current_package import chosen_package
from ortpkg.cli.load_limits import LoadLimits, end_at_limits
from ortpkg.cli.parameters import (
    CompatOption,
    ExternalPathsOption,
    OptionalPackageArgument,
    StrictOption,
    one_of,
)
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, finding_json, print_findings
from ortpkg.foundations.errors import ExitCode, Finding, Severity, UsageError


class FindingFormat(StrEnum):
    """Format in which findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


SelectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="RULES",
        help="Only these rules, with commas between; ORT1 means all ORT1xx.",
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="RULES", help="Not these rules; of two that fit the longer counts."
    ),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="READER",
        help=(
            "Say what this reader would do, too: onnxruntime-1.27, onnxruntime-1.31,"
            " onnxruntime-1.32, genai or universal."
        ),
    ),
]
FormatOption = Annotated[
    FindingFormat,
    typer.Option("--format", **one_of(FindingFormat), help="Format in which findings are printed."),
]


def command(
    output: Output,
    package: OptionalPackageArgument = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    target: TargetOption = None,
    output_format: FormatOption = FindingFormat.TEXT,
    strict: StrictOption = False,
    compat: CompatOption = None,
    allow_external_paths: ExternalPathsOption = False,
    *,
    limits: LoadLimits,
) -> int:
    """Check a package's documents, models, files, selection and samples.

    Print every finding at once.
    """
    if output.is_json and output_format is FindingFormat.SARIF:
        raise UsageError("--json means --format json: leave it out for SARIF")
    output_format = FindingFormat.JSON if output.is_json else output_format
    output = Output(is_json=output_format is not FindingFormat.TEXT)
    package = chosen_package(package, output)
    with end_at_limits(limits, output), copy_progress() as progress:
        findings = validate(
            package,
            targets=target or (),
            select=select or (),
            ignore=ignore or (),
            compat=compat,
            allow_external_paths=allow_external_paths,
            progress=progress,
        )
    _print(package, findings, target or (), output_format, output)
    if any(finding.severity is Severity.ERROR for finding in findings):
        return ExitCode.PACKAGE
    return ExitCode.FINDINGS if findings and strict else ExitCode.DONE


def _print(
    package: Path,
    findings: Sequence[Finding],
    targets: Sequence[str],
    output_format: FindingFormat,
    output: Output,
) -> None:
    if output_format is FindingFormat.TEXT:
        for caution in cautions_of(targets):
            output.warning(caution)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    if output_format is FindingFormat.JSON:
        content = {
            "errors": errors,
            "warnings": warnings,
            "findings": [finding_json(finding) for finding in findings],
        }
        output.json("validate", content)
    elif output_format is FindingFormat.SARIF:
        from ortpkg.cli.sarif import sarif_log  # only for those who ask for it

        output.document(sarif_log(package, findings))
    else:
        print_findings(findings, output)
        words = f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
        output.note(words if findings else f"{package} is valid")
