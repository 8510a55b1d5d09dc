"""Read access to the installed packages of a machine: open, list, find, and record that one ran.

Every session of an installed package needs this module, so it loads nothing that copies or hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from ortpkg.distribution.store.generations import (
    Generation,
    check_name,
    current_generation,
    find_generation,
    generations,
    installed_names,
)
from ortpkg.distribution.store.leases import Holdings, Lease, take_lease
from ortpkg.distribution.store.store_folder import StoreFolder
from ortpkg.distribution.store.usage_log import Use, note_use, uses
from ortpkg.foundations.errors import StoreError, quoted
from ortpkg.foundations.host.directories import store_directory
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.package.receipts import Receipt, read_receipt

_MOST_ATTEMPTS = 1000


@dataclass(frozen=True)
class HeldPackage:
    """Package in the store, protected from removal while this object is open.

    Attributes:
        generation: The installation.
        root: Folder of the package, which ``ModelPackage`` opens.
        lease: Lease that protects the package.
    """

    generation: Generation
    root: Path
    lease: Lease

    @cached_property
    def receipt(self) -> Receipt:
        """Record of the package's files that are installed.

        Raises:
            StoreError: The receipt is damaged or gone.
        """
        receipt = read_receipt(self.root.parent)
        if receipt is None:
            raise files_are_gone(self.generation)
        return receipt

    def close(self) -> None:
        """Release the lease, so that garbage collection may remove the package once it is old."""
        self.lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InstalledPackages:
    """The packages of the store in one folder, which need not exist yet.

    Methods may be called by many threads and processes at once.

    Attributes:
        root: Folder of the store.

    Raises:
        StoreError: The folder cannot be used; all methods raise it.
    """

    def __init__(
        self, root: Path | None = None, *, operations: FileOperations | None = None
    ) -> None:
        """Create a view of the store at ``root``.

        Default: ``ORTPKG_STORE`` or the user's data folder.
        """
        self.root = (root or store_directory()).absolute()
        self._folder = StoreFolder(self.root, operations or FileOperations())

    def hold(self, *, trees: Iterable[str] = (), digests: Iterable[str] = ()) -> Lease:
        """Protect trees and blobs from collection, including those that do not exist yet.

        Call it before checking whether they exist.
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
        """Return the generation in use of each name, sorted by name; reads one small file for each.

        Args:
            on_damage: Called with the error of each damaged record; if None, the error is raised.
        """
        current = []
        with self._folder.errors("list packages"):
            for name in installed_names(self._folder) if self._folder.exists else ():
                try:
                    generation = current_generation(self._folder, name)
                except StoreError as error:
                    if on_damage is None:
                        raise
                    on_damage(error)
                    continue
                current += [generation] if generation is not None else []
        return tuple(current)

    def find(self, name: str, *, tag: str | None = None, digest: str | None = None) -> Generation:
        """Return the generation in use of a name, or its newest with that tag or digest.

        Raises:
            PackageNotInstalledError: There is none.
        """
        with self._folder.errors(f"find {quoted(name)}"):
            return find_generation(self._folder, name, tag=tag, digest=digest)

    def open(self, name: str, *, tag: str | None = None, digest: str | None = None) -> HeldPackage:
        """Open the package that :meth:`find` returns, and protect it until it is closed."""
        with self._folder.errors(f"open {quoted(name)}"):
            for _ in range(_MOST_ATTEMPTS):
                generation = find_generation(self._folder, name, tag=tag, digest=digest)
                lease = take_lease(self._folder, Holdings(trees=frozenset({generation.tree})))
                root = self._folder.packages / generation.tree / generation.folder
                if root.is_dir():
                    return HeldPackage(generation, root, lease)
                with lease:
                    # A collection removes the record before the tree. If the record still exists
                    # while nothing can be collected, the tree was lost. Otherwise another
                    # generation is in use by now, which may be gone as well before a slow process
                    # holds it.
                    current = find_generation(self._folder, name, tag=tag, digest=digest)
                    if current == generation and not root.is_dir():
                        raise files_are_gone(generation)
        raise StoreError(
            f"{quoted(name)} was replaced {_MOST_ATTEMPTS} times while it was being opened: try"
            " again"
        )

    def history(self, name: str) -> tuple[Generation, ...]:
        """Return all installations of a name that are kept, newest first."""
        check_name(name)
        with self._folder.errors(f"read the history of {name}"):
            history = tuple(generations(self._folder, name))
            if not history and current_generation(self._folder, name) is None:
                find_generation(self._folder, name)  # raises
        return history

    def note_use(self, generation: Generation, variant: str) -> None:
        """Record, if possible, that a variant (``component/variant``) runs now."""
        note_use(self._folder, generation, variant)

    def uses(self, name: str) -> tuple[Use, ...]:
        """Return the last runs of a name's installations, newest last."""
        return uses(self._folder, check_name(name))


def files_are_gone(generation: Generation) -> StoreError:
    """Return the error for an installation whose tree does not exist."""
    return StoreError(
        f"the files of {quoted(generation.name)}, installation {generation.number}, are gone from"
        f" the store: ortpkg repair {generation.name} fetches those in use again; for others,"
        f" install {quoted(generation.reference)} again"
    )
