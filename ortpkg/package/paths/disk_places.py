"""Look at paths on the disk: their kind, where links lead, which names a folder holds."""

from __future__ import annotations

import errno
import os
import stat
from enum import StrEnum
from pathlib import Path

from ortpkg.foundations.errors import PackageError, quoted


class PathKind(StrEnum):
    """Kind of file at a path."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"
    MISSING = "missing"


_IS_WINDOWS = os.name == "nt"
_KINDS = {stat.S_IFDIR: PathKind.DIRECTORY, stat.S_IFREG: PathKind.FILE}


def kind_at(path: str) -> PathKind:
    """Return the kind of file at ``path``, links followed."""
    try:
        return kind_of(os.stat(path))  # noqa: PTH116
    except (OSError, ValueError):
        return PathKind.MISSING


def list_names(directory: Path, kind: PathKind) -> list[str]:
    """Return the names of the files or folders directly in ``directory``, sorted.

    A link counts as what it leads to.

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
    """Return ``path`` with symbolic links followed, as far as it exists.

    Raises:
        OSError: there are more links in a row than the system follows, or a loop of links. Such a
            path has no real path, and ``os.path.realpath``, which calls itself for each link, may
            fail by their number.
    """
    try:
        os.stat(path)  # noqa: PTH116  # strings, as everywhere here
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return os.path.realpath(path)


def followed_or_as_it_is(path: Path | str) -> str:
    """Return :func:`follow_links` of ``path``; if that fails, ``path`` itself, made absolute."""
    try:
        return follow_links(os.fspath(path))
    except OSError:  # opening it will report the error
        return os.path.abspath(path)  # noqa: PTH100  # as above


def is_inside(path: str, directory: str) -> bool:
    """Return True if ``path`` is ``directory`` or lies below it.

    Both are absolute, with links followed.
    """
    try:
        directory = os.path.normcase(directory)
        return os.path.commonpath((os.path.normcase(path), directory)) == directory
    except ValueError:  # another drive
        return False


def kind_of(status: os.stat_result) -> PathKind:
    """Return the kind of file (regular, directory or other) from a stat result."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), PathKind.OTHER)


def is_link(status: os.stat_result) -> bool:
    """Return True if a result of ``os.lstat`` is that of a link to somewhere else."""
    # Windows' junctions are not symbolic links to lstat, but lead elsewhere as well; they have
    # this attribute.
    attributes = getattr(status, "st_file_attributes", 0) if _IS_WINDOWS else 0
    return stat.S_ISLNK(status.st_mode) or bool(attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT)


def real_as_far_as_it_exists(path: str) -> str:
    """Return ``path`` with links followed as far as it exists.

    The rule is that of ``std::filesystem::weakly_canonical``: a link that leads nowhere does not
    exist.
    """
    missing: list[str] = []
    while not os.path.exists(path):  # noqa: PTH110
        parent, name = os.path.split(path)
        if parent in ("", path):
            break
        missing.append(name)
        path = parent
    return os.path.normpath(os.path.join(os.path.realpath(path), *reversed(missing)))  # noqa: PTH118
