"""Brings an installed package whose files were damaged on the disk back, from where it came.

Files of installed packages may be hard links to the store's blobs, so that damage to the one is
damage to the other: what is damaged is taken out of both before it is fetched again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.distribution.installation import fetch_planned, planned
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.errors import StoreError, quoted
from ortpkg.registry.references import (
    LayoutReference,
    OciReference,
    Reference,
    parse_reference,
)
from ortpkg.storage.hashing import Progress
from ortpkg.store.generations import Generation
from ortpkg.store.package_store import PackageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was done to an installed package.

    Attributes:
        generation: what is in use now; that of before where nothing was damaged.
        damaged: paths in the package whose bytes were not those of its manifest, or that were gone.
        moved_nbytes: bytes of layers that came.
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
    """Hashes an installed package, and fetches what is damaged again.

    Nothing is taken out of the store before the place it came from has shown the same package.

    Args:
        installed: the installation in use.
        store: where it is.
        trust_policy: the file that says who may publish what; left out, the one that holds here.
        progress: called with (what, bytes done, bytes in all).

    Raises:
        StoreError: where it came from there is another package by now.
        OrtpkgError: as :func:`~ortpkg.distribution.installation.install`. Where that is after the
            damaged files were taken out, the package does not open until it is repaired again.
    """
    damaged = store.damaged_files(installed, progress=progress)
    if damaged == ():
        return Repair(generation=installed, damaged=())
    reference = _pinned(parse_reference(installed.reference), installed.digest)
    wishes = _same_again(installed)
    with planned(reference, installed.name, wishes, store, progress, trust_policy) as plan:
        found = plan.fetched.source.digest
        if found != installed.digest:
            raise StoreError(
                f"{quoted(installed.reference)} is {found} by now, and not the damaged"
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
    """Wishes for just the variants that are installed, whatever would be chosen now."""
    wishes = InstallWishes.of_words(installed.asked)
    if wishes.all_variants:
        return wishes
    return replace(wishes, profiles=(), ep=None, device=None, variants=installed.variants)


def _pinned(reference: Reference, digest: str) -> Reference:
    """The reference to just that package, where a reference can say so."""
    if isinstance(reference, OciReference | LayoutReference):
        return replace(reference, digest=digest)
    return reference
