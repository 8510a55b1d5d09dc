"""A package that only the driver's machine has, on its way to nodes: packed, in the object store.

A node unpacks it once, however many workers it has, and keeps it until the batch ends. The driver
holds the packed bytes for as long, so that a worker that starts again finds them.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ortpkg.api.packing import pack, unpack
from ortpkg.authoring.opening import is_packed
from ortpkg.batches.package_runner import PackageUse
from ortpkg.errors import AuthoringError
from ortpkg.host.directories import cache_directory
from ortpkg.storage.file_replacement import replace_file

_FOLDER = "shipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedPackage:
    """A packed package in Ray's object store.

    Attributes:
        name: what its folder is called.
        key: of this batch's copies of it: those of another batch stay when they go.
        content: where they are.
    """

    name: str
    key: str
    content: Any


def ship(ray: Any, reference: str) -> ShippedPackage | None:
    """Puts the package at a path of this machine into the object store; None for a bare model.

    Raises what :func:`ortpkg.pack` raises.
    """
    path = Path(reference)
    if path.is_file():
        content = path.read_bytes() if is_packed(path) else None
    else:
        with tempfile.TemporaryDirectory(prefix="ortpkg-ship-") as folder:
            packed = Path(folder, "package.ortpkg")
            pack(path, packed)
            content = packed.read_bytes()
    if content is None:
        return None
    return ShippedPackage(name=path.stem, key=uuid.uuid4().hex, content=ray.put(content))


def arrived(use: PackageUse, shipped: ShippedPackage | None) -> PackageUse:
    """The same use of what was shipped, where its path leads nowhere on this node.

    Raises what :func:`ortpkg.unpack` raises.
    """
    if shipped is None or Path(use.reference).exists():
        return use
    folder = _folder_of(shipped.key)
    root = folder / f"{shipped.name}.ortpackage"
    if not root.is_dir():
        import ray  # this runs where Ray does alone

        folder.mkdir(parents=True, exist_ok=True)
        packed = folder / "package.ortpkg"
        content = ray.get(shipped.content)
        replace_file(packed, lambda file: file.write(content), is_durable=False)
        try:
            unpack(packed, root)
        except AuthoringError:
            if not root.is_dir():  # another worker of this node was first
                raise
    return replace(use, reference=str(root))


def forget(key: str) -> None:
    """Removes what was shipped from this node."""
    shutil.rmtree(_folder_of(key), ignore_errors=True)


def _folder_of(key: str) -> Path:
    return cache_directory() / _FOLDER / key
