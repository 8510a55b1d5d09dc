"""Plan of a whole package: its documents, and the source of each file.

Commands that rewrite packages (convert, merge, slim) make such a plan. It is carried out either as
a new package, or as one change of the package itself that leaves equal files untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ortpkg.authoring.new_variant import Notify
from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import AuthoringError, DigestMismatchError, quoted
from ortpkg.foundations.storage.composed_file import ComposedFile
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.changes.transaction import DocumentChange, PackageChange
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digest_check import DifferenceKind, is_within, list_files
from ortpkg.package.integrity.digests import read_entries
from ortpkg.package.integrity.transferable_files import verify_whole
from ortpkg.package.integrity.verification import check_own_record, package_differences
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import DIGESTS_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePlan:
    """Planned content of a package; paths are relative to its root, with ``/``.

    Attributes:
        documents: path → content, in an order in which they may replace the present ones.
        files: path → the file with its content, in this package or in another one.
        commit: the document whose replacement commits, if it matters; see ``PackageChange``.
    """

    documents: Mapping[str, bytes]
    files: Mapping[str, Path]
    commit: str | None = None


def check_intact(root: Path, *, notify: Notify, progress: Progress | None) -> None:
    """Hash all of a package that is to be copied.

    Missing digests, and files that are not recorded, cannot be checked; both are reported to
    ``notify``.

    Raises:
        DigestMismatchError: files are damaged; it describes the first and names others.
    """
    recorded = read_entries(root)
    if recorded is None:
        notify(f"{root.name} has no {DIGESTS_FILE}: damage to it would go unnoticed")
        return
    check_record(root)
    verify_whole(root, recorded)
    differences = package_differences(root, progress=progress)
    extra = [
        difference.file for difference in differences if difference.kind is DifferenceKind.EXTRA
    ]
    if extra:
        notify(
            f"{quoted(root.name)} holds files that {DIGESTS_FILE} does not record: {_listed(extra)}"
        )
    damaged = [
        difference for difference in differences if difference.kind is not DifferenceKind.EXTRA
    ]
    if damaged:
        first = damaged[0]
        message = (
            f"{quoted(root)} is damaged, and nothing was copied:"
            f" {_listed([difference.file for difference in damaged])}"
        )
        remedy = "repair it with ortpkg verify --repair-from"
        raise DigestMismatchError(
            f"{message}: {first.message}; {remedy}",
            file=first.file,
            expected=first.expected,
            actual=first.actual,
            path=root,
        )


def check_record(root: Path) -> None:
    """Raise DigestMismatchError if digests.json itself is damaged and so proves nothing."""
    if damage := check_own_record(root):
        remedy = (
            f"repair it with ortpkg verify --repair-from, or delete {DIGESTS_FILE} to accept it as"
            " it is"
        )
        raise DigestMismatchError(
            f"{DIGESTS_FILE} of {quoted(root)} is damaged, and nothing was changed:"
            f" {damage.message}; {remedy}",
            file=damage.file,
            expected=damage.expected,
            actual=damage.actual,
            path=root,
        )


def edited_plan(
    package: PackageInfo,
    changes: Sequence[DocumentChange],
    *,
    removes: Sequence[str] = (),
    adds: Mapping[str, Path] = EMPTY,
    commit: str | None = None,
) -> PackagePlan:
    """Plan the package with ``changes`` and ``adds`` (path → file to copy), without ``removes``.

    Raises:
        AuthoringError: it is a component model on its own, which has no manifest.
    """
    if not (package.root / MANIFEST).is_file():
        message = f"{quoted(package.root)} is a component model on its own, without {MANIFEST}"
        raise AuthoringError(f"{message}: make a package of it first, with ortpkg convert")
    changed = {change.path: change.after for change in changes}
    documents = {} if MANIFEST in changed else {MANIFEST: (package.root / MANIFEST).read_bytes()}
    documents |= changed
    removed = frozenset(removes)
    remaining = {
        path: package.root / path
        for path in list_files(package.root)
        if path not in documents and not is_within(path, removed)
    }
    return PackagePlan(documents=documents, files=remaining | dict(adds), commit=commit)


def new_package(plan: PackagePlan) -> PackageChange:
    """Return the plan as a new package; a link to a file becomes that file."""
    directories: dict[str, dict[str, Path]] = {}
    alone: dict[str, ComposedFile] = {}
    for path, source in plan.files.items():
        folder, separator, rest = path.partition("/")
        if separator:
            directories.setdefault(folder, {})[rest] = _real_file(source)
        else:
            alone[path] = ComposedFile.copy_of(_real_file(source))
    documents = tuple(
        DocumentChange(path=path, after=content) for path, content in plan.documents.items()
    )
    return PackageChange(documents=documents, new_directories=directories, new_files=alone)


def change_of(root: Path, plan: PackagePlan) -> PackageChange | None:
    """Return the change that makes the package at ``root`` equal to the plan; None for none.

    Raises:
        AuthoringError: a file would replace another one: no live file is overwritten.
    """
    present = set(list_files(root))
    stays = {path for path, source in plan.files.items() if source == root / path}
    new = {path: source for path, source in plan.files.items() if path not in stays}
    if occupied := sorted(
        present & (new.keys() | plan.documents.keys() - _replaceable(root, plan)) - stays
    ):
        raise AuthoringError(
            f"{_listed(occupied)} would be replaced by another file: make a new package instead"
        )
    documents = tuple(
        DocumentChange(path=path, before=before, after=content)
        for path, content in plan.documents.items()
        if (before := _content(root / path)) != content
    )
    removes = _topmost(
        present - stays - plan.documents.keys(), stays | new.keys() | plan.documents.keys()
    )
    if not documents:
        if removes or new:
            raise AuthoringError(
                "no document would change, so nothing could decide whether the change has happened"
            )
        return None
    files = {path: ComposedFile.copy_of(_real_file(source)) for path, source in new.items()}
    return PackageChange(
        documents=documents,
        new_directories={},
        new_files=files,
        removes=removes,
        commit=plan.commit,
    )


def _replaceable(root: Path, plan: PackagePlan) -> set[str]:
    """Return the documents that may be replaced; a link may not."""
    return {path for path in plan.documents if not (root / path).is_symlink()}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _topmost(files: Iterable[str], staying: Iterable[str]) -> tuple[str, ...]:
    """Return ``files``, or the highest folders that hold nothing else."""
    needed = {str(folder) for path in staying for folder in PurePosixPath(path).parents}
    paths: dict[str, None] = {}
    for path in sorted(files):
        folders = [
            str(folder) for folder in reversed(PurePosixPath(path).parents) if str(folder) != "."
        ]
        paths[next((folder for folder in folders if folder not in needed), path)] = None
    return tuple(paths)


def _real_file(path: Path) -> Path:
    real = path.resolve() if path.is_symlink() else path
    if not real.is_file():
        raise AuthoringError(
            f"{quoted(path)} is a link to a folder, or to nothing: a copy holds plain files only"
        )
    return real


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(quoted, names[:5])) + more
