"""What is on the disk at a path: its kind, where links lead, what a folder holds."""

from __future__ import annotations

import errno
import os
import stat
from enum import StrEnum
from pathlib import Path

from ortpkg.errors import PackageError, quoted


class PathKind(StrEnum):
    """What is at a path."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"
    MISSING = "missing"


_IS_WINDOWS = os.name == "nt"
_KINDS = {stat.S_IFDIR: PathKind.DIRECTORY, stat.S_IFREG: PathKind.FILE}


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


def followed_or_as_it_is(path: Path | str) -> str:
    """As :func:`follow_links`, but ``path`` itself, made absolute, where that is not possible."""
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
    return _KINDS.get(stat.S_IFMT(status.st_mode), PathKind.OTHER)


def is_link(status: os.stat_result) -> bool:
    """Whether ``os.lstat`` gave the status of a link to somewhere else."""
    # Windows' junctions are not symbolic links to lstat, but lead elsewhere just so; they carry
    # this attribute.
    attributes = getattr(status, "st_file_attributes", 0) if _IS_WINDOWS else 0
    return stat.S_ISLNK(status.st_mode) or bool(attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT)


def real_as_far_as_it_exists(path: str) -> str:
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
