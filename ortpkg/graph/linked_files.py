"""Which symbolic links beside a model are followed: a model cache's, and the user's own.

The cache of Hugging Face keeps each file once, under ``blobs``, and gives it its name by a link in
``snapshots``; the model's own file is such a link, and so are its data files. onnxruntime follows
them into the folder where the model's real file lies, and no other link out of the model's folder.
A stranger's link must not make us read, or copy into a package, what it likes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ortpkg.errors import quoted

_BLOBS, _SNAPSHOTS = "blobs", "snapshots"
_MOST_LINKS = 40  # as many as Linux follows


def why_not_followed(
    path: Path, folder: Path, model: Path | None, *, with_own_links: bool
) -> str | None:
    """Why the file at ``path``, a place in ``folder``, is not to be read; None if it is.

    OSError where it is missing.

    Read is what really lies in ``folder``; beside the real file of ``model`` (None for a model from
    memory), where that is a link; in the cache to which ``folder`` belongs; and,
    ``with_own_links``, where every link on the way belongs to the current user.
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
    """Whether ``folder`` is in ``snapshots`` of the model cache whose ``blobs`` have ``real``."""
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    return any(
        place.name == _SNAPSHOTS and real.is_relative_to(place.parent.resolve() / _BLOBS)
        for place in (absolute, *absolute.parents)
    )


def _is_reached_by_own_links(path: Path, folder: Path) -> bool:
    """False also on systems that do not tell whose a link is (Windows)."""
    if not hasattr(os, "geteuid"):
        return False
    return all(link.lstat().st_uid == os.geteuid() for link in _links(path, folder))


def _links(path: Path, folder: Path) -> Iterator[Path]:
    """The links below ``folder`` that lead to ``path``, each followed by those that it leads to."""
    place = folder
    for part in path.relative_to(folder).parts:
        place /= part
        for _ in range(_MOST_LINKS):
            if not place.is_symlink():
                break
            yield place
            place = place.parent / place.readlink()
