"""Turns every path that a package names into a real path inside the package, or refuses it.

Two checks, in this order. The text: relative, ``/`` between plain names, and names that every
supported operating system can hold, because a package is written on one machine and opened on
another. The disk: symbolic links (and Windows' other reparse points) are followed, and what they
lead to must lie inside the package's real root.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ortpkg.errors import Finding, PackageError, PathEscapesPackageError, quoted
from ortpkg.package.findings import finding
from ortpkg.package.rules import PATH_EMPTY, PATH_ESCAPES, PATH_NOT_PORTABLE

_LEADS_OUT = "leads out of the package through a symbolic link"
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
# Names, and paths of names, that need no closer look: the others may be fine too.
_PLAIN = (
    r"(?!(?:con|prn|aux|nul|conin|conout|com|lpt)(?![a-z_-]))"
    r"[A-Za-z0-9_-]{1,100}(?:\.[A-Za-z0-9_-]{1,40}){0,3}"
)
_PLAIN_NAME = re.compile(_PLAIN, re.IGNORECASE | re.ASCII)
_PLAIN_REFERENCE = re.compile(rf"{_PLAIN}(?:/{_PLAIN}){{0,9}}", re.IGNORECASE | re.ASCII)


_PLAIN_NAMES = re.compile(rf"(?:{_PLAIN}/)*+", re.IGNORECASE | re.ASCII)


class PathKind(StrEnum):
    """What is at a path."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path inside the package, with symbolic links followed, and what is there."""

    path: Path
    kind: PathKind


def why_not_a_path(reference: str) -> str | None:
    """Why ``reference`` may not be used as a path at all, also where it may lead anywhere; None if
    it may.
    """
    if len(reference) > _MOST_REFERENCE_CHARACTERS:
        return f"is longer than {_MOST_REFERENCE_CHARACTERS} characters"
    return "holds control characters" if _CONTROL.search(reference) else None


def why_not_portable(reference: str) -> str | None:
    """Why ``reference`` may not be used as a path in a package; None if it may.

    Looks at the text only.
    """
    if _PLAIN_REFERENCE.fullmatch(reference):
        return None
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
    """Why ``name`` may not name a file or folder of a package (component, variant, ...); None if it
    may.
    """
    if _PLAIN_NAME.fullmatch(name):
        return None
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


def are_plain_names(names: Iterable[str]) -> bool:
    """Whether all of ``names`` are such as :func:`is_plain_name` says, at one glance."""
    return _PLAIN_NAMES.fullmatch("".join([f"{name}/" for name in names])) is not None


def is_plain_name(name: str) -> bool:
    """Whether :func:`why_not_a_name` has surely nothing to say of ``name``, at a glance."""
    return _PLAIN_NAME.fullmatch(name) is not None


class PathResolver:
    """Resolves references against one package root.

    What is found on the way is remembered, so that a package with many variants costs a few system
    calls each: use a new resolver for each time that a package is opened.

    Attributes:
        root, real_root: the real path of the package root, as a path and as text.
    """

    __slots__ = ("_known", "real_root", "root")

    def __init__(self, root: Path | str) -> None:
        self.real_root = _followed_or_as_it_is(root)
        self.root = Path(self.real_root)
        self._known: dict[str, tuple[str, PathKind]] = {"": (self.real_root, PathKind.DIRECTORY)}

    def resolve(self, reference: str, *, base: str = "") -> ResolvedPath:
        """The same as :meth:`locate`, as a value."""
        path, kind = self.locate(reference, base=base)
        return ResolvedPath(Path(path), kind)

    def locate(self, reference: str, *, base: str = "") -> tuple[str, PathKind]:
        """The real path of ``reference``, which is relative to ``base``; it need not exist.

        Args:
            reference: as the package has it.
            base: a directory relative to the root, with ``/``; "" is the root. It is trusted to be
                portable.

        Raises:
            PathEscapesPackageError: the text is not portable, or a symbolic link leads out of the
                package.
        """
        if reason := why_not_portable(reference):
            raise PathEscapesPackageError(
                f"path {quoted(reference)} {reason}: use a relative path with '/' inside the"
                " package",
                reference=reference,
                path=self.root,
            )
        joined = f"{base}/{reference}" if base else reference
        place = ""
        found, kind = self._known[place]
        for name in joined.split("/"):
            if name in ("", "."):
                continue
            place = f"{place}/{name}"
            known = self._known.get(place)
            if known is None:
                known = self._known[place] = self._look_up(found, name, reference)
            found, kind = known
        return found, kind

    def _look_up(self, parent: str, name: str, reference: str) -> tuple[str, PathKind]:
        """Follows one name below ``parent``, which is real and inside the package."""
        path = os.path.join(parent, name)  # noqa: PTH118  # strings: this is on the way to every session
        try:
            status = os.lstat(path)
            if is_link(status):
                path = follow_links(path)
                self._require_inside(path, reference)
                status = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError):  # missing, not permitted, below a file, or a loop of links
            return path, PathKind.MISSING
        return path, kind_of(status)

    def _require_inside(self, path: str, reference: str) -> None:
        if is_inside(path, self.real_root):
            return
        raise PathEscapesPackageError(
            f"path {quoted(reference)} {_LEADS_OUT}: put the file into the package",
            reference=reference,
            path=self.root,
        )


def escape_finding(error: PathEscapesPackageError, document: str, *, pointer: str = "") -> Finding:
    """The finding that says what ``error`` says, where ``document`` names the path."""
    reason = why_not_portable(error.reference)
    rule = PATH_ESCAPES if reason is None else PATH_NOT_PORTABLE if error.reference else PATH_EMPTY
    message = f"path {quoted(error.reference)} {reason or _LEADS_OUT}"
    return finding(rule, document, message, pointer=pointer)


def list_names(directory: Path, kind: PathKind) -> list[str]:
    """Names of the files or folders directly in ``directory``, sorted; links count as what they
    lead to.

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
    """Whether ``path`` is ``directory`` or lies below it; both are absolute, with links
    followed.
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
