"""Layers on their way into the store: several at once, none that is there, each verified."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from ortpkg.distribution.package_sources import PackageSource
from ortpkg.errors import ArtifactFormatError, ArtifactNotFoundError
from ortpkg.registry.descriptors import Descriptor
from ortpkg.storage.hashing import Progress
from ortpkg.store.package_store import PackageStore

_MOST_AT_ONCE = 4


def missing_layers(layers: Iterable[Descriptor], store: PackageStore) -> list[Descriptor]:
    """The layers that the store does not have, or has damaged, each once, the largest first.

    Large ones come first so that, at the end, all connections have something to do.
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
    """Fetches the layers that the store does not have; returns how many bytes came.

    After a broken connection or an interrupt, the next call goes on with what has arrived; of a
    source that lies, or lacks a layer, nothing is kept.

    Args:
        layers: what is wanted; the caller has a lease on them.
        source, store: from where, and where to.
        progress: called with (where from, bytes done, bytes in all), by several threads.

    Raises:
        ArtifactFormatError: what came is something else.
        RegistryError: the source failed; StoreError: the store cannot be used.
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
    """Another layer failed, or the user interrupted."""


class _Transfer:
    """All layers of one call: how much has come, and whether any more shall."""

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
        """What is still under way ends at its next chunk."""
        self._is_stopped.set()

    def fetch(self, layer: Descriptor) -> int:
        """Fetches one layer."""
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
