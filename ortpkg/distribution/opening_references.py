"""Opens packages by reference for immediate use, from the store or after fetching them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.distribution.project.lock_file import as_locked
from ortpkg.distribution.store.installed_packages import InstalledPackages
from ortpkg.distribution.used_packages import UsedPackage, keep_in_use, use_installed
from ortpkg.foundations.errors import PackageNotFoundError, PackageNotInstalledError, quoted
from ortpkg.foundations.names import did_you_mean_path
from ortpkg.package.references.package_references import PathReference, Reference, StoreReference

if TYPE_CHECKING:
    from ortpkg.distribution.installation import InstallPlan
    from ortpkg.distribution.store.package_store import PackageStore
    from ortpkg.distribution.variant_choice import InstallWishes
    from ortpkg.foundations.storage.hashing import Progress


def use_package(
    reference: Reference,
    wishes: InstallWishes | None = None,
    *,
    store: PackageStore | None = None,
    trust_policy: Path | None = None,
    on_plan: Callable[[InstallPlan], object] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the folder of the package that a reference names; it stays until this process ends.

    A name means the installed package, in the version that the surrounding project has locked. A
    package in a registry or layout is installed if nothing has its name yet. Otherwise it is
    fetched and used, and the name keeps its meaning.

    Args:
        reference: The reference; the folder of a path is returned as it is.
        wishes: What to fetch if it is not here; default: what this machine runs best.
        store: Store to use; default: the user's.
        trust_policy: File of the trust policy; default: the one that applies here.
        on_plan: Called with the plan before anything is fetched.
        progress: Called with (source, bytes done, bytes in all).

    Raises:
        PackageNotInstalledError: The version is not installed.
        PackageNotFoundError: The name is neither a folder nor an installed package.
        OrtpkgError: See :func:`~ortpkg.distribution.installation.install`.
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
    # Opening an installed package does not load what selects and fetches.
    from ortpkg.distribution.installation import install_planned, make_planned, planned
    from ortpkg.distribution.store.package_store import PackageStore

    store = store or PackageStore()
    with planned(reference, None, wishes, store, progress, trust_policy) as plan:
        is_free = True
        with contextlib.suppress(PackageNotInstalledError):
            is_free = store.find(plan.name) is None
            if (root := _used_as_planned(store, plan)) is not None:
                return root
        if on_plan is not None:
            on_plan(plan)
        if is_free:
            install_planned(plan, store, progress)
            return use_installed(store, store.open(plan.name), is_pinned=True).root
        tree, lease = make_planned(plan, store, progress)
    used = UsedPackage(root=tree.root, generation=None, store=store, lease=lease)
    return keep_in_use(used).root


def _used_as_planned(store: PackageStore, plan: InstallPlan) -> Path | None:
    """Return the installation of exactly this version if it has all wanted files, else None."""
    opened = store.open(plan.name, digest=plan.fetched.source.digest)
    if plan.is_in(opened.receipt):
        return use_installed(store, opened, is_pinned=True).root
    opened.close()
    return None
