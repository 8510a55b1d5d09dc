"""Copies of a package that nodes unpack, from a shared packed file or from the driver's machine.

A package that only the driver has is sent through the object store. The driver holds the bytes
while the batch runs, so that a restarted worker finds them. A node unpacks a package once for all
its workers, and keeps it until the batch ends.
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
from ortpkg.foundations.host.directories import cache_directory
from ortpkg.foundations.storage.process_lock import hold_lock
from ortpkg.scale.batches.package_runner import PackageUse

_FOLDER = "shipped"
#: Time that a worker waits while another one of its node unpacks, in seconds.
_UNPACKING_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCopies:
    """Copies of a package that the nodes of one batch unpack.

    Attributes:
        key: Key of this batch's copies, so that copies of other batches are not removed with them.
        content: Reference of the packed package in Ray's object store; None if the nodes have it.
    """

    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    content: Any = None


def packed_bytes(reference: str) -> bytes | None:
    """Return the package at a path of this machine, packed; None for a bare model.

    Raises:
        OrtpkgError: See :func:`ortpkg.pack`.
    """
    path = Path(reference)
    if path.is_file():
        return path.read_bytes() if is_packed(path) else None
    with tempfile.TemporaryDirectory(prefix="ortpkg-ship-") as folder:
        packed = Path(folder, "package.ortpkg")
        pack(path, packed)
        return packed.read_bytes()


def with_local_copy(use: PackageUse, copies: NodeCopies) -> PackageUse:
    """Return ``use`` with this node's copy if the package is packed or not at its path here.

    Raises:
        OrtpkgError: See :func:`ortpkg.unpack`.
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
    """Remove a batch's copies from this node."""
    shutil.rmtree(_folder_of(key), ignore_errors=True)


def _folder_of(key: str) -> Path:
    return cache_directory() / _FOLDER / key
