"""``ortpkg uninstall``: removes packages from the store."""

from __future__ import annotations

from typing import Annotated

import typer

from ortpkg.cli.rendering import Output
from ortpkg.cli.store_json import installed_reference
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import ExitCode, UsageError, quoted

NamesArgument = Annotated[
    list[str], typer.Argument(metavar="NAME", help="Names in the store: see ortpkg list.")
]


def command(
    output: Output,
    names: NamesArgument,
) -> int:
    """Take packages out of the store with their history; gc removes what nobody else needs."""
    store = PackageStore()
    names = list(dict.fromkeys(names))
    references = [installed_reference(name) for name in names]
    for text, reference in zip(names, references, strict=True):
        if reference.tag or reference.digest:
            raise UsageError(
                f"{quoted(text)} names one version: uninstall takes a name with its history, gc"
                " --keep 1 old versions"
            )
        store.find(reference.name)  # all, or none
    for reference in references:
        store.uninstall(reference.name)
        output.note(f"uninstalled {reference.name}; ortpkg gc frees its space")
    if output.is_json:
        output.json("uninstall", {"names": [reference.name for reference in references]})
    return ExitCode.DONE
