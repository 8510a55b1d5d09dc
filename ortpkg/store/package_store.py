"""All that is done with the store of a machine: install, open, list, go back, take away, collect.

Which files a machine wants, and where they come from, is decided above.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from ortpkg.errors import PackageNotInstalledError, StoreError, quoted
from ortpkg.host.directories import store_directory
from ortpkg.storage.file_operations import FileOperations
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
from ortpkg.store.leases import Holdings, Lease, take_lease
from ortpkg.store.oci_index import write_index
from ortpkg.store.package_trees import PackageTree, TreeContent, make_tree
from ortpkg.store.receipts import Receipt, read_receipt
from ortpkg.store.store_folder import StoreFolder
from ortpkg.store.usage_log import Use, forget_uses, note_use, uses

_MOST_ATTEMPTS = 10
_DEFAULT_RULES = CollectionRules()


@dataclass(frozen=True)
class InstalledPackage:
    """A package in the store that stays there while this is open.

    Attributes:
        generation: which installation.
        root: its folder, which ``ModelPackage`` opens.
        lease: what keeps it there.
    """

    generation: Generation
    root: Path
    lease: Lease

    @cached_property
    def receipt(self) -> Receipt:
        """Which of its files are here. StoreError where that is damaged or gone."""
        receipt = read_receipt(self.root.parent)
        if receipt is None:
            raise _is_gone(self.generation)
        return receipt

    def close(self) -> None:
        """Lets gc have it, once it is old."""
        self.lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PackageStore:
    """The store in one folder, which need not exist yet.

    Its methods may be called by many threads and processes at once. All raise StoreError, in one
    sentence, where the folder cannot be used; what is installed is whole, whatever happens.

    Attributes:
        root: its folder.
        blobs: its content by digest.
    """

    def __init__(self, root: Path | None = None, *, operations: FileOperations | None = None):
        """The store at ``root``; left out: ``ORTPKG_STORE``, else the user's directory for data."""
        self.root = (root or store_directory()).absolute()
        self._folder = StoreFolder(self.root, operations or FileOperations())
        self.blobs = BlobStore(self._folder)

    def hold(self, *, trees: Iterable[str] = (), digests: Iterable[str] = ()) -> Lease:
        """Keeps trees and blobs from gc, those too that are yet to come.

        To be called before it is asked whether they are there.
        """
        holdings = Holdings(
            trees=frozenset(trees),
            blobs=frozenset(digest.removeprefix("sha256:") for digest in digests),
        )
        with self._folder.errors("use packages"):
            return take_lease(self._folder, holdings)

    def make_tree(self, content: TreeContent) -> PackageTree:
        """Makes a package's folder of blobs that are there; the caller holds its key and blobs."""
        with self._folder.errors(f"make {content.folder}"):
            return make_tree(self._folder, content)

    def install(
        self,
        name: str,
        content: TreeContent,
        *,
        tag: str = "",
        variants: tuple[str, ...] = (),
        why: str = "",
    ) -> Generation:
        """Makes ``content``, whose blobs are there, what ``name`` means from now on.

        Where it means that already, nothing changes.

        Args:
            name: the name.
            content: the package.
            tag: of its version.
            variants: what was chosen, ``component/variant`` each.
            why: why that, for people.
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
                nbytes=tree.receipt.nbytes,
                full_nbytes=tree.receipt.nbytes + absent,
            )
            return self._put_in_use(wanted)

    def packages(
        self, *, on_damage: Callable[[StoreError], object] | None = None
    ) -> tuple[Generation, ...]:
        """What each name means now, by name. Reads one small file for each.

        Args:
            on_damage: told of names whose record is damaged; left out, that is raised.
        """
        found = []
        with self._folder.errors("list packages"):
            for name in installed_names(self._folder) if self._folder.exists else ():
                try:
                    generation = current_generation(self._folder, name)
                except StoreError as error:
                    if on_damage is None:
                        raise
                    on_damage(error)
                    continue
                found += [generation] if generation is not None else []
        return tuple(found)

    def find(self, name: str, *, tag: str | None = None, digest: str | None = None) -> Generation:
        """The installation that a name means, or its newest with that tag or digest.

        PackageNotInstalledError where there is none.
        """
        with self._folder.errors(f"find {quoted(name)}"):
            return find_generation(self._folder, name, tag=tag, digest=digest)

    def open(
        self, name: str, *, tag: str | None = None, digest: str | None = None
    ) -> InstalledPackage:
        """As :meth:`find`, and it stays there until it is closed."""
        with self._folder.errors(f"open {quoted(name)}"):
            for _ in range(_MOST_ATTEMPTS):
                generation = find_generation(self._folder, name, tag=tag, digest=digest)
                lease = take_lease(self._folder, Holdings(trees=frozenset({generation.tree})))
                root = self._folder.packages / generation.tree / generation.folder
                if root.is_dir():
                    return InstalledPackage(generation, root, lease)
                lease.release()  # it was collected, and another is in use by now
        raise _is_gone(generation)

    def history(self, name: str) -> tuple[Generation, ...]:
        """All installations of a name that are kept, the newest first."""
        check_name(name)
        with self._folder.errors(f"read the history of {name}"):
            found = tuple(generations(self._folder, name))
            if not found and current_generation(self._folder, name) is None:
                find_generation(self._folder, name)  # raises
        return found

    def activate(self, name: str, number: int) -> Generation:
        """Makes an older, or newer, installation the one that ``name`` means."""
        with self._folder.errors(f"activate {quoted(name)}"):
            found = self._generation(name, number)
            with take_lease(self._folder, Holdings(trees=frozenset({found.tree}))):
                found = self._generation(name, number)
                if not (self._folder.packages / found.tree).is_dir():
                    raise _is_gone(found)
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

    def note_use(self, generation: Generation, variant: str) -> None:
        """Writes down that a variant, ``component/variant``, runs now; where it can be."""
        note_use(self._folder, generation, variant)

    def uses(self, name: str) -> tuple[Use, ...]:
        """The last runs of what was installed under a name, the newest last."""
        return uses(self._folder, check_name(name))

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
                write_index(self._folder, current)
                if self.packages(on_damage=_ignore) == current:
                    return


def _ignore(_: StoreError) -> None:
    """Who lists packages says what is damaged."""


def _is_gone(generation: Generation) -> StoreError:
    return StoreError(
        f"the files of {quoted(generation.name)}, installation {generation.number}, are gone from"
        f" the store: install {quoted(generation.reference)} again"
    )
