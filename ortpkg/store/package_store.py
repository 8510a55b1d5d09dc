"""All that is done with the store of a machine: to install, go back, take away and collect, too.

Which files a machine wants, and where they come from, is decided above.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ortpkg.errors import PackageNotInstalledError, StoreError, quoted
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.hashing import Progress, hash_files
from ortpkg.store.blob_store import BlobStore
from ortpkg.store.collection import CollectionReport, CollectionRules, collect
from ortpkg.store.generations import (
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
from ortpkg.store.installed_packages import InstalledPackages, files_are_gone
from ortpkg.store.leases import Holdings, take_lease
from ortpkg.store.oci_index import write_index
from ortpkg.store.package_trees import PackageTree, TreeContent, make_tree, read_tree
from ortpkg.store.project_locks import note_project_lock
from ortpkg.store.usage_log import forget_uses

_MOST_ATTEMPTS = 10
_DEFAULT_RULES = CollectionRules()


class PackageStore(InstalledPackages):
    """The store in one folder. What is installed is whole, whatever happens.

    Attributes:
        blobs: its content by digest.
    """

    def __init__(
        self, root: Path | None = None, *, operations: FileOperations | None = None
    ) -> None:
        """Takes what :class:`InstalledPackages` takes."""
        super().__init__(root, operations=operations)
        self.blobs = BlobStore(self._folder)

    def make_tree(self, content: TreeContent) -> PackageTree:
        """Makes a package's folder of blobs that are there; the caller holds its key and blobs."""
        with self._folder.errors(f"make {content.folder}"):
            return make_tree(self._folder, content)

    def disk_errors(self) -> contextlib.AbstractContextManager[None]:
        """StoreError, with what to do, for what the store's disk refuses meanwhile."""
        return self._folder.errors("use its disk")

    @contextlib.contextmanager
    def scratch_file(self) -> Iterator[Path]:
        """A file that does not exist yet, for what does not stay; gone when the context is left."""
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
        """Makes ``content``, whose blobs are there, what ``name`` means from now on.

        Where it means that already, nothing changes.

        Args:
            name: the name.
            content: the package.
            tag: of its version.
            variants: what was chosen, ``component/variant`` each.
            why: why that, for people.
            asked: by which wishes, ``key=value`` each.
            model_version: as the package states it.
        """
        check_name(name)
        with (
            self.hold(trees=[content.key], digests=content.all_blobs),
            self._folder.errors(f"install {name}"),
        ):
            tree = make_tree(self._folder, content)
            absent = sum(each.nbytes for each in content.absent.values())
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
        """Keeps what is installed of these manifests from gc, as long as a lock file is there.

        What ``lock`` kept before, it keeps no longer.
        """
        with self._folder.errors(f"note what {quoted(lock)} has locked"):
            note_project_lock(self._folder, lock, digests)

    def activate(self, name: str, number: int) -> Generation:
        """Makes an older, or newer, installation the one that ``name`` means."""
        with self._folder.errors(f"activate {quoted(name)}"):
            found = self._generation(name, number)
            with take_lease(self._folder, Holdings(trees=frozenset({found.tree}))):
                found = self._generation(name, number)
                if not (self._folder.packages / found.tree).is_dir():
                    raise files_are_gone(found)
                try:
                    switch_to(self._folder, found)
                except FileNotFoundError:  # the name was taken away meanwhile
                    self._generation(name, number)  # raises
                    raise
        self._refresh_index()
        return found

    def rollback(self, name: str) -> Generation:
        """Goes back to the installation before the one in use."""
        current = self.find(name)
        older = [each.number for each in self.history(name) if each.number < current.number]
        if not older:
            raise StoreError(
                f"{quoted(name)} has no installation before number {current.number}, which is in"
                " use"
            )
        return self.activate(name, older[0])

    def uninstall(self, name: str) -> None:
        """Takes a name and its history away, in one step; gc removes what nobody else has."""
        with self._folder.errors(f"uninstall {quoted(name)}"):
            if check_name(name) not in installed_names(self._folder):
                find_generation(self._folder, name)  # raises
            remove_name(self._folder, name)
            forget_uses(self._folder, name)
        self._refresh_index()

    def damaged_files(
        self, generation: Generation, *, progress: Progress | None = None
    ) -> tuple[str, ...] | None:
        """Hashes an installed package.

        Args:
            generation: which installation.
            progress: told of each file.

        Returns:
            Paths in the package whose bytes are not those of its manifest, or that are gone; None
            where its whole folder is.
        """
        with (
            self._folder.errors(f"check {quoted(generation.name)}"),
            self.hold(trees=[generation.tree]),
        ):
            tree = read_tree(self._folder, generation.tree)
            if tree is None:
                return None
            found = hash_files(
                {path: tree.root / path for path in tree.receipt.files}, progress=progress
            )
            return tuple(
                path
                for path, hashed in found.items()
                if isinstance(hashed, OSError)
                or f"sha256:{hashed.digest.sha256}" != tree.receipt.files[path].digest
            )

    def discard(self, generation: Generation, damaged: Iterable[str]) -> None:
        """Takes an installed package, and those blobs of its damaged files that are too, away.

        To install the same again then makes it whole; until that, it does not open.
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
        """Removes what nobody needs; ``dry_run`` says what that would be."""
        with self._folder.errors("collect"):
            report = collect(self._folder, rules, dry_run=dry_run)
        if not dry_run:
            self._refresh_index()
        return report

    def _put_in_use(self, wanted: Generation) -> Generation:
        for _ in range(_MOST_ATTEMPTS):
            made = self._recorded(wanted)
            with contextlib.suppress(FileNotFoundError):  # the name was taken away meanwhile
                if made != current_generation(self._folder, made.name):
                    switch_to(self._folder, made)
                if read_generation(self._folder, made.name, made.number) is not None:
                    self._refresh_index()
                    return made
        raise StoreError(f"{quoted(wanted.name)} is being uninstalled again and again")

    def _recorded(self, wanted: Generation) -> Generation:
        """A record of what is wanted: one that is there, or a new one."""
        current = current_generation(self._folder, wanted.name)
        for index, found in enumerate(generations(self._folder, wanted.name)):
            is_newest = index == 0  # if it is not in use, a process was killed before it was
            if (is_newest or found == current) and found.is_same_as(wanted):
                return found
        return record_generation(self._folder, wanted)

    def _generation(self, name: str, number: int) -> Generation:
        found = read_generation(self._folder, check_name(name), number)
        if found is None:
            numbers = ", ".join(str(each.number) for each in self.history(name))
            raise PackageNotInstalledError(
                f"{quoted(name)} has no installation {number}; there is {numbers}", name=name
            )
        return found

    def _refresh_index(self) -> None:
        """Writes the index until it says what is in use: who writes last has seen all."""
        if not self._folder.exists:
            return
        with contextlib.suppress(OSError, StoreError):  # made anew at the next change
            for _ in range(_MOST_ATTEMPTS):
                current = self.packages(on_damage=_ignore)
                is_new = write_index(self._folder, current)
                if not is_new or self.packages(on_damage=_ignore) == current:
                    return


def _ignore(_: StoreError) -> None:
    """Who lists packages says what is damaged."""
