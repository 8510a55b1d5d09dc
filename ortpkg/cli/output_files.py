"""Files that a command writes besides its output: suffixes, ``--overwrite``, and writing them."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import no_directory
from ortpkg.foundations.storage.output_writing import write_output
from ortpkg.package.package_info import PackageInfo

_MOST_LOOKED_AT = 1 << 16

OverwriteFileOption = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace the file where it is there already and such a command wrote it.",
    ),
]


class OutputKind(Enum):
    """Kind of file that a command writes: its description and suffix."""

    ARRAYS = ("an npz file", ".npz")
    PICTURE = ("an SVG picture", ".svg")
    PROFILE = ("a machine profile", ".json")
    PAGE = ("a page", ".html")

    @property
    def text(self) -> str:
        """Description, such as "an npz file"."""
        return self.value[0]

    @property
    def ending(self) -> str:
        """Suffix, such as ".npz"."""
        return self.value[1]


#: Text near the start of a file of each kind; an archive is opened instead.
_MARKS = {
    OutputKind.PICTURE: b"<svg",
    OutputKind.PROFILE: b'"machine_profile"',
    OutputKind.PAGE: b'<meta name="generator" content="ortpkg',
}


def verify_output(path: Path, flag: str, kind: OutputKind, *, overwrite: bool) -> None:
    """Check that a file may be written, before the work is done.

    Devices such as /dev/null are always allowed.

    Raises:
        UsageError: The file has another suffix, its folder does not exist or cannot be written, the
            file exists and ``overwrite`` is False, or it is not an output of this kind, which is
            never replaced.
    """
    try:
        is_there, is_device = (
            path.exists() or path.is_symlink(),
            path.is_char_device() or path.is_fifo(),
        )
    except OSError:
        return  # writing reports the reason
    if is_device:
        return
    if path.suffix.lower() != kind.ending:
        raise UsageError(
            f"{flag} {quoted(path)}: it would be {kind.text}, whose name ends with {kind.ending}"
        )
    _verify_folder(path, flag)
    if not is_there:
        return
    if not overwrite:
        raise UsageError(
            f"{flag} {quoted(path)} exists already; --overwrite replaces it, or name another file"
        )
    if not _is_of(path, kind):
        raise UsageError(
            f"{flag} {quoted(path)} exists already and is not {kind.text}: name another file, or"
            " delete it first"
        )


def _verify_folder(path: Path, flag: str) -> None:
    """Raise UsageError if no file can be made in the folder of ``path``."""
    if not path.parent.is_dir():
        raise UsageError(f"{flag} {quoted(path)}: {no_directory(path.parent)}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"{flag} {quoted(path)}: the directory {quoted(path.parent)} cannot be written"
        )


def write_text(path: Path, flag: str, text: str) -> None:
    """Write a picture or a page, completely or not at all.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        write_output(path, lambda file: file.write(text.encode()))
    except OSError as error:
        raise UsageError(
            f"{flag} {quoted(path)} cannot be written: {error.strerror or error}"
        ) from error


def verify_reads_no(path: Path, flag: str, read: Iterable[Path]) -> None:
    """Raise UsageError if ``path`` is one of the files that the command reads."""
    try:
        is_read = path.exists() and any(file.exists() and path.samefile(file) for file in read)
    except OSError:
        return  # reading reports the reason
    if is_read:
        raise UsageError(
            f"{flag} {quoted(path)} would replace what the command reads: name another file"
        )


def verify_outside(path: Path, flag: str, package: PackageInfo) -> None:
    """Raise UsageError if ``path`` is a file in the package, which does not record it."""
    if not package.is_bare_model and path.resolve().is_relative_to(package.root.resolve()):
        raise UsageError(
            f"{flag} {quoted(path)} would lie in the package, and ortpkg verify would not know it:"
            " name a file outside"
        )


def _is_of(path: Path, kind: OutputKind) -> bool:
    if not path.is_file():
        return not path.exists()  # a link to nothing
    if path.stat().st_size == 0:
        return True
    if kind is OutputKind.ARRAYS:
        return _is_npz(path)
    with path.open("rb") as file:
        start = file.read(_MOST_LOOKED_AT)
    return _MARKS[kind] in start


def _is_npz(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return all(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False
