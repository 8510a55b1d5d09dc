"""What is installed in the store of a machine: opened, listed, found, and noted that it ran.

On the way to every session of an installed package: it loads nothing that copies or hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from ortpkg.errors import StoreError, quoted
from ortpkg.host.directories import store_directory
from ortpkg.storage.file_operations import FileOperations
from ortpkg.store.generations import (
    Generation,
    check_name,
    current_generation,
    find_generation,
    generations,
    installed_names,
)
from ortpkg.store.leases import Holdings, Lease, take_lease
from ortpkg.store.receipts import Receipt, read_receipt
from ortpkg.store.store_folder import StoreFolder
from ortpkg.store.usage_log import Use, note_use, uses

_MOST_ATTEMPTS = 1000


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
            raise files_are_gone(self.generation)
        return receipt

    def close(self) -> None:
        """Lets gc have it, once it is old."""
        self.lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InstalledPackages:
    """The packages of the store in one folder, which need not exist yet.

    Its methods may be called by many threads and processes at once. All raise StoreError, in one
    sentence, where the folder cannot be used.

    Attributes:
        root: its folder.
    """

    def __init__(
        self, root: Path | None = None, *, operations: FileOperations | None = None
    ) -> None:
        """The store at ``root``, by default ``ORTPKG_STORE`` or in the user's folder for data."""
        self.root = (root or store_directory()).absolute()
        self._folder = StoreFolder(self.root, operations or FileOperations())

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
        """What :meth:`find` finds, which stays there until it is closed."""
        with self._folder.errors(f"open {quoted(name)}"):
            for _ in range(_MOST_ATTEMPTS):
                generation = find_generation(self._folder, name, tag=tag, digest=digest)
                lease = take_lease(self._folder, Holdings(trees=frozenset({generation.tree})))
                root = self._folder.packages / generation.tree / generation.folder
                if root.is_dir():
                    return InstalledPackage(generation, root, lease)
                with lease:
                    # Who collects takes the record before the tree: where it is still there while
                    # nothing can be collected, the tree was lost. Else another is in use by now,
                    # which may be gone as well before a slow process holds it.
                    current = find_generation(self._folder, name, tag=tag, digest=digest)
                    if current == generation and not root.is_dir():
                        raise files_are_gone(generation)
        raise StoreError(
            f"{quoted(name)} was replaced {_MOST_ATTEMPTS} times while it was being opened: try"
            " again"
        )

    def history(self, name: str) -> tuple[Generation, ...]:
        """All installations of a name that are kept, the newest first."""
        check_name(name)
        with self._folder.errors(f"read the history of {name}"):
            found = tuple(generations(self._folder, name))
            if not found and current_generation(self._folder, name) is None:
                find_generation(self._folder, name)  # raises
        return found

    def note_use(self, generation: Generation, variant: str) -> None:
        """Writes down, where it can, that a variant, ``component/variant``, runs now."""
        note_use(self._folder, generation, variant)

    def uses(self, name: str) -> tuple[Use, ...]:
        """The last runs of what was installed under a name, the newest last."""
        return uses(self._folder, check_name(name))


def files_are_gone(generation: Generation) -> StoreError:
    """The error for an installation whose tree is not there."""
    return StoreError(
        f"the files of {quoted(generation.name)}, installation {generation.number}, are gone from"
        f" the store: ortpkg repair {generation.name} fetches those in use again; for others,"
        f" install {quoted(generation.reference)} again"
    )
