"""Packages of the store that this process uses; they are kept until it ends.

Only the standard library is loaded here, because running a folder asks this module, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortpkg.distribution.store.generations import Generation
    from ortpkg.distribution.store.installed_packages import HeldPackage, InstalledPackages
    from ortpkg.distribution.store.leases import Lease
    from ortpkg.package.package_info import VariantInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedPackage:
    """Package of the store that is in use.

    Attributes:
        root: Folder of the package.
        generation: Its installation; None if it was fetched to be used once.
        store: Its store.
        lease: Lease that protects it.
        is_pinned: True if a tag, a digest or a project's lock selected it; otherwise its name may
            come to mean another version.
    """

    root: Path
    generation: Generation | None
    store: InstalledPackages
    lease: Lease
    is_pinned: bool = False


_SAMPLES = "samples"
_used: dict[str, UsedPackage] = {}


def keep_in_use(package: UsedPackage) -> UsedPackage:
    """Keep a package until this process ends, with one lease however often it is used."""
    key = os.path.realpath(package.root)
    if key in _used:
        package.lease.release()
        package = replace(package, lease=_used[key].lease)
    _used[key] = package
    return package


def use_installed(store: InstalledPackages, opened: HeldPackage, *, is_pinned: bool) -> UsedPackage:
    """Keep an installed package in use; see :class:`UsedPackage`."""
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
    """Release a package that this process no longer uses."""
    used = _used.pop(os.path.realpath(root), None)
    if used is not None:
        used.lease.release()


def find_used_package(root: Path) -> UsedPackage | None:
    """Return the used package at ``root``, or None if it was opened by its folder."""
    return _used.get(os.path.realpath(root)) if _used else None


def how_to_fetch(root: Path, variant: VariantInfo, *, is_best_here: bool = True) -> str:
    """Return the command that fetches the missing files of a variant of the package at ``root``.

    ``is_best_here`` says that this machine selects the variant by default, so that an upgrade
    fetches it.
    """
    used = find_used_package(root)
    if used is None or used.generation is None:
        return f"ortpkg pull REF -o FOLDER --variant {variant.name} fetches them"
    installed = used.generation
    # An upgrade uses the same options as the installation.
    if set(installed.asked) - {_SAMPLES} or not is_best_here:
        return (
            f"ortpkg install {installed.reference} --name {installed.name} --variant"
            f" {variant.name} fetches them"
        )
    return f"ortpkg upgrade {installed.name} fetches them"


def how_to_fetch_samples(root: Path) -> str:
    """Return the command that fetches the missing samples of the package at ``root``."""
    used = find_used_package(root)
    if used is None or used.generation is None:
        return "ortpkg pull REF -o FOLDER --samples fetches them"
    return f"ortpkg install {used.generation.reference} --samples fetches them"


def note_run(root: Path, variant: str) -> None:
    """Record that ``component/variant`` of the package at ``root`` runs now, if it is installed."""
    used = find_used_package(root)
    if used is not None and used.generation is not None:
        used.store.note_use(used.generation, variant)
