"""``ortpkg gc``: removes from the store what nobody needs."""

from __future__ import annotations

from typing import Annotated

import typer

from ortpkg.cli.quantity_arguments import duration_argument, whole_number
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.distribution.store.collection import Collected, CollectionReport, CollectionRules
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import ExitCode

_RULES = CollectionRules()


KeepOption = Annotated[
    int,
    typer.Option(
        "--keep",
        metavar="N",
        help="So many installations of each name; the one in use stays.",
        parser=whole_number(1),
    ),
]
UsedWithinOption = Annotated[
    float | None,
    typer.Option(
        "--used-within",
        metavar="T",
        help="Keep what ran within that time, too: 12h, 90min, 30s.",
        parser=duration_argument,
    ),
]
AllAgesOption = Annotated[
    bool,
    typer.Option(
        "--now", help="Also what is younger than an hour, and broken downloads, if nobody uses it."
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")
]


def command(
    output: Output,
    keep: KeepOption = _RULES.keep,
    used_within: UsedWithinOption = None,
    all_ages: AllAgesOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Remove what nobody needs: old installations, files that none has, what killed commands left.

    What is in use, or being installed, stays.
    """
    rules = CollectionRules(
        keep=keep,
        grace_s=-1.0 if all_ages else _RULES.grace_s,
        used_within_s=used_within or 0.0,
        partial_age_s=-1.0 if all_ages else _RULES.partial_age_s,
    )
    report = PackageStore().gc(rules, dry_run=dry_run)
    if output.is_json:
        output.json("gc", {"dry_run": dry_run, **_report_json(report)})
    else:
        _print_report(report, output, is_rehearsal=dry_run)
    return ExitCode.DONE


def _print_report(report: CollectionReport, output: Output, *, is_rehearsal: bool) -> None:
    for item in report.removed:
        size = f", {nbytes_text(item.nbytes)}" if item.nbytes else ""
        output.line(f"{item.kind} {item.what}{size}: {item.why}")
    for item in report.kept:
        output.note(f"stays: {item.kind} {item.what}: {item.why}")
    verb = "would free" if is_rehearsal else "freed"
    output.note(f"{verb} {nbytes_text(report.nbytes_freed)}")


def _report_json(report: CollectionReport) -> dict[str, object]:
    return {
        "removed": [_collected_json(item) for item in report.removed],
        "kept": [_collected_json(item) for item in report.kept],
        "nbytes_freed": report.nbytes_freed,
    }


def _collected_json(item: Collected) -> dict[str, object]:
    return {"kind": item.kind.value, "what": item.what, "why": item.why, "nbytes": item.nbytes}
