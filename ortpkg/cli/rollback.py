"""``ortpkg rollback``: puts an older installation of a package in use again."""

from __future__ import annotations

from typing import Annotated

import typer

from ortpkg.cli.quantity_arguments import whole_number
from ortpkg.cli.rendering import Output
from ortpkg.cli.store_json import (
    InstalledArgument,
    generation_json,
    installed_reference,
    version_text,
)
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import ExitCode

ToOption = Annotated[
    int | None,
    typer.Option(
        "--to",
        metavar="N",
        help="Number of the installation (ortpkg history); default: the one before.",
        parser=whole_number(1),
    ),
]


def command(
    output: Output,
    name: InstalledArgument,
    to: ToOption = None,
) -> int:
    """Use an older installation of a package again; nothing is fetched or copied."""
    store = PackageStore()
    name = installed_reference(name).name
    before = store.find(name)
    now = store.rollback(name) if to is None else store.activate(name, to)
    if output.is_json:
        output.json("rollback", {**generation_json(now), "before": before.number})
    else:
        output.note(
            f"{name} is {version_text(now)} again, number {now.number}; it was"
            f" {version_text(before)}, number {before.number}"
        )
    return ExitCode.DONE
