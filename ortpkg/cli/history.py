"""``ortpkg history``: shows the installations of a name."""

from __future__ import annotations

from ortpkg.cli.rendering import Output
from ortpkg.cli.store_json import (
    InstalledArgument,
    generation_json,
    installed_reference,
    time_text,
    version_text,
)
from ortpkg.cli.table_layout import Column
from ortpkg.distribution.store.installed_packages import InstalledPackages
from ortpkg.foundations.errors import ExitCode


def command(output: Output, name: InstalledArgument) -> int:
    """Show all installations of a package that are kept: rollback goes back to one."""
    store = InstalledPackages()
    name = installed_reference(name).name
    history = store.history(name)
    current = store.find(name)
    last_runs = {item.generation: item.time for item in store.uses(name)}
    if output.is_json:
        rows = [
            {
                **generation_json(item),
                "in_use": item.number == current.number,
                "last_run": time_text(last_runs[item.number]) if item.number in last_runs else None,
            }
            for item in history
        ]
        output.json("history", {"name": name, "generations": rows})
        return ExitCode.DONE
    columns = [
        Column("number"),
        Column("version"),
        Column("installed"),
        Column("last run"),
        Column("variants", wraps=16),
        Column(""),
    ]
    rows_shown = [
        (
            item.number,
            version_text(item),
            time_text(item.created),
            time_text(last_runs[item.number]) if item.number in last_runs else "",
            ", ".join(item.variants),
            "in use" if item.number == current.number else "",
        )
        for item in history
    ]
    output.table(columns, rows_shown)
    return ExitCode.DONE
