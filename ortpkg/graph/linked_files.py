"""Follows symbolic links beside a model only in a model cache, or if they are the user's own.

The cache of Hugging Face keeps each file once, under ``blobs``, and gives it its name by a link in
``snapshots``; the model's own file is such a link, and so are its data files. onnxruntime follows
them into the folder with the model's real file, and no other link out of the model's folder.
A stranger's link must not make us read arbitrary files, or copy them into a package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ortpkg.foundations.errors import quoted

_BLOBS, _SNAPSHOTS = "blobs", "snapshots"
_MOST_LINKS = 40  # as many as Linux follows


def why_not_followed(
    path: Path, folder: Path, model: Path | None, *, with_own_links: bool
) -> str | None:
    """Return the reason not to read the file at ``path`` in ``folder``; None if there is none.

    A file may be read if it really lies in ``folder``; beside the real file of ``model`` (None for
    a model from memory), if that is a link; in the cache to which ``folder`` belongs; and,
    ``with_own_links``, if every link on the way belongs to the current user.

    Raises:
        OSError: if the file is missing.
    """
    real = path.resolve(strict=True)
    if real.is_relative_to(folder.resolve(strict=True)):
        return None
    if model is not None and model.is_symlink() and real.is_relative_to(model.resolve().parent):
        return None
    if _is_in_same_cache(real, folder):
        return None
    if not with_own_links:
        return f"is a symbolic link that leaves {quoted(folder)}"
    if _is_reached_by_own_links(path, folder):
        return None
    return f"is a symbolic link that leaves {quoted(folder)}, and was made by somebody else"


def _is_in_same_cache(real: Path, folder: Path) -> bool:
    """Return True if ``folder`` is in ``snapshots`` of the cache with ``real`` in its ``blobs``."""
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    return any(
        parent.name == _SNAPSHOTS and real.is_relative_to(parent.parent.resolve() / _BLOBS)
        for parent in (absolute, *absolute.parents)
    )


def _is_reached_by_own_links(path: Path, folder: Path) -> bool:
    """Return True if all links are the user's; False on systems that do not tell (Windows)."""
    if not hasattr(os, "geteuid"):
        return False
    return all(link.lstat().st_uid == os.geteuid() for link in _links(path, folder))


def _links(path: Path, folder: Path) -> Iterator[Path]:
    """Yield the links below ``folder`` that lead to ``path``, each before those it leads to."""
    current = folder
    for part in path.relative_to(folder).parts:
        current /= part
        for _ in range(_MOST_LINKS):
            if not current.is_symlink():
                break
            yield current
            current = current.parent / current.readlink()
