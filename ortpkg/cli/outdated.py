"""``ortpkg outdated``: what registries have that is newer than what is installed."""

from __future__ import annotations

from typing import Any

from ortpkg.cli.parameters import JsonOption
from ortpkg.cli.rendering import Output
from ortpkg.cli.store_json import version_text
from ortpkg.cli.table_layout import Column
from ortpkg.cli.upgrade import NamesArgument, named_packages
from ortpkg.distribution.upgrading import Outdated, find_outdated
from ortpkg.errors import ExitCode, RegistryError
from ortpkg.store.package_store import PackageStore


def command(names: NamesArgument = None, as_json: JsonOption = False) -> int:
    """List installed packages whose tag names something new, or that have newer versions.

    Nothing is fetched. The exit code is 1 where there is something.
    """
    output = Output(is_json=as_json)
    found, failed = [], []
    store = PackageStore()
    for installed in named_packages(store, names):
        try:
            outdated = find_outdated(installed, store)
        except RegistryError as error:
            failed.append(error)
            output.note(f"error: {installed.name}: {error}", style="red", is_urgent=True)
            continue
        if outdated is not None and not outdated.is_current:
            found.append(outdated)
    if as_json:
        output.json("outdated", {"packages": [_outdated_json(each) for each in found]})
    elif found:
        columns = [Column("name"), Column("installed"), Column("there is", wraps=20)]
        output.table([*columns, Column("from", wraps=16)], [_row(each) for each in found])
    elif not failed:
        output.note("everything is current")
    if failed:
        return int(failed[0].exit_code)
    return ExitCode.FINDINGS if found else ExitCode.DONE


def _row(each: Outdated) -> tuple[str, ...]:
    installed = each.installed
    moved = []
    if each.digest != installed.digest:
        moved = [f"{installed.tag or 'another'} is {each.digest[:19]} now"]
    there = "; ".join([*moved, *([", ".join(each.newer_tags)] if each.newer_tags else [])])
    return installed.name, version_text(installed), there, installed.reference


def _outdated_json(each: Outdated) -> dict[str, Any]:
    return {
        "name": each.installed.name,
        "reference": each.installed.reference,
        "tag": each.installed.tag,
        "installed_digest": each.installed.digest,
        "digest": each.digest,
        "newer_tags": list(each.newer_tags),
    }
