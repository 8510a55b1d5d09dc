"""Protect installed packages: they are replaced as a whole, never changed."""

from __future__ import annotations

import os
from pathlib import Path

from ortpkg.foundations.errors import AuthoringError, quoted

#: File beside each package in a store of installed ones (``ortpkg.distribution.store``,
#: docs/store.md).
RECEIPT = "receipt.json"
#: File in the store's own folder.
STORE_MARK = "store.json"
PACKAGES = "packages"
#: ``STORE/packages/MANIFEST/KEY/NAME.ortpackage``
_DEPTH = 3


def check_is_not_installed(root: Path) -> None:
    """Raise AuthoringError if the package at ``root`` lies in a store of installed packages."""
    real = Path(os.path.realpath(root))
    if len(real.parents) <= _DEPTH or real.parents[_DEPTH - 1].name != PACKAGES:
        return
    if (real.parent / RECEIPT).is_file() and (real.parents[_DEPTH] / STORE_MARK).is_file():
        raise AuthoringError(
            f"{quoted(root)} is an installed package, whose files are its publisher's: ortpkg pull"
            " NAME -o FOLDER makes a copy that can be changed"
        )
