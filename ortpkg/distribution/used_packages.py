"""The packages of the store that this process uses: kept from gc until it ends.

Nothing but the standard library is loaded here: whoever runs a folder asks too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortpkg.package.package_info import VariantInfo
    from ortpkg.store.generations import Generation
    from ortpkg.store.installed_packages import InstalledPackage, InstalledPackages
    from ortpkg.store.leases import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedPackage:
    """A package of the store that is in use.

    Attributes:
        root: its folder.
        generation: as what it is installed; None where it was fetched to be used once.
        store: where it is.
        lease: what keeps it there.
        is_pinned: whether a tag, a digest or a project's lock said which; otherwise its name may
            come to mean another one.
    """

    root: Path
    generation: Generation | None
    store: InstalledPackages
    lease: Lease
    is_pinned: bool = False


_SAMPLES = "samples"
_used: dict[str, UsedPackage] = {}


def keep_in_use(package: UsedPackage) -> UsedPackage:
    """Keeps a package until this process ends; one lease for each, however often it is used."""
    key = os.path.realpath(package.root)
    if key in _used:
        package.lease.release()
        package = replace(package, lease=_used[key].lease)
    _used[key] = package
    return package


def use_installed(
    store: InstalledPackages, opened: InstalledPackage, *, is_pinned: bool
) -> UsedPackage:
    """Keeps an installed package, see :class:`UsedPackage`."""
    return keep_in_use(
        UsedPackage(
            root=opened.root,
            generation=opened.generation,
            store=store,
            lease=opened.lease,
            is_pinned=is_pinned,
        )
    )


def release_use(root: Path) -> None:
    """Lets gc have a package that nobody here uses any more."""
    used = _used.pop(os.path.realpath(root), None)
    if used is not None:
        used.lease.release()


def used_package(root: Path) -> UsedPackage | None:
    """What is used of the store at ``root``; None for a package that was named by its folder."""
    return _used.get(os.path.realpath(root)) if _used else None


def how_to_fetch(root: Path, variant: VariantInfo, *, is_best_here: bool = True) -> str:
    """The command that brings the files of a variant here that the package at ``root`` has not.

    ``is_best_here``: this machine chooses it where nothing is asked for, and so does an upgrade.
    """
    used = used_package(root)
    if used is None or used.generation is None:
        return f"ortpkg pull REF -o FOLDER --variant {variant.name} fetches them"
    installed = used.generation
    # An upgrade chooses by the same wishes as then.
    if set(installed.asked) - {_SAMPLES} or not is_best_here:
        return (
            f"ortpkg install {installed.reference} --name {installed.name} --variant"
            f" {variant.name} fetches them"
        )
    return f"ortpkg upgrade {installed.name} fetches them"


def how_to_fetch_samples(root: Path) -> str:
    """The command that brings the samples here that the package at ``root`` has not."""
    used = used_package(root)
    if used is None or used.generation is None:
        return "ortpkg pull REF -o FOLDER --samples fetches them"
    return f"ortpkg install {used.generation.reference} --samples fetches them"


def note_run(root: Path, variant: str) -> None:
    """Writes down that ``component/variant`` of the package at ``root`` runs now, if installed."""
    used = used_package(root)
    if used is not None and used.generation is not None:
        used.store.note_use(used.generation, variant)
