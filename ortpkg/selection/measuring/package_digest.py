"""Identity of the package that a record is about: its content, not its location.

With digests.json it is that document's digest of the whole package, so that a copy elsewhere has
the same records. Otherwise it is computed from the documents' bytes, and from path, size and
modification time of every other file: reading gigabytes of weights for it would cost more than a
session. A copy then has records of its own, unless it preserves times. A bare model, whose root is
its file, is identified by path, size and modification time.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ortpkg.foundations.errors import PackageError
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.integrity.digests import read_digests

_DOCUMENT_SUFFIX = ".json"
_MOST_DOCUMENT_NBYTES = 1 << 20


def package_digest(root: Path) -> str:
    """Return ``sha256:<hex>`` of the recorded content, else ``stat:<hex>``.

    "" if the package cannot be read.
    """
    try:
        recorded = read_digests(root)
        return (
            f"sha256:{recorded.package_digest}"
            if recorded is not None
            else f"stat:{_stat_digest(root)}"
        )
    except (PackageError, OSError):
        return ""


def _stat_digest(root: Path) -> str:
    digest = hashlib.sha256()
    if root.is_file():
        status = root.stat()
        digest.update(os.fsencode(f"{root}\0{status.st_size}\0{status.st_mtime_ns}"))
        return digest.hexdigest()
    for file in list_files(root):
        path = root / file
        status = path.stat(follow_symlinks=False)
        digest.update(os.fsencode(f"{file}\0{status.st_size}\0"))
        if (
            file.endswith(_DOCUMENT_SUFFIX)
            and status.st_size <= _MOST_DOCUMENT_NBYTES
            and path.is_file()
        ):
            digest.update(path.read_bytes())
        else:
            digest.update(f"{status.st_mtime_ns}".encode())
    return digest.hexdigest()
