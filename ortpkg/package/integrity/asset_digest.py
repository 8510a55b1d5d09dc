r"""Digest that names a shared asset: a hash over the paths and contents of its files.

It is the directory hash of onnxruntime 1.28 to 1.32 (``model_package/src/asset_hasher``), byte for
byte: each file gives a line ``<sha256 of its bytes, lower-case hex>  <path>\\n`` with the path
relative to the folder and ``/`` between names; the lines are sorted by the path's bytes, and the
SHA-256 of all of them is the digest. Empty folders do not count, hidden files do. Names are not
normalized; use NFC. On Windows upstream takes names from the process's code page, so names that are
not ASCII can give another digest there; here they are UTF-8 everywhere.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ortpkg.foundations.errors import PackageError, quoted
from ortpkg.foundations.storage.hashing import Progress, hash_files
from ortpkg.package.paths.disk_places import PathKind, is_link, kind_of

_SCHEME = "sha256:"


def directory_digest(directory: Path, *, progress: Progress | None = None) -> str:
    """Return the URI ``sha256:<64 hex digits>`` of a shared asset with the files of ``directory``.

    Args:
        directory: the folder, or a link to one; links inside it are refused.
        progress: called with (file, bytes done, bytes in total) while files are hashed.

    Raises:
        PackageError: it is not a folder, cannot be read, or holds a link or something else that is
            neither file nor folder.
    """
    if not directory.is_dir():
        raise PackageError(
            f"{quoted(directory)} is not a folder: a shared asset is one", path=directory
        )
    hashed = hash_files(dict(_files(str(directory))), progress=progress)
    digests = {}
    for name, result in hashed.items():
        if isinstance(result, OSError):
            message = (
                f"{quoted(name)} in {quoted(directory)} cannot be read: {result.strerror or result}"
            )
            raise PackageError(message, path=directory) from result
        digests[name] = result.digest.sha256
    return listing_digest(digests)


def listing_digest(digests: Mapping[str, str]) -> str:
    """Return the same URI for a folder of these files: path → SHA-256."""
    listing = hashlib.sha256()
    for name_bytes, digest in sorted(
        (os.fsencode(name), digest) for name, digest in digests.items()
    ):
        listing.update(digest.encode("ascii") + b"  " + name_bytes + b"\n")
    return _SCHEME + listing.hexdigest()


def _files(directory: str) -> Iterator[tuple[str, Path]]:
    """Yield (path relative to the asset, file) of all files below ``directory``."""
    pending = [(directory, "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name, status = prefix + entry.name, entry.stat(follow_symlinks=False)
                    kind = PathKind.OTHER if is_link(status) else kind_of(status)
                    if kind is PathKind.OTHER:
                        what = "is a link" if is_link(status) else "is neither a file nor a folder"
                        message = (
                            f"{quoted(name)} {what}: a shared asset holds files and folders only"
                        )
                        raise PackageError(message, path=entry.path)
                    if kind is PathKind.DIRECTORY:
                        pending.append((entry.path, f"{name}/"))
                    else:
                        yield name, Path(entry.path)
        except OSError as error:
            raise PackageError(
                f"{quoted(folder)} cannot be read: {error.strerror}", path=folder
            ) from error
