"""``ortpkg lock``: resolves the packages of a project to digests."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ortpkg.cli.parameters import DryRunOption, TrustPolicyOption
from ortpkg.cli.rendering import Output
from ortpkg.distribution.locking import LockReport, lock_project, project_here
from ortpkg.distribution.project.lock_file import LOCK_FILE, LockedPackage
from ortpkg.foundations.errors import ExitCode

UpgradeOption = Annotated[
    bool, typer.Option("--upgrade", "-U", help="Take the newest versions that will do.")
]
UpgradePackageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--upgrade-package", "-P", metavar="NAME", help="The same for one package, repeatable."
    ),
]


def command(
    output: Output,
    upgrade: UpgradeOption = False,
    upgrade_package: UpgradePackageOption = None,
    trust_policy: TrustPolicyOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Pin the packages that ortpkg.toml asks for to their digests, in ortpkg.lock.

    What is locked stays as it is until its line in ortpkg.toml changes, or an upgrade is asked for.
    """
    project = project_here()
    report = lock_project(
        project,
        upgrade=upgrade or tuple(upgrade_package or ()),
        trust_policy=trust_policy,
        is_rehearsal=dry_run,
    )
    if output.is_json:
        output.json("lock", {"dry_run": dry_run, **_report_json(report)})
    else:
        _print(report, output, is_rehearsal=dry_run)
    return ExitCode.DONE


def _print(report: LockReport, output: Output, *, is_rehearsal: bool) -> None:
    before = {} if report.before is None else report.before.packages
    for name, package in report.lock.packages.items():
        old = before.get(name)
        is_same = old is not None and old.digest == package.digest
        was = "" if old is None or is_same else f" (was {_version(old)})"
        output.line(f"{name} {_version(package)}{was}")
        for profile, variants in package.variants.items():
            machine = profile or "this machine"
            output.line(f"  {machine}: {', '.join(variants)}")
    for name in before:
        if name not in report.lock.packages:
            output.line(f"{name}: no longer wanted")
    if not report.is_changed:
        output.note(f"{LOCK_FILE} is up to date")
    elif is_rehearsal:
        output.note(f"{LOCK_FILE} would change; nothing was written")
    else:
        count = len(report.lock.packages)
        output.note(f"wrote {LOCK_FILE}: {count} package{'' if count == 1 else 's'}")


def _version(package: LockedPackage) -> str:
    return f"{package.version}@{package.digest}" if package.version else package.digest


def _report_json(report: LockReport) -> dict[str, Any]:
    return {
        "changed": report.is_changed,
        "packages": {
            name: {
                "from": package.source,
                "version": package.version,
                "digest": package.digest,
                "variants": {profile: list(names) for profile, names in package.variants.items()},
            }
            for name, package in report.lock.packages.items()
        },
    }
