"""Small packages for stores: bytes that stand for documents, weights and manifests."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.store.blob_trees import TreeContent
from ortpkg.distribution.store.collection import CollectionRules
from ortpkg.distribution.store.generations import Generation
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.package.receipts import StoredFile

#: Nothing is too young to be collected.
AT_ONCE = CollectionRules(keep=1, grace_s=-1.0, partial_age_s=-1.0)


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def descriptor_of(content: bytes) -> Descriptor:
    return Descriptor(
        media_type="application/octet-stream", digest=digest_of(content), nbytes=len(content)
    )


def stored(content: bytes) -> StoredFile:
    return StoredFile(digest=digest_of(content), nbytes=len(content))


class Source:
    """Where a blob comes from; it may break.

    Attributes:
        offsets: where reading began, each time.
    """

    def __init__(self, content: bytes, *, chunk: int = 10, breaks_at: int | None = None) -> None:
        self.content = content
        self.chunk = chunk
        self.breaks_at = breaks_at
        self.offsets: list[int] = []

    def read(self, offset: int) -> AbstractContextManager[Iterator[bytes]]:
        self.offsets.append(offset)
        return contextlib.nullcontext(self._chunks(offset))

    def _chunks(self, offset: int) -> Iterator[bytes]:
        for start in range(offset, len(self.content), self.chunk):
            if self.breaks_at is not None and start >= self.breaks_at:
                raise ConnectionBrokenError
            yield self.content[start : start + self.chunk]


class ConnectionBrokenError(Exception):
    pass


def receive(store: PackageStore, content: bytes) -> str:
    """Puts a blob into the store; its digest."""
    descriptor = descriptor_of(content)
    store.blobs.receive(descriptor, Source(content, chunk=1 << 20).read, source="test")
    return descriptor.digest


def package(version: int, *, variants: str = "ab", is_linked: bool = True) -> TreeContent:
    """A version of a package with variants "a" and "b", and with ``variants``' files.

    The weights of "b" stay the same in all versions.
    """
    weights = {"a": b"a%d" % version * 50, "b": b"same" * 100}
    files = {f"models/m/{name}/weights.bin": stored(data) for name, data in weights.items()}
    here = {path: each for path, each in files.items() if path.split("/")[2] in variants}
    return TreeContent(
        manifest=digest_of(manifest(version)),
        reference=f"oci://models.example/digits:{version}",
        folder="digits.ortpackage",
        documents={"manifest.json": b"{}", "models/m/metadata.json": b'{"version": %d}' % version},
        files=here,
        absent={path: each for path, each in files.items() if path not in here},
        blobs=(digest_of(manifest(version)),),
        is_linked=is_linked,
    )


def manifest(version: int) -> bytes:
    return b"manifest %d" % version


def receive_blobs(store: PackageStore, version: int, *, variants: str = "ab") -> None:
    """Everything that :func:`package` needs of the store."""
    receive(store, manifest(version))
    for name in variants:
        receive(store, b"a%d" % version * 50 if name == "a" else b"same" * 100)


def install(
    store: PackageStore, version: int, *, name: str = "digits", variants: str = "ab"
) -> Generation:
    """Installs a version as an installer does: it holds first what it is going to need."""
    content = package(version, variants=variants)
    with store.hold(trees=[content.key], digests=content.all_blobs):
        receive_blobs(store, version, variants=variants)
        return store.install(
            name,
            content,
            tag=str(version),
            variants=tuple(f"m/{each}" for each in variants),
            why="it is the best",
        )


def read_package(root: Path) -> dict[str, bytes]:
    """Every file of a package."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def expected_package(version: int, *, variants: str = "ab") -> dict[str, bytes]:
    """What :func:`read_package` gives for a version."""
    content = package(version, variants=variants)
    weights = {"a": b"a%d" % version * 50, "b": b"same" * 100}
    return {
        **content.documents,
        **{path: weights[path.split("/")[2]] for path in content.files},
    }


def make_old(*paths: Path, age_s: float = 30 * 24 * 3600.0) -> None:
    """Sets times back."""
    import os

    for path in paths:
        then = time.time() - age_s
        os.utime(path, (then, then))
