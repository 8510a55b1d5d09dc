"""Bytes of a tensor's data: a file, mapped on first use, or memory.

They are read-only, and not copied if that is possible.

A mapped file must not be overwritten while it is mapped: ortpkg itself replaces files by renaming
new ones over them.
"""

from __future__ import annotations

import mmap
import threading
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import ModelFileError, ModelNotFoundError, quoted
from ortpkg.foundations.names import did_you_mean_path
from ortpkg.foundations.storage.file_stamp import FileStamp

ByteArray = npt.NDArray[np.uint8]


class ByteSource(Protocol):
    """A run of bytes of known length."""

    @property
    def nbytes(self) -> int:
        """The length, in bytes."""

    def array(self, offset: int, nbytes: int, alignment: int = 1) -> ByteArray:
        """Return bytes [offset, offset + nbytes), read-only, at a multiple of ``alignment``."""
        ...


class MemoryBytes:
    """Bytes that are in memory already."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = np.frombuffer(data, dtype=np.uint8)

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def array(self, offset: int, nbytes: int, alignment: int = 1) -> ByteArray:
        part = self._data[offset : offset + nbytes]
        if part.ctypes.data % alignment:
            part = part.copy()
            part.flags.writeable = False
        return part


class _FileMapping(mmap.mmap):
    """A file that is mapped read-only: the content of its pages can be read again."""


class MappedFile:
    """A file, memory-mapped on first use and for as long as an array of it lives.

    Unaligned ranges are read instead of mapped: a library that needs alignment would copy them on
    each use.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._mapping: _FileMapping | None = None
        try:
            status = path.stat()
        except FileNotFoundError as error:
            raise ModelNotFoundError(
                f"there is no file {quoted(path)}{did_you_mean_path(path)}"
            ) from error
        except (OSError, ValueError) as error:
            raise ModelFileError(f"cannot read {quoted(path)}: {quoted(error)}") from error
        if not path.is_file():
            remedy = "; ModelPackage opens packages" if path.suffix == ".ortpackage" else ""
            raise ModelFileError(f"{quoted(path)} is not a regular file{remedy}")
        self._nbytes = status.st_size
        #: State of the file when it was opened, according to the file system.
        self.stamp = FileStamp.of(status)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def array(self, offset: int, nbytes: int, alignment: int = 1) -> ByteArray:
        if nbytes == 0:
            return np.empty(0, dtype=np.uint8)
        if offset % alignment == 0:
            return np.frombuffer(self._mapped(), dtype=np.uint8, count=nbytes, offset=offset)
        return self._read(offset, nbytes)

    def mapping(self) -> memoryview:
        """Return the whole file; empty for an empty one, which no system maps."""
        return memoryview(self._mapped()) if self._nbytes else memoryview(b"")

    def verify_length(self) -> None:
        """Raise ModelFileError if the file became shorter since it was mapped: bytes are gone."""
        if self._mapping is not None and self._mapping.size() < len(self._mapping):
            raise ModelFileError(
                f"{quoted(self.path)} became shorter while the session was open; it had"
                f" {len(self._mapping)} bytes. Replace a model's files by renaming new ones over"
                " them"
            )

    def _mapped(self) -> _FileMapping:
        with self._lock:
            if self._mapping is None:
                try:
                    with self.path.open("rb") as file:
                        self._mapping = _FileMapping(file.fileno(), 0, access=mmap.ACCESS_READ)
                except (OSError, ValueError) as error:
                    raise ModelFileError(
                        f"cannot map {quoted(self.path)}: {quoted(error)}"
                    ) from error
                if len(self._mapping) < self._nbytes:
                    raise ModelFileError(
                        f"{quoted(self.path)} became shorter while it was being read"
                    )
            return self._mapping

    def _read(self, offset: int, nbytes: int) -> ByteArray:
        array = np.empty(nbytes, dtype=np.uint8)
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                count = file.readinto(array.data)
        except OSError as error:
            raise ModelFileError(f"cannot read {quoted(self.path)}: {quoted(error)}") from error
        if count != nbytes:
            raise ModelFileError(f"{quoted(self.path)} became shorter while it was being read")
        array.flags.writeable = False
        return array


def release_pages(array: npt.NDArray[Any]) -> None:
    """Release the memory of those pages of a mapped file in which an array lies.

    The array stays valid: the system reads a page again on the next access. Nothing happens if the
    array is not contiguous or does not lie in a :class:`MappedFile`, or if the system has no such
    call (Windows).
    """
    advice = getattr(mmap, "MADV_DONTNEED", None)
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    mapping = base.obj if isinstance(base, memoryview) else None
    if advice is None or not isinstance(mapping, _FileMapping) or not array.flags.c_contiguous:
        return
    start = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    first = start - start % mmap.PAGESIZE
    mapping.madvise(advice, first, start + array.nbytes - first)
