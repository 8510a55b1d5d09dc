"""All changes of a machine's store: install, roll back, uninstall and collect.

The layers above decide which files a machine needs and where they come from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ortpkg.distribution.store.blob_store import BlobStore
from ortpkg.distribution.store.blob_trees import PackageTree, TreeContent, make_tree, read_tree
from ortpkg.distribution.store.collection import CollectionReport, CollectionRules, collect
from ortpkg.distribution.store.generations import (
    Generation,
    check_name,
    current_generation,
    find_generation,
    generations,
    installed_names,
    read_generation,
    record_generation,
    remove_name,
    switch_to,
)
from ortpkg.distribution.store.installed_packages import InstalledPackages, files_are_gone
from ortpkg.distribution.store.leases import Holdings, take_lease
from ortpkg.distribution.store.oci_index import write_index
from ortpkg.distribution.store.project_locks import note_project_lock
from ortpkg.distribution.store.usage_log import forget_uses
from ortpkg.foundations.errors import PackageNotInstalledError, StoreError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress, hash_files

_MOST_ATTEMPTS = 10
_DEFAULT_RULES = CollectionRules()


class PackageStore(InstalledPackages):
    """Store in one folder; whatever happens, everything that is installed is complete.

    Attributes:
        blobs: Content by digest.
    """

    def __init__(
        self, root: Path | None = None, *, operations: FileOperations | None = None
    ) -> None:
        """Create a store; see :class:`InstalledPackages`."""
        super().__init__(root, operations=operations)
        self.blobs = BlobStore(self._folder)

    def make_tree(self, content: TreeContent) -> PackageTree:
        """Make a package's folder from stored blobs; the caller holds its key and blobs."""
        with self._folder.errors(f"make {content.folder}"):
            return make_tree(self._folder, content)

    def disk_errors(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that converts errors of the store's disk to StoreError, with advice."""
        return self._folder.errors("use its disk")

    @contextlib.contextmanager
    def scratch_file(self) -> Iterator[Path]:
        """Yield the path of a temporary file that does not exist yet, and remove it afterwards."""
        with self.disk_errors():
            self._folder.prepare()
            path = self._folder.new_staging()
        try:
            yield path
        finally:
            self._folder.remove_quietly(path)

    def install(
        self,
        name: str,
        content: TreeContent,
        *,
        tag: str = "",
        variants: tuple[str, ...] = (),
        why: str = "",
        asked: tuple[str, ...] = (),
        model_version: str = "",
    ) -> Generation:
        """Install ``content``, whose blobs are stored, under ``name`` and put it in use.

        If that is in use already, nothing changes.

        Args:
            name: Name of the package in the store.
            content: The package.
            tag: Tag of its version.
            variants: Selected variants, each ``component/variant``.
            why: Reason of the selection, for people.
            asked: Options of the selection, each ``key=value``.
            model_version: Version of the model as the package states it.
        """
        check_name(name)
        with (
            self.hold(trees=[content.key], digests=content.all_blobs),
            self._folder.errors(f"install {name}"),
        ):
            tree = make_tree(self._folder, content)
            absent = sum(file.nbytes for file in content.absent.values())
            wanted = Generation(
                name=name,
                reference=content.reference,
                tag=tag,
                digest=content.manifest,
                tree=tree.key,
                folder=content.folder,
                variants=variants,
                why=why,
                asked=asked,
                nbytes=tree.receipt.nbytes,
                full_nbytes=tree.receipt.nbytes + absent,
                model_version=model_version,
            )
            return self._put_in_use(wanted)

    def keep_for_project(self, lock: Path, digests: Iterable[str]) -> None:
        """Protect installed packages with these manifests from collection while a lock file exists.

        They replace those that ``lock`` protected before.
        """
        with self._folder.errors(f"note what {quoted(lock)} has locked"):
            note_project_lock(self._folder, lock, digests)

    def activate(self, name: str, number: int) -> Generation:
        """Put another installation of ``name``, older or newer, in use."""
        with self._folder.errors(f"activate {quoted(name)}"):
            generation = self._generation(name, number)
            with take_lease(self._folder, Holdings(trees=frozenset({generation.tree}))):
                generation = self._generation(name, number)
                if not (self._folder.packages / generation.tree).is_dir():
                    raise files_are_gone(generation)
                try:
                    switch_to(self._folder, generation)
                except FileNotFoundError:  # the name was taken away meanwhile
                    self._generation(name, number)  # raises
                    raise
        self._refresh_index()
        return generation

    def rollback(self, name: str) -> Generation:
        """Put the installation before the one in use in use again."""
        current = self.find(name)
        older = [
            generation.number
            for generation in self.history(name)
            if generation.number < current.number
        ]
        if not older:
            raise StoreError(
                f"{quoted(name)} has no installation before number {current.number}, which is in"
                " use"
            )
        return self.activate(name, older[0])

    def uninstall(self, name: str) -> None:
        """Remove a name and its history in one step; a collection removes what is unused then."""
        with self._folder.errors(f"uninstall {quoted(name)}"):
            if check_name(name) not in installed_names(self._folder):
                find_generation(self._folder, name)  # raises
            remove_name(self._folder, name)
            forget_uses(self._folder, name)
        self._refresh_index()

    def damaged_files(
        self, generation: Generation, *, progress: Progress | None = None
    ) -> tuple[str, ...] | None:
        """Hash an installed package.

        Args:
            generation: The installation.
            progress: Called for each file.

        Returns:
            Paths in the package whose bytes differ from its manifest, or that are gone; None if the
            whole folder is gone.
        """
        with (
            self._folder.errors(f"check {quoted(generation.name)}"),
            self.hold(trees=[generation.tree]),
        ):
            tree = read_tree(self._folder, generation.tree)
            if tree is None:
                return None
            results = hash_files(
                {path: tree.root / path for path in tree.receipt.files}, progress=progress
            )
            return tuple(
                path
                for path, hashed in results.items()
                if isinstance(hashed, OSError)
                or f"sha256:{hashed.digest.sha256}" != tree.receipt.files[path].digest
            )

    def discard(self, generation: Generation, damaged: Iterable[str]) -> None:
        """Remove an installed package, and the blobs of its damaged files that are damaged, too.

        Installing the same again restores it; until then it does not open.
        """
        with (
            self._folder.errors(f"discard {quoted(generation.name)}"),
            self.hold(trees=[generation.tree]),
        ):
            tree = read_tree(self._folder, generation.tree)
            if tree is None:
                return
            for digest in {tree.receipt.files[path].digest for path in damaged}:
                if self.blobs.has(digest):
                    self.blobs.check(digest)
            self._folder.discard(self._folder.packages / generation.tree)

    def gc(
        self, rules: CollectionRules = _DEFAULT_RULES, *, dry_run: bool = False
    ) -> CollectionReport:
        """Remove what nobody needs; ``dry_run`` only reports it."""
        with self._folder.errors("collect"):
            report = collect(self._folder, rules, dry_run=dry_run)
        if not dry_run:
            self._refresh_index()
        return report

    def _put_in_use(self, wanted: Generation) -> Generation:
        for _ in range(_MOST_ATTEMPTS):
            recorded = self._recorded(wanted)
            with contextlib.suppress(FileNotFoundError):  # the name was taken away meanwhile
                if recorded != current_generation(self._folder, recorded.name):
                    switch_to(self._folder, recorded)
                if read_generation(self._folder, recorded.name, recorded.number) is not None:
                    self._refresh_index()
                    return recorded
        raise StoreError(f"{quoted(wanted.name)} is being uninstalled again and again")

    def _recorded(self, wanted: Generation) -> Generation:
        """Return a record of the wanted generation: an existing one, or a new one."""
        current = current_generation(self._folder, wanted.name)
        for index, generation in enumerate(generations(self._folder, wanted.name)):
            # if it is not in use, its process was killed before switching to it
            is_newest = index == 0
            if (is_newest or generation == current) and generation.is_same_as(wanted):
                return generation
        return record_generation(self._folder, wanted)

    def _generation(self, name: str, number: int) -> Generation:
        generation = read_generation(self._folder, check_name(name), number)
        if generation is None:
            numbers = ", ".join(str(other.number) for other in self.history(name))
            raise PackageNotInstalledError(
                f"{quoted(name)} has no installation {number}; there is {numbers}", name=name
            )
        return generation

    def _refresh_index(self) -> None:
        """Write the index until it matches what is in use: the last writer has seen everything."""
        if not self._folder.exists:
            return
        with contextlib.suppress(OSError, StoreError):  # it is rewritten at the next change
            for _ in range(_MOST_ATTEMPTS):
                current = self.packages(on_damage=_ignore)
                is_new = write_index(self._folder, current)
                if not is_new or self.packages(on_damage=_ignore) == current:
                    return


def _ignore(_: StoreError) -> None:
    """Ignore a damaged record; listing packages reports it."""
