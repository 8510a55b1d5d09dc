"""``ortpkg list``: lists installed packages."""

from __future__ import annotations

from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.store_json import generation_json, version_text
from ortpkg.cli.table_layout import Column
from ortpkg.distribution.store.installed_packages import InstalledPackages
from ortpkg.foundations.errors import ExitCode


def command(output: Output) -> int:
    """List the packages that are installed: version in use, variants, how much of each is here."""
    store = InstalledPackages()
    packages = store.packages(on_damage=output.warning)
    if output.is_json:
        rows = [generation_json(package) for package in packages]
        output.json("list", {"store": str(store.root), "packages": rows})
        return ExitCode.DONE
    if not packages:
        output.note(f"nothing is installed in {store.root}")
        return ExitCode.DONE
    output.table(
        [
            Column("name"),
            Column("version"),
            Column("variants", wraps=16),
            Column("here"),
            Column("of"),
            Column("from", wraps=16),
        ],
        [
            (
                package.name,
                version_text(package),
                ", ".join(package.variants),
                nbytes_text(package.nbytes),
                nbytes_text(package.full_nbytes),
                package.reference,
            )
            for package in packages
        ],
    )
    return ExitCode.DONE
