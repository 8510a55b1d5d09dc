"""``ortpkg validate``: everything that is wrong or doubtful in a package."""

from __future__ import annotations

from ortpkg.authoring.package_checks import validate
from ortpkg.cli.parameters import JsonOption, PackageArgument, StrictOption
from ortpkg.cli.rendering import Output, finding_json, print_findings
from ortpkg.errors import ExitCode, Severity


def command(package: PackageArgument, strict: StrictOption = False, as_json: JsonOption = False) -> int:
    """Check a package's documents, digests, models and samples; print every finding at once."""
    output = Output(is_json=as_json)
    findings = validate(package)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    if as_json:
        content = {"errors": errors, "warnings": warnings, "findings": [finding_json(each) for each in findings]}
        output.json("validate", content)
    else:
        print_findings(findings, output)
        output.note(f"{errors} errors, {warnings} warnings" if findings else f"{package} is valid")
    if errors:
        return ExitCode.PACKAGE
    return ExitCode.FINDINGS if warnings and strict else ExitCode.DONE
