"""``ortpkg list``: what is installed."""

from __future__ import annotations

from ortpkg.cli.parameters import JsonOption
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.store_json import generation_json, version_text
from ortpkg.cli.table_layout import Column
from ortpkg.errors import ExitCode
from ortpkg.store.installed_packages import InstalledPackages


def command(as_json: JsonOption = False) -> int:
    """List the packages that are installed: version in use, variants, how much of each is here."""
    output = Output(is_json=as_json)
    store = InstalledPackages()
    packages = store.packages(on_damage=output.warning)
    if as_json:
        found = [generation_json(each) for each in packages]
        output.json("list", {"store": str(store.root), "packages": found})
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
                each.name,
                version_text(each),
                ", ".join(each.variants),
                nbytes_text(each.nbytes),
                nbytes_text(each.full_nbytes),
                each.reference,
            )
            for each in packages
        ],
    )
    return ExitCode.DONE
