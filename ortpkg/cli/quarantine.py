"""``ortpkg quarantine``: shows and lifts the quarantine of variants that failed here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ortpkg.api.model_package import ModelPackage
from ortpkg.cli.parameters import DryRunOption, VariantOption, one_of
from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.errors import ExitCode, UsageError
from ortpkg.foundations.storage.planned_files import PlannedFiles, RehearsalEnd
from ortpkg.package.package_info import PackageInfo
from ortpkg.selection.matching.measurements import QuarantineEntry


class Action(StrEnum):
    """Action of the command."""

    LIST = "list"
    CLEAR = "clear"


ActionArgument = Annotated[
    Action, typer.Argument(**one_of(Action), help="list shows it, clear lifts it.")
]
PackageArgument = Annotated[
    Path | None, typer.Argument(metavar="PKG", help="Only this package; default: all.")
]


def command(
    output: Output,
    action: ActionArgument = Action.LIST,
    package: PackageArgument = None,
    variant: VariantOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """Show or lift the quarantine of variants that failed on this machine.

    An entry holds for one variant, on one execution provider in one version, with one version of
    the driver.
    """
    if dry_run and action is not Action.CLEAR:
        raise UsageError(f"quarantine {action} changes nothing: --dry-run goes with clear")
    info = None if package is None else ModelPackage(package).info
    if action is Action.CLEAR:
        if dry_run:
            raise RehearsalEnd(_planned(info, variant or "", output))
        return _clear(info, variant or "", output)
    entries = [
        (name, entry)
        for name, entry in _entries(info, output)
        if variant is None or entry.variant_name == variant
    ]
    _print(entries, output)
    return ExitCode.DONE


def _print(entries: Sequence[tuple[str, QuarantineEntry]], output: Output) -> None:
    if output.is_json:
        shown = [{"package": name, **asdict(entry)} for name, entry in entries]
        output.json("quarantine", {"entries": shown})
        return
    if not entries:
        output.line("nothing is in quarantine")
        return
    columns = [
        Column("package"),
        Column("variant"),
        Column("execution provider", short=short_ep_names),
        Column("version", drops=1),
        Column("driver", drops=2),
        Column("cause"),
        Column("since", drops=3),
        Column("detail", wraps=24),
    ]
    output.table(columns, [_row(name, entry) for name, entry in entries])


def _clear(info: PackageInfo | None, variant: str, output: Output) -> int:
    from ortpkg.selection.measuring.record_store import clear_records

    try:
        count = clear_records(info, quarantine_only=True, variant=variant)
    except OSError as error:
        raise UsageError(f"the records cannot be changed: {error}") from error
    if output.is_json:
        output.json("quarantine", {"cleared": count})
    else:
        output.line(f"{count} {'entry' if count == 1 else 'entries'} lifted")
    return ExitCode.DONE


def _planned(info: PackageInfo | None, variant: str, output: Output) -> PlannedFiles:
    """Print the entries that would be lifted, and return the changes of files."""
    from ortpkg.selection.measuring.record_store import clearing_of_quarantine

    for package, entry in _entries(info, output):
        if not output.is_json and variant in ("", entry.variant_name):
            name = f"{entry.component_name}/{entry.variant_name}"
            output.line(
                f"would lift {name} of {package} on {entry.ep_name} ({entry.backend})",
                style="green",
            )
    return clearing_of_quarantine(info, variant=variant)


def _entries(info: PackageInfo | None, output: Output) -> Iterator[tuple[str, QuarantineEntry]]:
    from ortpkg.selection.measuring.record_store import records_of
    from ortpkg.selection.measuring.stored_record import stored_records

    for stored in stored_records() if info is None else records_of(info):
        if stored.problem:
            consequence = (
                "nothing of it is known"
                if stored.record is None
                else "what is in quarantine was recovered"
            )
            output.warning(f"{stored.path} is damaged: {stored.problem}; {consequence}")
        if stored.record is None:
            continue
        for entry in stored.record.quarantined:
            yield stored.record.name, entry


def _row(package: str, entry: QuarantineEntry) -> tuple[str, ...]:
    return (
        package,
        f"{entry.component_name}/{entry.variant_name}",
        f"{entry.ep_name} ({entry.backend})",
        entry.ep_version or "unknown",
        entry.driver_version or "unknown",
        entry.cause.value,
        entry.recorded_at,
        entry.detail,
    )
