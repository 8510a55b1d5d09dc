"""What nodes unpack: a packed package that all see, or one that only the driver's machine has.

That goes packed to them by the object store; the driver holds the bytes as long as the batch runs,
so that a worker that starts again finds them. A node unpacks either once, however many workers it
has, and keeps it until the batch ends.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ortpkg.api.packing import pack, unpack
from ortpkg.authoring.opening import is_packed
from ortpkg.batches.package_runner import PackageUse
from ortpkg.host.directories import cache_directory
from ortpkg.storage.file_lock import hold_lock

_FOLDER = "shipped"
#: How long a worker waits while another one of its node unpacks.
_UNPACKING_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCopies:
    """The copies of a package that the nodes of one batch unpack.

    Attributes:
        key: of this batch's copies: those of another batch stay when they go.
        content: where the packed package is in Ray's object store; None where every node that can
            have it has it.
    """

    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    content: Any = None


def packed_bytes(reference: str) -> bytes | None:
    """The package at a path of this machine, packed; None for a bare model.

    Raises what :func:`ortpkg.pack` raises.
    """
    path = Path(reference)
    if path.is_file():
        return path.read_bytes() if is_packed(path) else None
    with tempfile.TemporaryDirectory(prefix="ortpkg-ship-") as folder:
        packed = Path(folder, "package.ortpkg")
        pack(path, packed)
        return packed.read_bytes()


def arrived(use: PackageUse, copies: NodeCopies) -> PackageUse:
    """The same use of this node's copy, where the package is packed, or its path leads nowhere.

    Raises what :func:`ortpkg.unpack` raises.
    """
    path = Path(use.reference)
    if not is_packed(path) and (path.exists() or copies.content is None):
        return use
    folder = _folder_of(copies.key)
    root = folder / f"{path.stem}.ortpackage"
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / "lock", timeout_s=_UNPACKING_S):
        if not root.is_dir():
            _unpack_here(path, copies, root)
    return replace(use, reference=str(root))


def _unpack_here(path: Path, copies: NodeCopies, root: Path) -> None:
    if is_packed(path):
        unpack(path, root)
        return
    import ray  # this runs where Ray does alone

    packed = root.with_name("package.ortpkg")
    packed.write_bytes(ray.get(copies.content))
    unpack(packed, root)
    packed.unlink()


def forget(key: str) -> None:
    """Removes a batch's copies from this node."""
    shutil.rmtree(_folder_of(key), ignore_errors=True)


def _folder_of(key: str) -> Path:
    return cache_directory() / _FOLDER / key
