"""``ortpkg install``: installs packages in the store of this machine."""

from __future__ import annotations

from ortpkg.cli.install_options import InstallNameOption, ReferencesArgument, takes_wishes
from ortpkg.cli.installing import plan_json, print_plan
from ortpkg.cli.parameters import DryRunOption, JsonOption, TrustPolicyOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.installation import InstallReport, install
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.errors import ExitCode, UsageError


@takes_wishes
def command(
    references: ReferencesArgument,
    name: InstallNameOption = None,
    *,
    wishes: InstallWishes,
    trust_policy: TrustPolicyOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> int:
    """Install packages: their documents, and the files of the variants that this machine runs.

    What is chosen is what select chooses; --profile chooses for other machines, --variant by name.
    Afterwards every command takes the package by its name.
    """
    output = Output(is_json=as_json)
    if name is not None and len(references) > 1:
        raise UsageError("--name goes with one package")
    reports = []
    for reference in references:
        with copy_progress() as progress:
            report = install(
                reference,
                name=name,
                wishes=wishes,
                trust_policy=trust_policy,
                is_rehearsal=dry_run,
                on_plan=lambda plan: print_plan(plan, output),
                progress=progress,
            )
        reports.append(report)
        if not as_json:
            _print_report(report, output)
    if as_json:
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
