"""A context file opened once: what is judged, by path or bytes, is what is loaded then."""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ortpkg.errors import ModelFileError, ModelNotFoundError, quoted
from ortpkg.names import did_you_mean_path
from ortpkg.storage.file_stamp import FileStamp, file_stamp

#: A pipe that lies where a file should is refused rather than waited for.
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
        path: that it was opened by.
        data: its bytes; empty for an empty file.
        stamp: what the file system said of the very file that was opened, whatever has that path by
            now.
    """

    path: Path
    data: memoryview
    stamp: FileStamp

    @property
    def is_same(self) -> bool:
        """Whether the path still leads to this file, and nobody has changed it since."""
        return file_stamp(self.path) == self.stamp


def map_context(path: Path) -> MappedContext:
    """Open and maps a file.

    ModelFileError where it is missing, no regular file, or cannot be read.
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
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(f"{quoted(path)} is not a regular file")
        data = (
            mmap.mmap(descriptor, found.st_size, access=mmap.ACCESS_READ) if found.st_size else b""
        )
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot map {quoted(path)}: {quoted(error)}") from error
    finally:
        os.close(descriptor)
    return MappedContext(path=path, data=memoryview(data), stamp=FileStamp.of(found))
