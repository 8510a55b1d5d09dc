"""Cache of contexts that were made at run time: one key for every execution provider.

The key is the SHA-256 of the whole descriptor: EP, SDK version, driver, device, architecture,
options, and the digests of the partition's graph and weights. So anything that matters makes a
miss, and nothing else does. A note beside each context file describes it, so that ``ortpkg cache
why`` can name differences.

Any number of processes may read and write entries: files appear in one step, a process that
compiles holds a lock that others wait for, and a damaged entry is ignored. The cache keeps to a
size; the least recently used entries are dropped first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.compiler.machine_code.kernel_cache import KernelCache
from ortpkg.foundations.errors import (
    EpContextError,
    EpContextWriteError,
    LimitExceededError,
    ModelFileError,
    quoted,
)
from ortpkg.foundations.host.directories import cache_directory
from ortpkg.foundations.quantities import time_limit_text
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.foundations.storage.process_lock import hold_lock
from ortpkg.runtime.ep_context.cache_leftovers import drop_leftovers
from ortpkg.runtime.ep_context.cache_owner import foreign_writers
from ortpkg.runtime.ep_context.context_file_writing import write_context_file
from ortpkg.runtime.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    descriptor_from_json,
)
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry, open_context_file

_log = logging.getLogger(__name__)

#: Largest size of the cache on the disk, in bytes.
MOST_NBYTES = 8 << 30
_SCHEMA_VERSION = 1
_MOST_NOTE_NBYTES = 1 << 20
#: Default of the longest wait, in seconds, for another process that compiles the same; afterwards
#: both compile.
_WAIT_S = 1800.0
#: Seconds after which a wait is logged.
_SILENT_WAIT_S = 1.0
#: Set explicitly, because a folder that any user may write to is not read.
_FOLDER_MODE = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedContext:
    """One entry of the cache.

    Attributes:
        key: key of the entry.
        descriptor: what it was made from and for.
        model: path of the model that it was made from; "" for a model from memory.
        partition: name of the partition.
        nbytes: size of its file.
        used_ns: time of its last use, in nanoseconds since 1970.
        path: path of its context file.
    """

    key: str
    descriptor: ContextDescriptor
    model: str
    partition: str
    nbytes: int
    used_ns: int
    path: Path


def context_cache_directory() -> Path:
    """Return the default directory of the cache."""
    return cache_directory() / "contexts"


def context_key(descriptor: ContextDescriptor) -> str:
    """Return the key of a context: a digest of everything that it depends on."""
    return hashlib.sha256(json.dumps(descriptor.to_json(), sort_keys=True).encode()).hexdigest()[
        :40
    ]


def context_file_name(key: str) -> str:
    """Return the name of a context's file in its cache."""
    return f"{key}.bin"


class EpContextCache:
    """Contexts in one directory, which need not exist yet."""

    def __init__(self, directory: Path, *, most_nbytes: int = MOST_NBYTES) -> None:
        self.directory = directory
        self._most_nbytes = most_nbytes

    def read(self, descriptor: ContextDescriptor, *, drops: bool = False) -> ContextEntry | None:
        """Return the context for exactly this descriptor; None if there is no valid one.

        ``drops``: True to delete a damaged one. Only for a caller that holds its lock: anyone else
        might delete what was repaired meanwhile.
        """
        key = context_key(descriptor)
        if not self.note_path(key).is_file():
            return None
        try:
            file = open_context_file(self.context_path(key), ep_name=descriptor.ep)
            context = next(
                (file.entry(name) for name in file.names if file.descriptor(name) == descriptor),
                None,
            )
        except EpContextError as error:
            if drops:
                _log.warning("a cached context is dropped: %s", error)
            context = None
        if context is None:
            if drops:
                self.drop(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(self.note_path(key))
        return context

    def write(self, entry: ContextEntry, *, model: str) -> bool:
        """Store a context, then make room; return True on success.

        A full or read-only disk stores nothing, and a warning is logged.
        """
        key = context_key(entry.descriptor)
        note = {
            "schema_version": _SCHEMA_VERSION,
            "model": model,
            "partition": entry.name,
            "descriptor": entry.descriptor.to_json(),
        }
        text = json.dumps(note, sort_keys=True, indent=1).encode()
        try:
            write_context_file(self.context_path(key), entry.descriptor.ep, [entry])
            replace_file(self.note_path(key), lambda file: file.write(text))
        except (OSError, ModelFileError, EpContextWriteError) as error:
            _log.warning("the context of %s cannot be kept: %s", quoted(entry.name), error)
            return False
        self.prune(self._most_nbytes, keep=key)
        return True

    @contextlib.contextmanager
    def lock(
        self,
        descriptor: ContextDescriptor,
        *,
        limit_s: float | None = None,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Hold the lock under which one process compiles what others then find.

        The system frees it when its holder is killed. The caller continues without the lock if the
        directory cannot have locks, or if another holds it for half an hour.

        Args:
            descriptor: descriptor of the context to compile.
            limit_s: longest wait in seconds.
            check_cancelled: called during the wait; its exceptions end the wait.

        Raises:
            LimitExceededError: the wait exceeds ``limit_s``.
        """
        path = self.directory / f"{context_key(descriptor)}.lock"
        wait = _Wait(descriptor.ep, limit_s, check_cancelled)
        with contextlib.ExitStack() as held:
            try:
                self.directory.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
                held.enter_context(hold_lock(path, timeout_s=_WAIT_S, while_waiting=wait.check))
            except TimeoutError:
                _log.warning(
                    "another process has compiled for %s for %.0f s; it is not waited for",
                    descriptor.ep,
                    _WAIT_S,
                )
            except OSError as error:
                _log.warning("the cache of contexts cannot be locked: %s", error)
            yield

    def entries(self) -> list[CachedContext]:
        """Return all entries, the most recently used first."""
        try:
            notes = sorted(self.directory.glob("*.json"))
        except OSError:
            return []
        entries = [entry for entry in map(self.entry, notes) if entry is not None]
        return sorted(entries, key=lambda entry: (-entry.used_ns, entry.key))

    def prune(self, most_nbytes: int, *, keep: str = "") -> int:
        """Drop the least recently used entries until the cache has at most ``most_nbytes``.

        Return the number of dropped entries. Half-written files of killed sessions are deleted,
        too. ``keep``: key of an entry that stays; the caller holds its lock.
        """
        drop_leftovers(self.directory, own=keep)
        dropped = self.beyond(most_nbytes, keep=keep)
        for entry in dropped:
            self.drop(entry.key)
        return len(dropped)

    def beyond(self, most_nbytes: int, *, keep: str = "") -> list[CachedContext]:
        """Return the least recently used entries beyond ``most_nbytes`` in sum.

        ``keep``: key of an entry that stays.
        """
        remaining, excess = most_nbytes, []
        for entry in self.entries():
            remaining -= entry.nbytes
            if remaining < 0 and entry.key != keep:
                excess.append(entry)
                remaining += entry.nbytes
        return excess

    def files_of(self, key: str) -> list[Path]:
        """Return the existing files of an entry, including its lock."""
        paths = (self.note_path(key), self.context_path(key), self.directory / f"{key}.lock")
        return [path for path in paths if path.is_file()]

    def drop(self, key: str) -> None:
        """Delete an entry; files that another process holds open (on Windows) stay."""
        for path in (self.note_path(key), self.context_path(key)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        lock = self.directory / f"{key}.lock"
        with contextlib.suppress(OSError), hold_lock(lock):
            # nobody holds it, and a process that opened it meanwhile notices the deletion
            lock.unlink(missing_ok=True)

    def entry(self, note: Path) -> CachedContext | None:
        """Return the entry of a note beside a context; None for an invalid note."""
        key = note.stem
        try:
            status, size = note.stat(), self.context_path(key).stat().st_size
            with note.open("rb") as file:
                content: Any = json.loads(file.read(_MOST_NOTE_NBYTES))
            if not isinstance(content, Mapping) or content.get("schema_version") != _SCHEMA_VERSION:
                return None
            return CachedContext(
                key=key,
                descriptor=descriptor_from_json(content.get("descriptor")),
                model=str(content.get("model", "")),
                partition=str(content.get("partition", "")),
                nbytes=size,
                used_ns=status.st_mtime_ns,
                path=self.context_path(key),
            )
        except (OSError, ValueError, RecursionError):
            return None

    def has(self, key: str) -> bool:
        """Return True if an entry with this key exists, judging by file names."""
        return self.context_path(key).is_file() and self.note_path(key).is_file()

    @property
    def kernels(self) -> KernelCache | None:
        """Compiled kernels beside the contexts; None if others may write to their folder."""
        folder = self.directory / "kernels"
        return None if foreign_writers(folder) else KernelCache(folder)

    def context_path(self, key: str) -> Path:
        """Return the path of a context's file."""
        return self.directory / context_file_name(key)

    def note_path(self, key: str) -> Path:
        """Return the path of the note beside a context.

        Its modification time is the time of the context's last use.
        """
        return self.directory / f"{key}.json"


class _Wait:
    """A wait for another process that compiles the same; it is logged and can be cancelled."""

    def __init__(self, ep: str, limit_s: float | None, check_cancelled: Callable[[], None]) -> None:
        self._ep = ep
        self._limit_s = limit_s
        self._check_cancelled = check_cancelled
        self._is_logged = False

    def check(self, waited_s: float) -> None:
        """Raise LimitExceededError at the caller's limit, or the caller's exception."""
        self._check_cancelled()
        if self._limit_s is not None and waited_s > self._limit_s:
            raise LimitExceededError(
                f"waiting for another process, which compiles the same for {self._ep}, passed"
                f" the time limit of {time_limit_text(self._limit_s)}",
                limit="time",
            )
        if waited_s > _SILENT_WAIT_S and not self._is_logged:
            self._is_logged = True
            _log.warning("waiting for another process, which compiles the same for %s", self._ep)
