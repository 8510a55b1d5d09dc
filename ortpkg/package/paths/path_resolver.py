"""Turns every path that a package names into a real path inside the package, or refuses it.

The one place where this is decided, by two checks in this order. The text: relative, ``/`` between
names, and names that every supported operating system can hold, because a package is written on one
machine and opened on another. The disk: symbolic links (and Windows' other reparse points) are
followed, and what they lead to must lie inside the package's real root.

For a release of onnxruntime a path is judged as ``ResolvePath`` of that release does: relative,
without a segment ``..``, and what it leads to, all links followed, inside the package; a path that
does not exist is judged by the part of it that does. Where paths out of the package are allowed, it
may be anything.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from ortpkg.documents.document_rules import Rule
from ortpkg.documents.findings import finding
from ortpkg.errors import Finding, PackageError, PathEscapesPackageError, quoted
from ortpkg.package.rules import PATH_EMPTY, PATH_ESCAPES, PATH_NOT_PORTABLE

_IS_WINDOWS = os.name == "nt"
_MOST_NAME_NBYTES = 255  # of one name, on every common file system
_MOST_REFERENCE_CHARACTERS = 4096  # Linux's PATH_MAX
_DRIVE = re.compile(r"[A-Za-z]:")
# C0, DEL, C1 (terminals obey some of these), and what reorders text, so that a name shows as
# another one.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]')
# "Naming Files, Paths, and Namespaces" of the Windows documentation; the extension does not matter
# there.
_RESERVED_ON_WINDOWS = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)", re.IGNORECASE
)


class PathKind(StrEnum):
    """What is at a path."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"
    MISSING = "missing"


class Place(NamedTuple):
    """An absolute path, with symbolic links followed, and what is there.

    Text, as there are many of them.
    """

    path: str
    kind: PathKind


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """The same as :class:`Place`, with a path that is one."""

    path: Path
    kind: PathKind


class Absences(Protocol):
    """What a package has and this copy of it lacks (``package/integrity/absent_files.py``)."""

    def kind_at(self, path: str) -> PathKind:
        """What would be at ``path``, absolute with links followed; MISSING for nothing."""

    def files_beside(self, here: Collection[str], directory: str) -> list[str]:
        """Names of absent files directly in ``directory``, which holds the files ``here``."""


class PathRefusedError(PathEscapesPackageError):
    """A path that a package names may not be used; says which rule it breaks, and why."""

    def __init__(self, rule: Rule, reason: str, remedy: str, *, reference: str, root: Path) -> None:
        message = f"path {quoted(reference)} {reason}: {remedy}"
        super().__init__(message, reference=reference, path=root)
        self.rule = rule
        self.reason = reason

    def finding(self, document: str, *, pointer: str = "") -> Finding:
        """The finding that says the same where ``document`` names the path."""
        message = f"path {quoted(self.reference)} {self.reason}"
        return finding(self.rule, document, message, pointer=pointer)


def why_not_a_path(reference: str) -> str | None:
    """Why ``reference`` may not be used as a path at all, also where it may lead anywhere.

    None if it may.
    """
    if len(reference) > _MOST_REFERENCE_CHARACTERS:
        return f"is longer than {_MOST_REFERENCE_CHARACTERS} characters"
    return "holds control characters" if _CONTROL.search(reference) else None


def why_not_portable(reference: str) -> str | None:
    """Why ``reference`` may not be used as a path in a package; None if it may.

    Looks at the text only.
    """
    if not reference:
        return "is empty"
    if reason := why_not_a_path(reference):
        return reason
    if reference.startswith(("/", "\\")):
        return "is absolute"
    if _DRIVE.match(reference):
        return "names a drive"
    if "\\" in reference:
        return "holds a backslash, which separates names on Windows only"
    for name in reference.split("/"):
        if name not in ("", ".") and (reason := why_not_a_name(name)):
            return reason
    return None


def why_not_a_name(name: str) -> str | None:
    """Why ``name`` may not name a file or folder of a package (component, variant, ...).

    None if it may.
    """
    if not name:
        return "is empty"
    if _CONTROL.search(name):
        return "holds control characters"
    if name in (".", ".."):
        return "leads out of its folder" if name == ".." else "is a folder's name for itself"
    if "/" in name or "\\" in name:
        return "holds a path separator"
    if found := _NOT_ON_WINDOWS.search(name):
        return f"holds {found.group()!r}, which Windows does not allow in names"
    if name[-1] in ". ":
        return "ends with a dot or a space, which Windows drops"
    if _RESERVED_ON_WINDOWS.match(name):
        return "is a device's name on Windows"
    try:
        nbytes = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not well-formed Unicode"
    return (
        f"has a name of more than {_MOST_NAME_NBYTES} bytes" if nbytes > _MOST_NAME_NBYTES else None
    )


class PathResolver:
    """Resolves references in one package.

    What is found on the way is looked at once and remembered: use a new resolver for each time that
    a package is opened.

    Args:
        root: of the package.
        portable_names: by the strict rules; otherwise as a release of onnxruntime does.
        is_confined: paths must stay in the package.
        absences: what counts as being there although it is not; nothing, where left out.

    Attributes:
        root, real_root: the real path of the package root, as a path and as text.
    """

    __slots__ = (
        "_absences",
        "_accepted",
        "_is_confined",
        "_portable_names",
        "_seen",
        "real_root",
        "root",
    )

    def __init__(
        self,
        root: Path | str,
        *,
        portable_names: bool = True,
        is_confined: bool = True,
        absences: Absences | None = None,
    ) -> None:
        self.real_root = _followed_or_as_it_is(root)
        self.root = Path(self.real_root)
        self._portable_names = portable_names
        self._is_confined = is_confined
        self._absences = absences
        self._seen: dict[str, Place] = {}
        self._accepted: set[str] = set()  # nearly all variants name the same file

    def resolve(self, reference: str, *, base: str = "") -> ResolvedPath:
        """The same as :meth:`locate`, as a value."""
        path, kind = self.locate(reference, base=base)
        return ResolvedPath(Path(path), kind)

    def locate(self, reference: str, *, base: str = "") -> Place:
        """The place of ``reference``, which is relative to ``base``; it need not exist.

        Args:
            reference: as the package has it.
            base: a directory relative to the root, with ``/``; "" is the root. It is trusted to be
                portable.

        Raises:
            PathRefusedError: the path may not be used.
        """
        self._check_text(reference, is_confined=True)
        whole = f"{base}/{reference}" if base else reference
        return self._walk(self.real_root, whole.split("/"), self.real_root, reference)

    def locate_in(self, folder: str, reference: str, *, within: str | None = None) -> Place:
        """The place of ``reference``, which is relative to ``folder``; it need not exist.

        Unlike to :meth:`locate`, a file's name with ``/`` at its end is nothing.

        Args:
            folder: an absolute path with links followed.
            reference: as the package has it.
            within: a folder, with links followed, that the path must stay in, even if paths may
                leave the package.

        Raises:
            PathRefusedError: the path may not be used.
        """
        fence = within if within is not None else self.real_root if self._is_confined else None
        self._check_text(reference, is_confined=fence is not None)
        if not self._portable_names:
            return self._locate_as_a_release(folder, reference, within, fence)
        if fence is None:
            return self._follow(os.path.join(folder, reference), None, reference)  # noqa: PTH118
        names = reference.split("/")
        place = self._walk(folder, names, fence, reference)
        if place.kind is not PathKind.DIRECTORY and names[-1] in ("", "."):
            return Place(place.path, PathKind.MISSING)
        return place

    def _check_text(self, reference: str, *, is_confined: bool) -> None:
        """PathRefusedError for a text that is no path, or (``is_confined``) may lead outside."""
        if is_confined and reference in self._accepted:
            return
        if self._portable_names:
            reason = why_not_portable(reference) if is_confined else why_not_a_path(reference)
        elif not is_confined:
            reason = None
        else:
            separated = _separated(reference)
            is_absolute = separated.startswith("/") or os.path.splitdrive(reference)[0]
            leaves = "leads out of its folder" if ".." in separated.split("/") else None
            reason = "is absolute" if is_absolute else leaves
        if not reference:
            reason = "is empty"
        if reason is not None:
            rule = PATH_NOT_PORTABLE if reference else PATH_EMPTY
            remedy = "use a relative path with '/' inside the package"
            raise PathRefusedError(rule, reason, remedy, reference=reference, root=self.root)
        if is_confined:
            self._accepted.add(reference)

    def _walk(self, folder: str, names: list[str], fence: str, reference: str) -> Place:
        """Follows ``names`` below ``folder``; no link on the way may lead out of ``fence``."""
        place = None
        for name in names:
            if name in ("", "."):
                continue
            path = f"{folder}{os.sep}{name}"
            place = self._look_at(path)
            folder = place.path
            if folder != path:
                self._require_inside(folder, fence, reference)
        return self._look_at(folder) if place is None else place

    def _look_at(self, path: str) -> Place:
        """What is at ``path``, whose parent has no links; a link is followed wherever it leads."""
        seen = self._seen.get(path)
        if seen is None:
            seen = _look_at(path)
            if seen.kind is PathKind.MISSING and self._absences is not None:
                seen = Place(seen.path, self._absences.kind_at(seen.path))
            self._seen[path] = seen
        return seen

    def kind_at(self, path: str) -> PathKind:
        """What is at ``path``, absolute, links followed, or would be if nothing were absent."""
        kind = kind_at(path)
        if kind is PathKind.MISSING and self._absences is not None:
            return self._absences.kind_at(path)
        return kind

    def is_absent(self, path: str) -> bool:
        """Whether nothing is at ``path``, absolute with links followed, and something is absent."""
        if self._absences is None or kind_at(path) is not PathKind.MISSING:
            return False
        return self._absences.kind_at(path) is not PathKind.MISSING

    def files_in(self, directory: str) -> list[str]:
        """Names of the files directly in ``directory``, sorted, with those that are absent."""
        if self._absences is None:
            return list_names(Path(directory), PathKind.FILE)
        is_here = kind_at(directory) is PathKind.DIRECTORY
        names = list_names(Path(directory), PathKind.FILE) if is_here else []
        return sorted({*names, *self._absences.files_beside(names, directory)})

    def _locate_as_a_release(
        self, folder: str, reference: str, within: str | None, fence: str | None
    ) -> Place:
        if within is not None and within.endswith(os.sep):
            # The release compares texts, and "<folder>//" is the beginning of none.
            reason = "leads out of the shared asset, whose folder ends with a slash"
            raise self._leads_out(reason, reference)
        # A file system sees the text up to a NUL.
        path = os.path.join(folder, _separated(reference).partition("\0")[0])  # noqa: PTH118
        try:
            os.stat(path)  # noqa: PTH116
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                # Too long, not permitted or a loop of links: no link on the way is followed then.
                path = os.path.normpath(path)
                self._require_inside(path, fence, reference)
                return Place(path, PathKind.MISSING)
        if not os.path.exists(folder):  # noqa: PTH110 - a link to nowhere: nothing can be followed
            return Place(os.path.normpath(path), PathKind.MISSING)
        return self._follow(path, fence, reference)

    def _follow(self, path: str, fence: str | None, reference: str) -> Place:
        try:
            real = follow_links(path) if self._portable_names else _real_as_far_as_it_exists(path)
        except OSError:  # more links in a row than the system follows
            return Place(path, PathKind.MISSING)
        self._require_inside(real, fence, reference)
        return Place(real, kind_at(path))

    def _require_inside(self, real: str, fence: str | None, reference: str) -> None:
        if fence is not None and not is_inside(real, fence):
            whole = "the package" if fence == self.real_root else "the shared asset"
            raise self._leads_out(f"leads out of {whole} through a symbolic link", reference)

    def _leads_out(self, reason: str, reference: str) -> PathRefusedError:
        remedy = "put the file into the package"
        return PathRefusedError(PATH_ESCAPES, reason, remedy, reference=reference, root=self.root)


def _separated(reference: str) -> str:
    return reference.replace("\\", "/") if _IS_WINDOWS else reference


def _look_at(path: str) -> Place:
    """What is at ``path``; of a link, what it leads to, and then the place's path is another."""
    try:
        status = os.lstat(path)
        if is_link(status):
            path = follow_links(path)
            status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):  # missing, not permitted, below a file, or a loop of links
        return Place(path, PathKind.MISSING)
    return Place(path, kind_of(status))


def kind_at(path: str) -> PathKind:
    """What is at ``path``, links followed."""
    try:
        return kind_of(os.stat(path))  # noqa: PTH116
    except (OSError, ValueError):
        return PathKind.MISSING


def list_names(directory: Path, kind: PathKind) -> list[str]:
    """Names of the files or folders directly in ``directory``, sorted.

    Links count as what they lead to.

    Raises:
        PackageError: the directory cannot be read.
    """
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if _is_of_kind(entry, kind))
    except OSError as error:
        raise PackageError(
            f"folder {quoted(directory.name)} cannot be read: {error.strerror}", path=directory
        ) from error


def _is_of_kind(entry: os.DirEntry[str], kind: PathKind) -> bool:
    try:
        return entry.is_dir() if kind is PathKind.DIRECTORY else entry.is_file()
    except OSError:  # a loop of links
        return False


def follow_links(path: str) -> str:
    """``path`` with symbolic links followed, as far as it exists.

    OSError for more links in a row than the system follows, loops among them: they have no real
    path, and ``os.path.realpath``, which calls itself for each link, may fail by their number.
    """
    try:
        os.stat(path)  # noqa: PTH116  # strings, as everywhere here
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return os.path.realpath(path)


def _followed_or_as_it_is(path: Path | str) -> str:
    try:
        return follow_links(os.fspath(path))
    except OSError:  # whoever opens it says so
        return os.path.abspath(path)  # noqa: PTH100  # as above


def is_inside(path: str, directory: str) -> bool:
    """Whether ``path`` is ``directory`` or lies below it.

    Both are absolute, with links followed.
    """
    try:
        directory = os.path.normcase(directory)
        return os.path.commonpath((os.path.normcase(path), directory)) == directory
    except ValueError:  # another drive
        return False


def kind_of(status: os.stat_result) -> PathKind:
    """What the status of something that exists says it is."""
    if stat.S_ISDIR(status.st_mode):
        return PathKind.DIRECTORY
    return PathKind.FILE if stat.S_ISREG(status.st_mode) else PathKind.OTHER


def is_link(status: os.stat_result) -> bool:
    """Whether ``os.lstat`` gave the status of a link to somewhere else."""
    # Windows' junctions are not symbolic links to lstat, but lead elsewhere just so; they carry
    # this attribute.
    attributes = getattr(status, "st_file_attributes", 0)
    return stat.S_ISLNK(status.st_mode) or bool(attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT)


def _real_as_far_as_it_exists(path: str) -> str:
    """``path`` with links followed as far as it exists (``std::filesystem::weakly_canonical``).

    A link that leads nowhere does not exist.
    """
    missing: list[str] = []
    while not os.path.exists(path):  # noqa: PTH110
        parent, name = os.path.split(path)
        if parent in ("", path):
            break
        missing.append(name)
        path = parent
    return os.path.normpath(os.path.join(os.path.realpath(path), *reversed(missing)))  # noqa: PTH118
