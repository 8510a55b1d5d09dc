"""``ortpkg outdated``: lists installed packages of which a registry has something newer."""

from __future__ import annotations

from typing import Any

from ortpkg.cli.rendering import Output
from ortpkg.cli.store_json import version_text
from ortpkg.cli.table_layout import Column
from ortpkg.cli.upgrade import NamesArgument, named_packages
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.upgrading import Outdated, find_outdated
from ortpkg.foundations.errors import ExitCode, RegistryError


def command(output: Output, names: NamesArgument = None) -> int:
    """List installed packages whose tag names something new, or that have newer versions.

    Nothing is fetched. The exit code is 1 where there is something.
    """
    news, failed = [], []
    store = PackageStore()
    for installed in named_packages(store, names):
        try:
            outdated = find_outdated(installed, store)
        except RegistryError as error:
            failed.append(error)
            output.note(f"error: {installed.name}: {error}", style="red", is_urgent=True)
            continue
        if outdated is not None and not outdated.is_current:
            news.append(outdated)
    if output.is_json:
        output.json("outdated", {"packages": [_outdated_json(item) for item in news]})
    elif news:
        columns = [Column("name"), Column("installed"), Column("there is", wraps=20)]
        output.table([*columns, Column("from", wraps=16)], [_row(item) for item in news])
    elif not failed:
        output.note("everything is current")
    if failed:
        return int(failed[0].exit_code)
    return ExitCode.FINDINGS if news else ExitCode.DONE


def _row(item: Outdated) -> tuple[str, ...]:
    installed = item.installed
    moved = []
    if item.digest != installed.digest:
        moved = [f"{installed.tag or 'another'} is {item.digest[:19]} now"]
    available = "; ".join([*moved, *([", ".join(item.newer_tags)] if item.newer_tags else [])])
    return installed.name, version_text(installed), available, installed.reference


def _outdated_json(item: Outdated) -> dict[str, Any]:
    return {
        "name": item.installed.name,
        "reference": item.installed.reference,
        "tag": item.installed.tag,
        "installed_digest": item.installed.digest,
        "digest": item.digest,
        "newer_tags": list(item.newer_tags),
    }
