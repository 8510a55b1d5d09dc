"""File content composed of given bytes and of ranges of other files, never whole in memory."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.file_operations import Readable, open_regular

_HASHED_NBYTES = 1024 * 1024  # in one read
_MOST_ZEROS = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileRange:
    """Range of ``nbytes`` bytes of a regular file, beginning at ``offset``."""

    path: Path
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Zeros:
    """Segment of ``nbytes`` zero bytes."""

    nbytes: int


Segment = bytes | FileRange | Zeros


@dataclass(frozen=True)
class ComposedFile:
    """Content of a file, as segments one after another."""

    segments: tuple[Segment, ...]

    @classmethod
    def copy_of(cls, path: Path) -> ComposedFile:
        """Return the content that the file at ``path`` has now."""
        return cls((FileRange(path, 0, path.stat().st_size),))

    @cached_property
    def nbytes(self) -> int:
        """Size of the file in bytes."""
        return sum(
            len(segment) if isinstance(segment, bytes) else segment.nbytes
            for segment in self.segments
        )

    def sha256(self) -> str:
        """Return the SHA-256 of the content, in hexadecimal.

        Raises:
            AuthoringError: a file is not a regular one, or too short.
        """
        sha256 = hashlib.sha256()
        with self.open() as stream:
            while chunk := stream.read(_HASHED_NBYTES):
                sha256.update(chunk)
        return sha256.hexdigest()

    @contextlib.contextmanager
    def open(self) -> Iterator[Readable]:
        """Open the content as a stream.

        Reading raises AuthoringError if a file is not a regular one, or too short.
        """
        with contextlib.ExitStack() as opened:
            yield _SegmentReader(self.segments, opened)


class _SegmentReader:
    """Stream over segments; each file is opened once."""

    def __init__(self, segments: tuple[Segment, ...], opened: contextlib.ExitStack) -> None:
        self._segments = segments
        self._opened = opened
        self._files: dict[Path, BinaryIO] = {}
        self._index = 0
        self._done = 0  # bytes of the current segment

    def read(self, nbytes: int, /) -> bytes:
        """Return up to ``nbytes`` bytes; b"" at the end."""
        while self._index < len(self._segments):
            chunk = self._read_segment(self._segments[self._index], nbytes)
            if chunk:
                self._done += len(chunk)
                return chunk
            self._index, self._done = self._index + 1, 0
        return b""

    def _read_segment(self, segment: Segment, nbytes: int) -> bytes:
        if isinstance(segment, bytes):
            return segment[self._done : self._done + nbytes]
        count = min(nbytes, segment.nbytes - self._done)
        if isinstance(segment, Zeros) or count == 0:
            return bytes(min(count, _MOST_ZEROS))
        file = self._file(segment.path)
        file.seek(segment.offset + self._done)
        chunk = file.read(count)
        if not chunk:
            raise AuthoringError(
                f"{quoted(segment.path)} became shorter while it was being read; try again"
            )
        return chunk

    def _file(self, path: Path) -> BinaryIO:
        if path not in self._files:
            stream, _ = self._opened.enter_context(open_regular(path))
            self._files[path] = stream
        return self._files[path]
