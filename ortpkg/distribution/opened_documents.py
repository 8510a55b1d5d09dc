"""Opens a package of which only the documents exist here, which is enough for a selection."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ortpkg.foundations.errors import StoreError
from ortpkg.package.package_info import PackageInfo
from ortpkg.package.reader import open_package


@contextlib.contextmanager
def opened_documents(documents: Mapping[str, bytes], folder: str) -> Iterator[PackageInfo]:
    """Yield the package of these documents (contents by path), in a folder of that name.

    Raises:
        PackageFormatError: The package is invalid.
        StoreError: There is no room for temporary files.
    """
    with contextlib.ExitStack() as stack:
        try:
            temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="ortpkg-"))
            root = Path(temporary, folder)
            root.mkdir()
            for path, content in documents.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(content)
        except OSError as error:
            raise StoreError(
                f"temporary files cannot be written: {error.strerror or error}; free some space, or"
                " name another folder in TMPDIR"
            ) from error
        yield open_package(root)
