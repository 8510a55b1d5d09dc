"""Which ranges of files hold the same bytes, by the SHA-256 of what is read now.

Neither names nor recorded digests are believed.

Only ranges whose length occurs more than once are read: the others equal nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ortpkg.errors import ModelFileError, quoted
from ortpkg.host.cores import usable_cores
from ortpkg.storage.composed_file import FileRange
from ortpkg.storage.file_operations import open_regular
from ortpkg.storage.hashing import Progress

_CHUNK_NBYTES = 1024 * 1024

ContentKey = str
"""The same for two ranges if and only if they hold the same bytes (or are one and the same
range).
"""


def read_contents(
    ranges: Iterable[FileRange], *, progress: Progress | None = None
) -> Mapping[FileRange, ContentKey]:
    """The key of each range. ModelFileError where a file cannot be read, or has become shorter.

    ``progress`` is told of each file once it is done.
    """
    distinct = dict.fromkeys(ranges)
    lengths = Counter(each.nbytes for each in distinct)
    by_path: dict[Path, list[FileRange]] = {}
    for each in distinct:
        if lengths[each.nbytes] > 1 and each.nbytes:
            by_path.setdefault(each.path, []).append(each)
    keys = {each: f"{each.path}:{each.offset}:{each.nbytes}" for each in distinct}
    with ThreadPoolExecutor(usable_cores(), thread_name_prefix="ortpkg-hash") as pool:
        for path, digests in zip(by_path, pool.map(_hash_ranges, by_path.items()), strict=True):
            keys |= digests
            if progress is not None:
                nbytes = sum(each.nbytes for each in digests)
                progress(path.name, nbytes, nbytes)
    return keys


def _hash_ranges(item: tuple[Path, list[FileRange]]) -> dict[FileRange, ContentKey]:
    path, ranges = item
    found = {}
    try:
        with open_regular(path) as (stream, _):
            buffer = memoryview(bytearray(_CHUNK_NBYTES))
            for each in ranges:
                sha256, left = hashlib.sha256(), each.nbytes
                stream.seek(each.offset)
                while left and (count := stream.readinto(buffer[: min(left, _CHUNK_NBYTES)])):  # type: ignore[attr-defined]
                    sha256.update(buffer[:count])
                    left -= count
                if left:
                    raise ModelFileError(f"{quoted(path)} became shorter while it was being read")
                found[each] = f"sha256:{sha256.hexdigest()}:{each.nbytes}"
    except OSError as error:
        raise ModelFileError(f"cannot read {quoted(path)}: {quoted(error)}") from error
    return found
