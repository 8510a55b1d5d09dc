"""``ortpkg pull``: what a machine needs of a package, as a folder of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ortpkg.distribution.installation import InstallPlan, fetch_planned, planned
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.errors import StoreError, quoted
from ortpkg.package.changes.staging import check_is_free, check_space, is_replaceable, staged
from ortpkg.registry.references import Reference, StoreReference, parse_reference
from ortpkg.storage.file_operations import CANNOT_CLONE, FileOperations, make_parents
from ortpkg.storage.hashing import Progress, hash_file
from ortpkg.storage.package_lock import lock_package
from ortpkg.store.package_store import PackageStore
from ortpkg.store.receipts import StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """What was copied to a folder, or would be.

    Attributes:
        plan: what was chosen, and why.
        root: the folder.
        moved_nbytes: bytes of layers that came; 0 where the store had all, and for a rehearsal.
    """

    plan: InstallPlan
    root: Path
    moved_nbytes: int


def pull(
    reference: str | PathLike[str],
    root: str | PathLike[str],
    *,
    wishes: InstallWishes | None = None,
    overwrite: bool = False,
    store: PackageStore | None = None,
    trust_policy: Path | None = None,
    is_rehearsal: bool = False,
    on_plan: Callable[[InstallPlan], object] | None = None,
    progress: Progress | None = None,
    operations: FileOperations | None = None,
) -> PullReport:
    """Copies what is wanted of a package to ``root``, a new folder that may be changed.

    It comes by way of the store, which keeps it until the next gc: what is there is not fetched.

    Args:
        reference: as for :func:`~ortpkg.distribution.installation.install`, or the name of an
            installed package.
        root: the folder; it must not exist, or be empty.
        wishes: what is to be fetched; left out: what is installed, or what this machine runs best.
        overwrite: ``root`` may be a package, which is replaced when the new one is complete.
        store: by way of which store; left out, the user's.
        trust_policy: the file that says who may publish what; left out, the one that holds here.
        is_rehearsal: fetches the documents alone, and makes nothing.
        on_plan: told what is going to be fetched, before it is.
        progress: called with (where from, bytes done, bytes in all).
        operations: how the disk is changed.

    Raises as :func:`~ortpkg.distribution.installation.install`, and AuthoringError where ``root``
    is not free, or the disk is full; there is then nothing new.
    """
    store = store or PackageStore()
    root = Path(root).absolute()
    operations = operations or FileOperations()
    parsed = parse_reference(reference)
    if not (overwrite and is_replaceable(root, is_package=True)):
        check_is_free(root)
    wishes = wishes or _installed_wishes(parsed, store)
    with planned(parsed, None, wishes, store, progress, trust_policy) as plan:
        if on_plan is not None:
            on_plan(plan)
        if is_rehearsal:
            return PullReport(plan=plan, root=root, moved_nbytes=0)
        with store.hold(digests=plan.content.all_blobs):
            moved = fetch_planned(plan, store, progress)
            with (
                lock_package(root),
                staged(
                    root,
                    nbytes=sum(map(len, plan.content.written.values())),
                    operations=operations,
                    overwrite=overwrite,
                ) as staging,
            ):
                _write(plan, store, staging, operations)
    return PullReport(plan=plan, root=root, moved_nbytes=moved)


def _installed_wishes(reference: Reference, store: PackageStore) -> InstallWishes | None:
    """For an installed package, what is installed of it; else what this machine runs best."""
    if not isinstance(reference, StoreReference):
        return None
    installed = store.find(reference.name, tag=reference.tag, digest=reference.digest)
    samples = InstallWishes.of_words(installed.asked).samples
    return InstallWishes(variants=installed.variants, samples=samples)


def _write(
    plan: InstallPlan, store: PackageStore, staging: Path, operations: FileOperations
) -> None:
    operations.make_directory(staging)
    folders = {staging}
    for path, content in sorted(plan.content.written.items()):
        make_parents(staging, path, operations)
        operations.write_file(staging / path, content)
        folders.add((staging / path).parent)
    maker = _FileMaker(plan, store, staging, operations)
    for path, file in sorted(plan.content.files.items()):
        make_parents(staging, path, operations)
        maker.make(path, file)
        folders.add((staging / path).parent)
    for folder in sorted(folders):
        operations.fsync_directory(folder)


class _FileMaker:
    """Files of their own with the content of blobs: they share its blocks where that can be.

    Each is hashed once more: a blob may have been damaged since it was verified.
    """

    def __init__(
        self, plan: InstallPlan, store: PackageStore, staging: Path, operations: FileOperations
    ) -> None:
        self._plan = plan
        self._store = store
        self._staging = staging
        self._operations = operations
        self._shares = True

    def make(self, path: str, file: StoredFile) -> None:
        """Makes the file at ``path``. AuthoringError where it is to be copied, and no room."""
        sha256 = self._shared(path, file) or self._copied(path, file)
        if f"sha256:{sha256}" != file.digest:
            self._store.blobs.check(file.digest)  # takes it away, so that the next fetches it
            raise StoreError(
                f"{quoted(path)} was damaged in the store {quoted(self._store.root)}, and is"
                " removed from it: pull again"
            )

    def _shared(self, path: str, file: StoredFile) -> str | None:
        """The SHA-256 of a reflink; None where there are none between the two folders."""
        if not self._shares:
            return None
        target = self._staging / path
        try:
            self._operations.clone(self._store.blobs.path(file.digest), target)
        except FileNotFoundError:
            return None  # what copies says what is missing
        except OSError as error:
            if error.errno not in CANNOT_CLONE:
                raise
            # The rest will not be either; so there has to be room for all of it.
            self._shares = False
            nbytes = sum(each.nbytes for each in self._plan.content.files.values())
            check_space(self._staging.parent, nbytes, self._operations)
            return None
        return hash_file(target).sha256

    def _copied(self, path: str, file: StoredFile) -> str:
        with self._store.blobs.open(file.digest) as stream:
            return self._operations.copy_stream(
                stream, self._staging / path, nbytes=file.nbytes, name=path
            ).sha256
