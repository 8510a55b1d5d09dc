"""Download of layers into the store: several at once, only missing ones, each verified."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from ortpkg.distribution.package_sources import PackageSource
from ortpkg.distribution.registry.descriptors import Descriptor
from ortpkg.distribution.store.package_store import PackageStore
from ortpkg.foundations.errors import ArtifactFormatError, ArtifactNotFoundError
from ortpkg.foundations.storage.hashing import Progress

_MOST_AT_ONCE = 4


def missing_layers(layers: Iterable[Descriptor], store: PackageStore) -> list[Descriptor]:
    """Return the layers that are missing or damaged in the store, each once, largest first.

    Large ones come first so that all connections are busy until the end.
    """
    missing = {layer.digest: layer for layer in layers if not store.blobs.is_sound(layer.digest)}
    return sorted(missing.values(), key=lambda layer: (-layer.nbytes, layer.digest))


def fetch_layers(
    layers: Iterable[Descriptor],
    source: PackageSource,
    store: PackageStore,
    *,
    progress: Progress | None = None,
) -> int:
    """Fetch the layers that the store does not have; return the number of bytes received.

    After a broken connection or an interrupt, the next call continues. If the source has wrong
    content or lacks a layer, nothing is kept.

    Args:
        layers: Layers to fetch; the caller has a lease on them.
        source, store: Source and target.
        progress: Called by several threads with (source, bytes done, bytes in all).

    Raises:
        ArtifactFormatError: The content is wrong.
        RegistryError: The source failed.
        StoreError: The store cannot be used.
    """
    missing = missing_layers(layers, store)
    if not missing:
        return 0
    transfer = _Transfer(source, store, progress, sum(layer.nbytes for layer in missing))
    try:
        return _fetched(missing, transfer)
    except (ArtifactFormatError, ArtifactNotFoundError):
        for layer in missing:
            store.blobs.forget_partial(layer.digest)
        raise


def _fetched(missing: Sequence[Descriptor], transfer: _Transfer) -> int:
    pool = ThreadPoolExecutor(min(_MOST_AT_ONCE, len(missing)), thread_name_prefix="ortpkg-fetch")
    try:
        tasks = [pool.submit(transfer.fetch, layer) for layer in missing]
        done, _ = wait(tasks, return_when=FIRST_EXCEPTION)
        failed = [task for task in tasks if task in done and task.exception() is not None]
        for task in failed:
            task.result()  # raises
        return sum(task.result() for task in tasks)
    finally:
        transfer.stop()
        pool.shutdown(cancel_futures=True)


class _StoppedError(Exception):
    """Signal that another layer failed, or that the user interrupted."""


class _Transfer:
    """State of all transfers of one call: the bytes received, and the request to stop."""

    def __init__(
        self, source: PackageSource, store: PackageStore, progress: Progress | None, nbytes: int
    ) -> None:
        self._source = source
        self._store = store
        self._progress = progress
        self._nbytes = nbytes
        self._done = 0
        self._lock = threading.Lock()
        self._is_stopped = threading.Event()

    def stop(self) -> None:
        """Stop all transfers at their next chunk."""
        self._is_stopped.set()

    def fetch(self, layer: Descriptor) -> int:
        """Fetch one layer and return the number of bytes received."""
        return self._store.blobs.receive(
            layer,
            lambda offset: self._source.read_blob(layer, offset),
            source=self._source.where,
            progress=self._advance,
        )

    def _advance(self, nbytes: int) -> None:
        if self._is_stopped.is_set():
            raise _StoppedError
        with self._lock:
            self._done += nbytes
            if self._progress is not None:
                self._progress(self._source.where, self._done, self._nbytes)
