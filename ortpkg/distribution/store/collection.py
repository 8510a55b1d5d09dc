"""Garbage collection: removes old generations, trees without one, and blobs without trees.

What killed processes left is removed, too. What is in use
(:mod:`ortpkg.distribution.store.leases`), current or young stays: an installation in progress may
not have announced yet what it needs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ortpkg.distribution.store.blob_trees import read_tree, tree_keys
from ortpkg.distribution.store.generations import (
    Generation,
    current_generation,
    generations,
    installed_names,
    remove_generation,
)
from ortpkg.distribution.store.leases import (
    Holdings,
    announce_collection,
    finished_announcements,
    leased,
)
from ortpkg.distribution.store.partial_blobs import age_s, is_free
from ortpkg.distribution.store.process_names import Maker, maker_of
from ortpkg.distribution.store.project_locks import read_project_locks
from ortpkg.distribution.store.store_folder import StoreFolder, names_in
from ortpkg.distribution.store.usage_log import uses
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.storage.digest_text import is_digest

_FOREIGN_AGE_S = 24 * 3600.0


class CollectedKind(StrEnum):
    """Kind of thing that a collection removes."""

    GENERATION = "generation"
    PACKAGE = "package"
    BLOB = "blob"
    PARTIAL = "partial download"
    LEFTOVER = "leftover"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRules:
    """Rules of what to keep.

    Attributes:
        keep: Number of the newest generations to keep of each name; the one in use is always kept.
        grace_s: Age in seconds up to which everything stays.
        used_within_s: Generations that ran within this time stay; 0 keeps none for this reason.
        partial_age_s: Time without new bytes after which a partial download is removed.
    """

    keep: int = 3
    grace_s: float = 3600.0
    used_within_s: float = 0.0
    partial_age_s: float = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """One thing that was or would be removed.

    Attributes:
        kind: Kind of the thing.
        what: Name of the thing: ``name generation 3``, a tree's key, a digest, or a file's name.
        why: Reason to remove or keep it.
        nbytes: Size of its files; not all of it need become free.
    """

    kind: CollectedKind
    what: str
    why: str
    nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReport:
    """Result of a collection or of its dry run.

    Attributes:
        removed: Removed things, in the order of their removal.
        kept: Things that the rules would remove, but that are in use or young.
        nbytes_freed: Size of the files that have no other name left. Reflinks that share blocks
            with files that stay count in full.
    """

    removed: tuple[Collected, ...] = ()
    kept: tuple[Collected, ...] = ()
    nbytes_freed: int = 0


@dataclass(slots=True)
class _Plan:
    generations: dict[tuple[str, int], Generation] = field(default_factory=dict)
    trees: set[str] = field(default_factory=set)
    blobs: set[str] = field(default_factory=set)
    kept: list[Collected] = field(default_factory=list)

    def restricted_to(self, other: _Plan) -> _Plan:
        """Return the part of this plan that the other plan removes, too."""
        return _Plan(
            generations={
                key: generation
                for key, generation in self.generations.items()
                if key in other.generations
            },
            trees=self.trees & other.trees,
            blobs=self.blobs & other.blobs,
            kept=self.kept,
        )


class _Tidied(NamedTuple):
    removed: tuple[Collected, ...]
    kept: tuple[Collected, ...]


def collect(
    folder: StoreFolder, rules: CollectionRules, *, dry_run: bool = False
) -> CollectionReport:
    """Remove what nobody needs.

    Args:
        folder: The store.
        rules: What to keep.
        dry_run: True to remove nothing and only report.

    Raises:
        StoreError: A record is damaged, so that it is unknown what is needed; nothing was removed.
        OSError: Something could not be removed; everything that is installed is complete.
    """
    if not folder.exists:
        return CollectionReport()
    tidied = _tidy(folder, rules, dry_run=dry_run)  # first, since it works on a full disk, too
    plan = _plan(folder, rules)
    if dry_run:
        return _report(folder, plan, tidied)
    holdings = Holdings(
        trees=frozenset(
            {*plan.trees, *(generation.tree for generation in plan.generations.values())}
        ),
        blobs=frozenset(plan.blobs),
    )
    with announce_collection(folder, holdings):
        plan = plan.restricted_to(_plan(folder, rules, before=plan))
        report = _report(folder, plan, tidied)
        aside = list(_set_aside(folder, plan))
    for path in aside:
        folder.operations.remove_tree(path)
    return report


def _plan(folder: StoreFolder, rules: CollectionRules, *, before: _Plan | None = None) -> _Plan:
    """Return the plan of what to remove by the rules.

    With ``before``, an earlier plan, a generation that is not in it stays with its tree and blobs:
    it was installed after that plan, when no collection was announced yet. Leases are read before
    names, because an installation releases its lease only after its generation exists.
    """
    plan = _Plan()
    held = leased(folder)
    locked = {
        digest: project.lock
        for project in read_project_locks(folder)
        if not project.is_forgotten
        for digest in project.digests
    }
    live_trees: set[str] = set()
    live_blobs: set[str] = set()
    for name in installed_names(folder):
        for generation in _planned_generations(folder, name, rules, held, locked, plan, before):
            live_trees.add(generation.tree)
            live_blobs.add(generation.digest.removeprefix("sha256:"))
    for key in tree_keys(folder):
        is_live = key in live_trees or held.has_tree(key)
        if is_live or _is_young(folder.packages / key, rules):
            tree = read_tree(folder, key)
            digests = tree.receipt.blobs if tree is not None else ()
            live_blobs.update(digest.removeprefix("sha256:") for digest in digests)
            if not is_live:
                plan.kept.append(_young(CollectedKind.PACKAGE, key))
        else:
            plan.trees.add(key)
    for sha256 in names_in(folder.blobs):
        if not is_digest(f"sha256:{sha256}"):
            continue  # not ours
        if sha256 in live_blobs or held.has_blob(sha256):
            continue
        if _is_young(folder.blobs / sha256, rules):
            plan.kept.append(_young(CollectedKind.BLOB, f"sha256:{sha256}"))
        else:
            plan.blobs.add(sha256)
    return plan


def _planned_generations(
    folder: StoreFolder,
    name: str,
    rules: CollectionRules,
    held: Holdings,
    locked: Mapping[str, Path],
    plan: _Plan,
    before: _Plan | None,
) -> Iterator[Generation]:
    """Yield the generations of a name that stay, and add the others to the plan."""
    current = current_generation(folder, name)
    if current is not None:
        yield current  # its record is complete even without a numbered one
    used = {}
    if rules.used_within_s:
        used = {generation.generation: generation.time for generation in uses(folder, name)}
    for index, generation in enumerate(generations(folder, name)):
        reason = ""
        if held.has_tree(generation.tree):
            reason = "in use"
        elif generation.digest in locked:
            reason = f"locked by {quoted(locked[generation.digest])}"
        elif (
            max(0.0, time.time() - generation.created) < rules.grace_s
        ):  # the clock may be set back
            reason = "young"
        elif time.time() - used.get(generation.number, 0.0) < rules.used_within_s:
            reason = "ran a short while ago"
        elif before is not None and before.generations.get((name, generation.number)) != generation:
            reason = "came while it was decided what goes"
        is_wanted = current is not None and (
            generation.number == current.number or index < rules.keep
        )
        if not is_wanted and not reason:
            plan.generations[name, generation.number] = generation
            continue
        if not is_wanted:
            plan.kept.append(
                Collected(kind=CollectedKind.GENERATION, what=_title(generation), why=reason)
            )
        yield generation


def _set_aside(folder: StoreFolder, plan: _Plan) -> Iterator[Path]:
    """Move everything out of its path, names before the named; yield the new paths."""
    for generation in plan.generations.values():
        remove_generation(folder, generation)
    for key in sorted(plan.trees):
        with contextlib.suppress(FileNotFoundError):
            yield folder.set_aside(folder.packages / key)
        # there is another tree of this manifest, or another process was faster
        with contextlib.suppress(OSError):
            folder.operations.remove_directory((folder.packages / key).parent)
    if plan.trees:
        folder.operations.fsync_directory(folder.packages)
    for sha256 in sorted(plan.blobs):
        with contextlib.suppress(FileNotFoundError):
            yield folder.set_aside(folder.blobs / sha256)


def _tidy(folder: StoreFolder, rules: CollectionRules, *, dry_run: bool) -> _Tidied:
    """Remove leftovers of processes that ended, and partial downloads that nobody continued."""
    remaining: list[Collected] = []
    leftovers: list[tuple[Path, Collected]] = []
    for name in names_in(folder.partial):
        path = folder.partial / name
        is_done = (folder.blobs / name.partition(".")[0]).exists()
        if not is_free(path):
            continue
        if is_done or age_s(path) > rules.partial_age_s:
            reason = "the blob is there" if is_done else "nothing came for a long time"
            leftovers.append((path, _collected(CollectedKind.PARTIAL, name, reason, path)))
        else:
            reason = "a download may go on with it; gc --now removes it"
            remaining.append(_collected(CollectedKind.PARTIAL, name, reason, path))
    for path in folder.leftovers():
        maker = maker_of(folder.owner_of(path))
        if maker is Maker.IS_GONE or (maker is Maker.UNKNOWN and age_s(path) > _FOREIGN_AGE_S):
            reason = "its process ended"
            leftovers.append((path, _collected(CollectedKind.LEFTOVER, path.name, reason, path)))
    for collected in read_project_locks(folder):
        if collected.is_forgotten:
            reason = f"{quoted(collected.lock)} is gone"
            path = collected.record
            leftovers.append((path, _collected(CollectedKind.LEFTOVER, path.name, reason, path)))
    for path in finished_announcements(folder):
        reason = "its process ended"
        leftovers.append((path, _collected(CollectedKind.LEFTOVER, path.name, reason, path)))
    if not dry_run:
        for path, _ in leftovers:
            folder.discard(path)
    return _Tidied(tuple(collected for _, collected in leftovers), tuple(remaining))


def _report(folder: StoreFolder, plan: _Plan, tidied: _Tidied) -> CollectionReport:
    removed = [
        Collected(
            kind=CollectedKind.GENERATION,
            what=_title(item),
            why="older than those that are kept",
        )
        for item in plan.generations.values()
    ]
    rows = [
        (CollectedKind.PACKAGE, key, folder.packages / key, "no generation has it")
        for key in sorted(plan.trees)
    ]
    rows += [
        (CollectedKind.BLOB, f"sha256:{sha256}", folder.blobs / sha256, "no package has it")
        for sha256 in sorted(plan.blobs)
    ]
    removed += [_collected(kind, what, why, path) for kind, what, path, why in rows]
    freed = _freed_nbytes([path for _, _, path, _ in rows])
    return CollectionReport(
        removed=(*tidied.removed, *removed),
        kept=(*tidied.kept, *plan.kept),
        nbytes_freed=freed + sum(item.nbytes for item in tidied.removed),
    )


def _freed_nbytes(paths: list[Path]) -> int:
    """Return the size of the files all of whose names are below ``paths``, in bytes."""
    names: dict[tuple[int, int], int] = {}
    statuses: dict[tuple[int, int], os.stat_result] = {}
    for status in (status for path in paths for status in _files_at(path)):
        key = (status.st_dev, status.st_ino)
        names[key] = names.get(key, 0) + 1
        statuses[key] = status
    return sum(status.st_size for key, status in statuses.items() if names[key] >= status.st_nlink)


def _files_at(path: Path) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError):
        if not path.is_dir():
            yield path.lstat()
            return
        for parent, _, names in os.walk(path):
            for name in names:
                yield Path(parent, name).lstat()


def _collected(kind: CollectedKind, what: str, why: str, path: Path) -> Collected:
    nbytes = sum(status.st_size for status in _files_at(path))
    return Collected(kind=kind, what=what, why=why, nbytes=nbytes)


def _young(kind: CollectedKind, what: str) -> Collected:
    return Collected(kind=kind, what=what, why="young")


def _title(generation: Generation) -> str:
    return f"{generation.name} generation {generation.number}"


def _is_young(path: Path, rules: CollectionRules) -> bool:
    return age_s(path) < rules.grace_s
