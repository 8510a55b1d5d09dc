"""Context files that are opened once: what is checked, by path or bytes, is what is loaded then."""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.errors import ModelFileError, ModelNotFoundError, quoted
from ortpkg.foundations.names import did_you_mean_path
from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp

#: Flags that let a pipe be refused instead of waiting for it.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedContext:
    """A file, mapped for as long as anything refers to its bytes.

    Attributes:
        path: path by which it was opened.
        data: its bytes; empty for an empty file.
        stamp: stamp of the very file that was opened, whatever has that path by now.
    """

    path: Path
    data: memoryview
    stamp: FileStamp

    @property
    def is_same(self) -> bool:
        """True if the path still leads to this file, unchanged."""
        return file_stamp(self.path) == self.stamp


def map_context(path: Path) -> MappedContext:
    """Open and map a file.

    Raises:
        ModelFileError: it is missing, not a regular file, or cannot be read.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError as error:
        raise ModelNotFoundError(
            f"there is no file {quoted(path)}{did_you_mean_path(path)}"
        ) from error
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot read {quoted(path)}: {quoted(error)}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{quoted(path)} is not a regular file")
        data = (
            mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
            if status.st_size
            else b""
        )
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot map {quoted(path)}: {quoted(error)}") from error
    finally:
        os.close(descriptor)
    return MappedContext(path=path, data=memoryview(data), stamp=FileStamp.of(status))
