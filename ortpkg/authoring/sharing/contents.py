"""Find files, and ranges of files, that hold the same bytes, by the SHA-256 of what is read now.

Neither names nor recorded digests are trusted. Only ranges whose length occurs more than once are
read: the others equal nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ortpkg.foundations.errors import ModelFileError, quoted
from ortpkg.foundations.host.cores import usable_cores
from ortpkg.foundations.storage.composed_file import FileRange
from ortpkg.foundations.storage.file_operations import open_regular
from ortpkg.foundations.storage.hashing import Progress, hash_file

_CHUNK_NBYTES = 1024 * 1024

ContentKey = str
"""Key that is equal for two ranges if and only if they hold the same bytes."""


def read_contents(
    ranges: Iterable[FileRange], *, progress: Progress | None = None
) -> Mapping[FileRange, ContentKey]:
    """Return the key of each range; ``progress`` is called for each file once it is done.

    Raises:
        ModelFileError: a file cannot be read, or has become shorter.
    """
    distinct = dict.fromkeys(ranges)
    lengths = Counter(file_range.nbytes for file_range in distinct)
    by_path: dict[Path, list[FileRange]] = {}
    for file_range in distinct:
        if lengths[file_range.nbytes] > 1 and file_range.nbytes:
            by_path.setdefault(file_range.path, []).append(file_range)
    keys = {
        file_range: f"{file_range.path}:{file_range.offset}:{file_range.nbytes}"
        for file_range in distinct
    }
    with ThreadPoolExecutor(usable_cores(), thread_name_prefix="ortpkg-hash") as pool:
        for path, digests in zip(by_path, pool.map(_hash_ranges, by_path.items()), strict=True):
            keys |= digests
            if progress is not None:
                nbytes = sum(file_range.nbytes for file_range in digests)
                progress(path.name, nbytes, nbytes)
    return keys


def _hash_ranges(item: tuple[Path, list[FileRange]]) -> dict[FileRange, ContentKey]:
    path, ranges = item
    keys = {}
    try:
        with open_regular(path) as (stream, _):
            buffer = memoryview(bytearray(_CHUNK_NBYTES))
            for file_range in ranges:
                sha256, left = hashlib.sha256(), file_range.nbytes
                stream.seek(file_range.offset)
                while left and (count := stream.readinto(buffer[: min(left, _CHUNK_NBYTES)])):  # type: ignore[attr-defined]
                    sha256.update(buffer[:count])
                    left -= count
                if left:
                    raise ModelFileError(f"{quoted(path)} became shorter while it was being read")
                keys[file_range] = f"sha256:{sha256.hexdigest()}:{file_range.nbytes}"
    except OSError as error:
        raise ModelFileError(f"cannot read {quoted(path)}: {quoted(error)}") from error
    return keys


def have_same_bytes(ours: Path, theirs: Path) -> bool:
    """Return True if both are regular files with the same content."""
    if not ours.is_file() or not theirs.is_file() or ours.stat().st_size != theirs.stat().st_size:
        return False
    return hash_file(ours.resolve()).sha256 == hash_file(theirs.resolve()).sha256


def have_same_files(ours: Mapping[str, Path], theirs: Mapping[str, Path]) -> bool:
    """Return True if both have the same names, and files of the same content under each."""
    return ours.keys() == theirs.keys() and all(
        have_same_bytes(path, theirs[name]) for name, path in ours.items()
    )
