"""Input files of a batch: their order and format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean_path


class RowFormat(Enum):
    """File format of rows: its name, and the suffixes of its files."""

    PARQUET = ("parquet", (".parquet", ".pq"))
    CSV = ("csv", (".csv",))
    JSON_LINES = ("jsonl", (".jsonl", ".ndjson"))
    NPY = ("npy", (".npy",))
    IMAGES = ("images", (".png", ".jpg", ".jpeg"))

    @property
    def word(self) -> str:
        """Name of the format in options: "jsonl"."""
        return str(self.value[0])

    @property
    def endings(self) -> tuple[str, ...]:
        """Suffixes of files of the format: (".jsonl", ".ndjson")."""
        return tuple(self.value[1])


#: Format by suffix.
_FORMATS = {ending: format_ for format_ in RowFormat for ending in format_.endings}
FORMAT_OF_WORD = {format_.word: format_ for format_ in RowFormat}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """Input files of a batch, all of one format, in the order in which rows are numbered."""

    format: RowFormat
    files: tuple[Path, ...]


def find_input(paths: Sequence[Path]) -> InputFiles:
    """Return the input files: ``paths`` themselves, or files in and below folders, sorted by name.

    In folders, names that begin with "." or "_" are skipped, as other programs do.

    Raises:
        UsageError: There are no files, several or unknown formats, or a file is named twice.
    """
    files = [Path(os.path.abspath(file)) for path in paths for file in _files_of(path)]  # noqa: PTH100 - links stay
    if not files:
        named = ", ".join(quoted(path) for path in paths)
        raise UsageError(f"{named}: there is no file to read; {_what_is_read()}")
    if len(set(files)) < len(files):
        twice = next(file for index, file in enumerate(files) if file in files[:index])
        raise UsageError(f"{quoted(twice)} is given twice: its rows would be, too")
    formats = {_FORMATS[file.suffix.lower()]: file for file in reversed(files)}
    if len(formats) > 1:
        first, second, *_ = formats.values()
        raise UsageError(
            f"rows come from files of one format, not from {quoted(first)} and {quoted(second)}"
        )
    return InputFiles(format=next(iter(formats)), files=tuple(files))


def _files_of(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        if not path.is_file():
            is_there = path.exists()
            problem = (
                "is no file or folder" if is_there else f"does not exist{did_you_mean_path(path)}"
            )
            hint = _unnamed(path)
            raise UsageError(f"cannot read {quoted(path)}: it {problem}{hint}")
        if path.suffix.lower() not in _FORMATS:
            raise UsageError(f"cannot read {quoted(path)}: {_what_is_read()}")
        return [path]
    return sorted(_files_below(path))


def _unnamed(path: Path) -> str:
    """Return a hint for NAME=FILE, which other commands take; "" where FILE is not there."""
    _, separator, file = str(path).partition("=")
    if not separator or not os.path.exists(file):  # noqa: PTH110  # a text that may be no path
        return ""
    return f"; a batch takes the file alone, as {quoted(file)}: its columns name the inputs"


def _files_below(folder: Path) -> Iterable[Path]:
    for where, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if not name.startswith((".", "_")) and Path(name).suffix.lower() in _FORMATS:
                yield Path(where, name)


def _raise(error: OSError) -> None:
    raise UsageError(
        f"cannot read {quoted(str(error.filename))}: {error.strerror or error}"
    ) from error


def _what_is_read() -> str:
    return f"rows are read from files that end with {', '.join(_FORMATS)}"
