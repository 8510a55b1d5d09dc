"""A package of which nothing but the documents is here, opened: enough for a choice."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package


@contextlib.contextmanager
def opened_documents(documents: Mapping[str, bytes], folder: str) -> Iterator[PackageInfo]:
    """The package of these documents, path → content, in a folder of that name.

    The paths are a package's. PackageFormatError for a wrong package.
    """
    with tempfile.TemporaryDirectory(prefix="ortpkg-") as temporary:
        root = Path(temporary, folder)
        root.mkdir()
        for path, content in documents.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        yield open_package(root)
