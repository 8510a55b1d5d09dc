"""Repair of installed packages whose files are damaged, from where they came.

Files of installed packages may be hard links to blobs of the store, so that both are damaged.
Damaged files are removed from both before they are fetched again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.distribution.installation import fetch_planned, planned
from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import StoreError, quoted
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.references.package_references import (
    LayoutReference,
    OciReference,
    Reference,
    parse_reference,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Result of a repair.

    Attributes:
        generation: The installation in use; the old one if nothing was damaged.
        damaged: Paths in the package whose bytes differed from the manifest, or that were gone.
        moved_nbytes: Size of the layers that were fetched.
    """

    generation: Generation
    damaged: tuple[str, ...]
    moved_nbytes: int = 0


def repair(
    installed: Generation,
    *,
    store: PackageStore,
    trust_policy: Path | None = None,
    progress: Progress | None = None,
) -> Repair:
    """Hash an installed package and fetch damaged files again.

    Nothing is removed before the source has shown the same package.

    Args:
        installed: The installation in use.
        store: Its store.
        trust_policy: File of the trust policy; default: the one that applies here.
        progress: Called with (name, bytes done, bytes in all).

    Raises:
        StoreError: The source has another package by now.
        OrtpkgError: See :func:`~ortpkg.distribution.installation.install`. If damaged files were
            removed before, the package does not open until it is repaired.
    """
    damaged = store.damaged_files(installed, progress=progress)
    if damaged == ():
        return Repair(generation=installed, damaged=())
    reference = _pinned(parse_reference(installed.reference), installed.digest)
    wishes = _same_again(installed)
    with planned(reference, installed.name, wishes, store, progress, trust_policy) as plan:
        digest = plan.fetched.source.digest
        if digest != installed.digest:
            raise StoreError(
                f"{quoted(installed.reference)} is {digest} by now, and not the damaged"
                f" {installed.digest}: ortpkg upgrade {installed.name} installs it"
            )
        content = replace(plan.content, reference=installed.reference)
        with store.hold(trees=[content.key], digests=content.all_blobs):
            if damaged is None:
                damaged = tuple(sorted(content.files))
            else:
                store.discard(installed, damaged)
            moved_nbytes = fetch_planned(plan, store, progress)
            generation = store.install(
                installed.name,
                content,
                tag=installed.tag,
                variants=installed.variants,
                why=installed.why,
                asked=installed.asked,
                model_version=plan.version,
            )
    return Repair(generation=generation, damaged=damaged, moved_nbytes=moved_nbytes)


def _same_again(installed: Generation) -> InstallWishes:
    """Return wishes for exactly the installed variants."""
    wishes = InstallWishes.of_words(installed.asked)
    if wishes.all_variants:
        return wishes
    return replace(wishes, profiles=(), ep=None, device=None, variants=installed.variants)


def _pinned(reference: Reference, digest: str) -> Reference:
    """Return the reference with the digest, if it can have one."""
    if isinstance(reference, OciReference | LayoutReference):
        return replace(reference, digest=digest)
    return reference
