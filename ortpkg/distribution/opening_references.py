"""Packages by reference, to be used at once: from the store, or brought there first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.distribution.used_packages import UsedPackage, keep_in_use, use_installed
from ortpkg.errors import PackageNotFoundError, PackageNotInstalledError, quoted
from ortpkg.names import did_you_mean_path
from ortpkg.project.lock_file import as_locked
from ortpkg.registry.references import PathReference, Reference, StoreReference
from ortpkg.store.installed_packages import InstalledPackages

if TYPE_CHECKING:
    from ortpkg.distribution.installation import InstallPlan
    from ortpkg.distribution.variant_choice import InstallWishes
    from ortpkg.storage.hashing import Progress
    from ortpkg.store.package_store import PackageStore


def use_package(
    reference: Reference,
    wishes: InstallWishes | None = None,
    *,
    store: PackageStore | None = None,
    trust_policy: Path | None = None,
    on_plan: Callable[[InstallPlan], object] | None = None,
    progress: Progress | None = None,
) -> Path:
    """The folder of the package that a reference names, which stays until this process ends.

    A name means what is installed under it, of the version that a project around is locked on. What
    lies in a registry or layout is installed where nothing has its name yet. Where something has,
    it is fetched and used, and the name goes on to mean what it meant.

    Args:
        reference: a path is given back as it is.
        wishes: what is fetched of what is not here; left out, what this machine runs best.
        store: where to look; left out, the user's.
        trust_policy: the file that says who may publish what; left out, the one that holds here.
        on_plan: told what is going to be fetched, before it is.
        progress: called with (where from, bytes done, bytes in all).

    Raises as :func:`~ortpkg.distribution.installation.install`; PackageNotInstalledError for a
    version that is not there, PackageNotFoundError for a name that is neither folder nor installed.
    """
    if isinstance(reference, PathReference):
        return reference.path
    if isinstance(reference, StoreReference):
        locked = as_locked(reference)
        installed = store or InstalledPackages()
        try:
            opened = installed.open(locked.name, tag=locked.tag, digest=locked.digest)
        except PackageNotInstalledError as error:
            if locked != reference:
                raise PackageNotInstalledError(
                    f"the project is locked on {quoted(str(locked))}, which is not installed: run"
                    " ortpkg sync",
                    name=str(locked),
                ) from error
            if reference.tag or reference.digest:
                raise
            raise PackageNotFoundError(
                f"{error}, and there is no such folder here{did_you_mean_path(reference.name)}",
                path=Path(reference.name),
            ) from error
        is_pinned = bool(locked.tag or locked.digest)
        return use_installed(installed, opened, is_pinned=is_pinned).root
    return _fetched(reference, wishes, store, trust_policy, on_plan, progress)


def _fetched(
    reference: Reference,
    wishes: InstallWishes | None,
    store: PackageStore | None,
    trust_policy: Path | None,
    on_plan: Callable[[InstallPlan], object] | None,
    progress: Progress | None,
) -> Path:
    # What is installed is opened without what chooses and fetches.
    from ortpkg.distribution.installation import install_planned, make_planned, planned
    from ortpkg.store.package_store import PackageStore

    store = store or PackageStore()
    with planned(reference, None, wishes, store, progress, trust_policy) as plan:
        is_free = True
        with contextlib.suppress(PackageNotInstalledError):
            is_free = store.find(plan.name) is None
            if (found := _used_as_planned(store, plan)) is not None:
                return found
        if on_plan is not None:
            on_plan(plan)
        if is_free:
            install_planned(plan, store, progress)
            return use_installed(store, store.open(plan.name), is_pinned=True).root
        tree, lease = make_planned(plan, store, progress)
    used = UsedPackage(root=tree.root, generation=None, store=store, lease=lease)
    return keep_in_use(used).root


def _used_as_planned(store: PackageStore, plan: InstallPlan) -> Path | None:
    """The installation of just that version, if it has all files that are wanted."""
    opened = store.open(plan.name, digest=plan.fetched.source.digest)
    if plan.is_in(opened.receipt):
        return use_installed(store, opened, is_pinned=True).root
    opened.close()
    return None
