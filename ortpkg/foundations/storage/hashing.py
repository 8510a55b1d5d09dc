"""Hash files with SHA-256: streamed, several at a time, in memory independent of file sizes.

hashlib lets other threads run while it hashes, so one thread per core hashes as fast as the machine
can. A single file is one chain of blocks and stays on one core.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import queue
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.host.cores import usable_cores
from ortpkg.foundations.storage.file_stamp import FileStamp

_BUFFER_NBYTES = 1024 * 1024  # stays in a core's cache between the read and the hash
_LEAST_THREADED_NBYTES = 4 * 1024 * 1024  # less is hashed before threads have started
_MOST_THREADS = 64
_MOST_WAITING_CHUNKS = 4
_NO_FOLLOW = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)

Progress = Callable[[str, int, int], None]
"""Function called with (file, bytes done, bytes in total), by one thread at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """SHA-256 and length of a file's content."""

    sha256: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedFile:
    """Digest and stamp of a file that was read; the stamp is None if it changed meanwhile."""

    digest: FileDigest
    stamp: FileStamp | None


class Sha256Stream:
    """Digest of a stream of bytes.

    Attributes:
        nbytes: number of bytes so far.
    """

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.nbytes = 0

    def update(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self._sha256.update(chunk)
        self.nbytes += len(chunk)

    def digest(self) -> FileDigest:
        """Return digest and length of the bytes so far."""
        return FileDigest(sha256=self._sha256.hexdigest(), nbytes=self.nbytes)


@contextlib.contextmanager
def hashed_beside(
    update: Callable[[bytes], object], *, nbytes: int
) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that hashes chunks in a thread while the caller fetches and writes the next.

    Everything has been hashed on exit, also after an exception.

    Args:
        update: of a hash; called by a thread of its own, in order.
        nbytes: expected size; little data is hashed without a thread.
    """
    if nbytes < _LEAST_THREADED_NBYTES:
        yield update
        return
    chunks: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING_CHUNKS)

    def work() -> None:
        while (chunk := chunks.get()) is not None:
            update(chunk)

    thread = threading.Thread(target=work, name="ortpkg-hash", daemon=True)
    thread.start()
    try:
        yield chunks.put
    finally:
        chunks.put(None)
        thread.join()


def hash_bytes(content: bytes) -> FileDigest:
    """Return the digest of a file with ``content``."""
    return FileDigest(sha256=hashlib.sha256(content).hexdigest(), nbytes=len(content))


def hash_file(path: Path, *, name: str = "", progress: Progress | None = None) -> FileDigest:
    """Return SHA-256 and size of a regular file.

    Raises:
        OSError: it cannot be read, is a link or not a regular file.
    """
    return hash_file_with_stamp(path, name=name, progress=progress).digest


def hash_file_with_stamp(
    path: Path,
    *,
    name: str = "",
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> HashedFile:
    """Hash like :func:`hash_file`, with the stamp; ``stop`` ends it with InterruptedError."""
    sha256, done = hashlib.sha256(), 0
    with open_unfollowed(path) as stream:
        before = FileStamp.of(os.fstat(stream.fileno()))
        buffer = memoryview(bytearray(max(1, min(before.nbytes, _BUFFER_NBYTES))))
        while count := stream.readinto(buffer):
            sha256.update(buffer[:count])
            done += count
            if progress is not None:
                progress(name or path.name, done, max(done, before.nbytes))
            if stop is not None and stop.is_set():
                raise InterruptedError
        after = FileStamp.of(os.fstat(stream.fileno()))
    stamp = before if before == after and done == before.nbytes else None
    return HashedFile(digest=FileDigest(sha256=sha256.hexdigest(), nbytes=done), stamp=stamp)


def hash_files(
    paths: Mapping[str, Path], *, progress: Progress | None = None, threads: int | None = None
) -> dict[str, HashedFile | OSError]:
    """Hash every file, on all cores; a file that cannot be read gives its error.

    Args:
        paths: name (for results and progress) → file.
        progress: called from the hashing threads, one at a time; an exception ends everything.
        threads: number of threads; by default the cores that this process may use.

    Returns:
        Results in the order of ``paths``.
    """
    sizes = {name: _size_of(path) for name, path in paths.items()}
    # The largest first: otherwise one core may have a large one left while the others idle.
    waiting = deque(sorted(paths, key=lambda name: -sizes[name]))
    results: dict[str, HashedFile | OSError] = {}
    stop = threading.Event()
    report = _one_at_a_time(progress)

    def work() -> None:
        while not stop.is_set():
            try:
                name = waiting.popleft()
            except IndexError:
                return
            try:
                results[name] = hash_file_with_stamp(
                    paths[name], name=name, progress=report, stop=stop
                )
            except OSError as error:
                results[name] = error

    count = min(threads or usable_cores(), len(paths), _MOST_THREADS)
    if count <= 1 or sum(sizes.values()) < _LEAST_THREADED_NBYTES:
        work()
    else:
        _run_threads(work, count, stop)
    return {name: results[name] for name in paths}


def total_nbytes(hashed: Iterable[HashedFile | OSError]) -> int:
    """Return the number of bytes that were read."""
    return sum(result.digest.nbytes for result in hashed if isinstance(result, HashedFile))


def _run_threads(work: Callable[[], None], count: int, stop: threading.Event) -> None:
    from concurrent.futures import (
        ThreadPoolExecutor,  # rarely needed: most calls hash few, small files
    )

    with ThreadPoolExecutor(count, thread_name_prefix="ortpkg-hash") as pool:
        futures = [pool.submit(work) for _ in range(count)]
        try:
            for future in futures:
                future.result()
        finally:
            stop.set()  # after an error or Ctrl-C the other threads end at their next chunk


def _one_at_a_time(progress: Progress | None) -> Progress | None:
    if progress is None:
        return None
    lock = threading.Lock()

    def report(name: str, done: int, total: int) -> None:
        with lock:
            progress(name, done, total)

    return report


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


@contextlib.contextmanager
def open_unfollowed(path: Path) -> Iterator[io.FileIO]:
    """Open a file without following a link and without waiting for the other end of a pipe.

    Raises:
        OSError: the opened file is not a regular one.
    """
    if path.is_symlink():  # without O_NOFOLLOW (Windows), a link could only appear after this check
        raise OSError("a symbolic link, not a regular file")
    descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a regular file")
    with io.FileIO(descriptor, "rb") as stream:
        yield stream
