"""``ortpkg show``: shows one installed package in detail."""

from __future__ import annotations

from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.store_json import (
    InstalledArgument,
    generation_json,
    installed_reference,
    time_text,
    version_text,
)
from ortpkg.distribution.store.installed_packages import InstalledPackages
from ortpkg.foundations.errors import ExitCode


def command(output: Output, name: InstalledArgument) -> int:
    """Show an installed package: where it came from, what was chosen and why, what is here."""
    reference = installed_reference(name)
    store = InstalledPackages()
    with store.open(reference.name, tag=reference.tag, digest=reference.digest) as package:
        generation, receipt = package.generation, package.receipt
        used = [
            item for item in store.uses(generation.name) if item.generation == generation.number
        ]
    if output.is_json:
        content = {
            **generation_json(generation),
            "root": str(package.root),
            "mode": receipt.mode.value,
            "files": {path: item.nbytes for path, item in sorted(receipt.files.items())},
            "absent": {path: item.nbytes for path, item in sorted(receipt.absent.items())},
            "runs": [{"time": time_text(item.time), "variant": item.variant} for item in used],
        }
        output.json("show", content)
        return ExitCode.DONE
    output.line(f"{generation.name} {version_text(generation)}", style="bold")
    output.line(f"  from       {generation.reference}")
    output.line(f"  digest     {generation.digest}")
    output.line(f"  installed  {time_text(generation.created)}, number {generation.number}")
    output.line(f"  chosen     {generation.why}", hang=" " * 13)
    here = f"{nbytes_text(generation.nbytes)} of {nbytes_text(generation.full_nbytes)}"
    absent = f"; {len(receipt.absent)} files are not here" if receipt.absent else ""
    output.line(f"  here       {here}, {len(receipt.files)} files{absent}")
    if used:
        output.line(f"  last run   {time_text(used[-1].time)}, {used[-1].variant}")
    output.line(f"  folder     {package.root}", hang=" " * 13)
    return ExitCode.DONE
