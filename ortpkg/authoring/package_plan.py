"""A whole package as it is to be: which documents, and which file comes from where.

Commands that rewrite packages (convert, merge, slim) make such a plan; it is carried out either as
a new package, or as one change of the package itself, in which what is the same stays untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ortpkg.authoring.new_variant import Notify
from ortpkg.documents.frozen import EMPTY
from ortpkg.errors import AuthoringError, DigestMismatchError, quoted
from ortpkg.package.changes.transaction import DocumentChange, PackageChange
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digest_check import DifferenceKind, is_within, list_files
from ortpkg.package.integrity.digests import read_entries
from ortpkg.package.integrity.transferable_files import check_whole
from ortpkg.package.integrity.verification import check_own_record, differences_of
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.sidecar import DIGESTS_FILE
from ortpkg.storage.composed_file import ComposedFile
from ortpkg.storage.hashing import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePlan:
    """What a package is to hold; paths are relative to its root, with ``/``.

    Attributes:
        documents: path → content, in an order in which they may replace those that are there.
        files: path → the file, in this package or in another one, that has its content.
        commit: the document whose appearance decides, where it matters; see ``PackageChange``.
    """

    documents: Mapping[str, bytes]
    files: Mapping[str, Path]
    commit: str | None = None


def check_intact(root: Path, *, notify: Notify, progress: Progress | None) -> None:
    """Re-hashes all of a package that is to be copied.

    DigestMismatchError for the first damaged file, naming others.

    A package without digests.json cannot be checked, and files that nobody recorded neither: both
    are said.
    """
    recorded = read_entries(root)
    if recorded is None:
        notify(f"{root.name} has no {DIGESTS_FILE}: damage to it would go unnoticed")
        return
    check_record(root)
    check_whole(root, recorded)
    found = differences_of(root, progress=progress)
    extra = [each.file for each in found if each.kind is DifferenceKind.EXTRA]
    if extra:
        notify(
            f"{quoted(root.name)} holds files that {DIGESTS_FILE} does not record: {_listed(extra)}"
        )
    damaged = [each for each in found if each.kind is not DifferenceKind.EXTRA]
    if damaged:
        first = damaged[0]
        message = (
            f"{quoted(root)} is damaged, and nothing was copied:"
            f" {_listed([each.file for each in damaged])}"
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
    """DigestMismatchError where digests.json itself is damaged and so proves nothing."""
    if found := check_own_record(root):
        remedy = (
            f"repair it with ortpkg verify --repair-from, or delete {DIGESTS_FILE} to accept it as"
            " it is"
        )
        raise DigestMismatchError(
            f"{DIGESTS_FILE} of {quoted(root)} is damaged, and nothing was changed:"
            f" {found.message}; {remedy}",
            file=found.file,
            expected=found.expected,
            actual=found.actual,
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
    """A plan of the package with ``adds`` (path → file to copy), ``changes``, without ``removes``.

    AuthoringError for a component model on its own, which has no manifest.
    """
    if not (package.root / MANIFEST).is_file():
        message = f"{quoted(package.root)} is a component model on its own, without {MANIFEST}"
        raise AuthoringError(f"{message}: make a package of it first, with ortpkg convert")
    changed = {change.path: change.after for change in changes}
    documents = {} if MANIFEST in changed else {MANIFEST: (package.root / MANIFEST).read_bytes()}
    documents |= changed
    gone = frozenset(removes)
    stays = {
        path: package.root / path
        for path in list_files(package.root)
        if path not in documents and not is_within(path, gone)
    }
    return PackagePlan(documents=documents, files=stays | dict(adds), commit=commit)


def new_package(plan: PackagePlan) -> PackageChange:
    """The plan as a package that does not exist yet; a link to a file becomes that file."""
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
    """The change that makes the package at ``root`` what ``plan`` says.

    None where it is that already.

    AuthoringError where a file would take the place of another one: no live file is overwritten.
    """
    present = set(list_files(root))
    stays = {path for path, source in plan.files.items() if source == root / path}
    new = {path: source for path, source in plan.files.items() if path not in stays}
    if taken := sorted(
        present & (new.keys() | plan.documents.keys() - _replaceable(root, plan)) - stays
    ):
        raise AuthoringError(
            f"{_listed(taken)} would be replaced by another file: make a new package instead"
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
    """Documents may replace documents; a link is none."""
    return {path for path in plan.documents if not (root / path).is_symlink()}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _topmost(files: Iterable[str], staying: Iterable[str]) -> tuple[str, ...]:
    """``files``, or the highest folders that hold nothing else."""
    needed = {str(folder) for path in staying for folder in PurePosixPath(path).parents}
    found: dict[str, None] = {}
    for path in sorted(files):
        folders = [
            str(folder) for folder in reversed(PurePosixPath(path).parents) if str(folder) != "."
        ]
        found[next((folder for folder in folders if folder not in needed), path)] = None
    return tuple(found)


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
