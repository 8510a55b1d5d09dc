"""Temporary copy of a file whose server does not send parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ortpkg.distribution.registry.remote_file import RemoteFile
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import ArtifactFormatError
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.archive.archive_directory import DEFAULT_LIMITS

_CHUNK_NBYTES = 1024 * 1024


class DownloadedFile(RemoteFile):
    """Copy at ``path`` of the remote file ``where``."""

    def __init__(self, path: Path, where: str) -> None:
        self._path = path
        self._where = where
        self._nbytes = path.stat().st_size

    @property
    def where(self) -> str:
        return self._where

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @contextlib.contextmanager
    def read(self, start: int = 0, end: int | None = None) -> Iterator[Iterator[bytes]]:
        with self._path.open("rb") as stream:
            stream.seek(start)
            left = (self._nbytes if end is None else end) - start

            def chunks() -> Iterator[bytes]:
                nonlocal left
                while left > 0 and (chunk := stream.read(min(left, _CHUNK_NBYTES))):
                    left -= len(chunk)
                    yield chunk

            yield chunks()


@contextlib.contextmanager
def in_parts(
    file: RemoteFile, store: PackageStore, progress: Progress | None
) -> Iterator[RemoteFile]:
    """Yield ``file``, or a copy on the store's disk if the server does not send parts of it.

    Raises:
        ArtifactFormatError: The file is larger than any package may be.
        StoreError: The disk is full.
    """
    if file.has_parts:
        yield file
        return
    with store.scratch_file() as path:
        with store.disk_errors(), path.open("xb") as target, file.read() as chunks:
            for chunk in chunks:
                target.write(chunk)
                done = target.tell()
                if done > DEFAULT_LIMITS.nbytes:
                    raise ArtifactFormatError(
                        f"{file.where} has more than {DEFAULT_LIMITS.nbytes} bytes",
                        registry=file.where,
                    )
                if progress is not None:
                    progress(file.where, done, max(done, file.nbytes or 0))
        yield DownloadedFile(path, file.where)
