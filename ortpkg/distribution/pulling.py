"""``ortpkg pull``: copies what a machine needs of a package to a folder of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ortpkg.distribution.installation import InstallPlan, fetch_planned, planned
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.distribution.variant_choice import InstallWishes
from ortpkg.foundations.errors import StoreError, quoted
from ortpkg.foundations.storage.file_operations import CANNOT_CLONE, FileOperations, make_parents
from ortpkg.foundations.storage.hashing import Progress, hash_file
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.package.changes.staging import check_is_free, check_space, is_replaceable, staged
from ortpkg.package.receipts import StoredFile
from ortpkg.package.references.package_references import Reference, StoreReference, parse_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """Result of a pull or of a rehearsal.

    Attributes:
        plan: What was selected, and why.
        root: The folder.
        moved_nbytes: Size of the layers that were fetched; 0 if the store had all, and for a
            rehearsal.
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
    """Copy a part of a package to ``root``, a new folder that may be changed.

    It goes through the store, which keeps it until the next collection; existing content is not
    fetched.

    Args:
        reference: See :func:`~ortpkg.distribution.installation.install`; or the name of an
            installed package.
        root: The folder; it must not exist, or be empty.
        wishes: What to fetch; default: what is installed, or what this machine runs best.
        overwrite: True if ``root`` may be a package, which is replaced once the new one is
            complete.
        store: Store to use; default: the user's.
        trust_policy: File of the trust policy; default: the one that applies here.
        is_rehearsal: True to fetch only the documents and make nothing.
        on_plan: Called with the plan before anything else is fetched.
        progress: Called with (source, bytes done, bytes in all).
        operations: Operations that change the disk.

    Raises:
        AuthoringError: ``root`` is not free or the disk is full; nothing new exists then.
        OrtpkgError: See :func:`~ortpkg.distribution.installation.install`.
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
    """Return wishes for what is installed of a package; None if it is not installed."""
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
    """Maker of separate files with the content of blobs, which share disk blocks if possible.

    Each file is hashed again, because a blob may have been damaged since it was verified.
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
        """Make the file at ``path``.

        Raises:
            AuthoringError: It has to be copied and there is no room.
        """
        sha256 = self._shared(path, file) or self._copied(path, file)
        if f"sha256:{sha256}" != file.digest:
            self._store.blobs.check(file.digest)  # removes it, so that the next call fetches it
            raise StoreError(
                f"{quoted(path)} was damaged in the store {quoted(self._store.root)}, and is"
                " removed from it: pull again"
            )

    def _shared(self, path: str, file: StoredFile) -> str | None:
        """Return the SHA-256 of a reflink, or None if the file systems do not support one."""
        if not self._shares:
            return None
        target = self._staging / path
        try:
            self._operations.clone(self._store.blobs.path(file.digest), target)
        except FileNotFoundError:
            return None  # the copy reports what is missing
        except OSError as error:
            if error.errno not in CANNOT_CLONE:
                raise
            # The other files cannot be cloned either, so there must be room for all of them.
            self._shares = False
            nbytes = sum(file.nbytes for file in self._plan.content.files.values())
            check_space(self._staging.parent, nbytes, self._operations)
            return None
        return hash_file(target).sha256

    def _copied(self, path: str, file: StoredFile) -> str:
        with self._store.blobs.open(file.digest) as stream:
            return self._operations.copy_stream(
                stream, self._staging / path, nbytes=file.nbytes, name=path
            ).sha256
