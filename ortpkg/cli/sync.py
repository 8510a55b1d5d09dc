"""``ortpkg sync``: installs what a project's lock says."""

from __future__ import annotations

from typing import Annotated

import typer

from ortpkg.cli.parameters import DryRunOption, TrustPolicyOption
from ortpkg.cli.progress import copy_progress
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.installation import InstallReport
from ortpkg.distribution.locking import project_here, sync_project
from ortpkg.foundations.errors import ExitCode

FrozenOption = Annotated[
    bool, typer.Option("--frozen", help="Fail where the lock is missing or out of date.")
]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="Which of the project's machines this one is."),
]


def command(
    output: Output,
    frozen: FrozenOption = False,
    profile: ProfileOption = None,
    trust_policy: TrustPolicyOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Install just what ortpkg.lock says, by digest; make it first where it is out of date."""
    with copy_progress() as progress:
        reports = sync_project(
            project_here(),
            is_frozen=frozen,
            profile=profile,
            trust_policy=trust_policy,
            is_rehearsal=dry_run,
            progress=progress,
        )
    if output.is_json:
        rows = [_report_json(report) for report in reports]
        output.json("sync", {"dry_run": dry_run, "packages": rows})
        return ExitCode.DONE
    for report in reports:
        variants = ", ".join(choice.name for choice in report.plan.choices)
        output.line(f"{report.plan.name}@{report.plan.fetched.source.digest}: {variants}")
    moved = sum(report.plan.moving_nbytes if dry_run else report.moved_nbytes for report in reports)
    output.note(f"{'would fetch' if dry_run else 'fetched'} {nbytes_text(moved)}")
    return ExitCode.DONE


def _report_json(report: InstallReport) -> dict[str, object]:
    return {
        "name": report.plan.name,
        "digest": report.plan.fetched.source.digest,
        "variants": [choice.name for choice in report.plan.choices],
        "moved_nbytes": report.moved_nbytes,
        "moving_nbytes": report.plan.moving_nbytes,
    }
