"""``ortpkg install``: installs packages in the store of this machine."""

from __future__ import annotations

from ortpkg.cli.install_options import InstallNameOption, InstallOptions, ReferencesArgument
from ortpkg.cli.installing import plan_json, print_plan
from ortpkg.cli.parameters import DryRunOption, TrustPolicyOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.installation import InstallReport, install
from ortpkg.foundations.errors import ExitCode, UsageError


def command(
    output: Output,
    references: ReferencesArgument,
    name: InstallNameOption = None,
    *,
    options: InstallOptions,
    trust_policy: TrustPolicyOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Install packages: their documents, and the files of the variants that this machine runs.

    What is chosen is what select chooses; --profile chooses for other machines, --variant by name.
    Afterwards every command takes the package by its name.
    """
    if name is not None and len(references) > 1:
        raise UsageError("--name goes with one package")
    reports = []
    for reference in references:
        with copy_progress() as progress:
            report = install(
                reference,
                name=name,
                wishes=options.wishes(),
                trust_policy=trust_policy,
                is_rehearsal=dry_run,
                on_plan=lambda plan: print_plan(plan, output),
                progress=progress,
            )
        reports.append(report)
        if not output.is_json:
            _print_report(report, output)
    if output.is_json:
        installed = [_report_json(report) for report in reports]
        output.json("install", {"dry_run": dry_run, "packages": installed})
    return ExitCode.DONE


def _print_report(report: InstallReport, output: Output) -> None:
    generation = report.generation
    if generation is None:
        return
    output.note(f"fetched {nbytes_text(report.moved_nbytes)}")
    output.line(f"{generation.name}@{generation.digest}")


def _report_json(report: InstallReport) -> dict[str, object]:
    generation = report.generation
    return {
        **plan_json(report.plan),
        "generation": None if generation is None else generation.number,
        "fetched_nbytes": report.moved_nbytes,
    }
