"""Contexts made at run time, kept under the cache directory: one key for every execution provider.

The key is the SHA-256 of the whole descriptor: EP, SDK version, driver, device, architecture,
options, and the digests of the partition's graph and weights. So anything that matters makes a
miss, and nothing else does. Beside each context file lies a note that says what it is for, by which
``ortpkg cache why`` tells what differs.

Entries are read and written by any number of processes: files appear in one step, whoever compiles
holds a lock that others wait for, and an entry that is damaged is as if it were not there. The
cache keeps to a size; what was used least recently goes first.
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

from ortpkg.ep_context.cache_leftovers import drop_leftovers
from ortpkg.ep_context.cache_owner import foreign_writers
from ortpkg.ep_context.context_file_writing import write_context_file
from ortpkg.ep_context.ep_context_descriptor import (
    ContextDescriptor,
    descriptor_from_json,
)
from ortpkg.ep_context.ep_context_file import ContextEntry, open_context_file
from ortpkg.ep_context.kernel_cache import KernelCache
from ortpkg.errors import (
    EpContextError,
    EpContextWriteError,
    LimitExceededError,
    ModelFileError,
    quoted,
)
from ortpkg.host.directories import cache_directory
from ortpkg.quantities import time_limit_text
from ortpkg.storage.file_lock import hold_lock
from ortpkg.storage.file_replacement import replace_file

_log = logging.getLogger(__name__)

#: What the cache may take on the disk.
MOST_NBYTES = 8 << 30
_SCHEMA_VERSION = 1
_MOST_NOTE_NBYTES = 1 << 20
#: Longest wait for another process that compiles the same, where the caller states none; afterwards
#: both do.
_WAIT_S = 1800.0
#: After this the log says what is waited for.
_SILENT_WAIT_S = 1.0
#: Whatever the umask says: a folder that any user may write to is not read.
_FOLDER_MODE = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedContext:
    """One entry of the cache.

    Attributes:
        key: of it.
        descriptor: what it was made from and for.
        model: the file of the model that it was made of; "" where that came from memory.
        partition: name of the partition.
        nbytes: of its file.
        used_ns: when it was last used, in nanoseconds since 1970.
        path: its context file.
    """

    key: str
    descriptor: ContextDescriptor
    model: str
    partition: str
    nbytes: int
    used_ns: int
    path: Path


def context_cache_directory() -> Path:
    """Where the cache lies, where nobody says otherwise."""
    return cache_directory() / "contexts"


def context_key(descriptor: ContextDescriptor) -> str:
    """The key of a context: everything that it depends on."""
    return hashlib.sha256(json.dumps(descriptor.to_json(), sort_keys=True).encode()).hexdigest()[
        :40
    ]


def context_file_name(key: str) -> str:
    """The file of the context of that key in its cache."""
    return f"{key}.bin"


class EpContextCache:
    """The contexts in one directory, which need not exist yet."""

    def __init__(self, directory: Path, *, most_nbytes: int = MOST_NBYTES) -> None:
        self.directory = directory
        self._most_nbytes = most_nbytes

    def read(self, descriptor: ContextDescriptor, *, drops: bool = False) -> ContextEntry | None:
        """The context for exactly that descriptor; None where there is none that can be believed.

        ``drops``: one that is damaged is deleted. That is for who holds its lock: anybody else may
        delete what was mended meanwhile.
        """
        key = context_key(descriptor)
        if not self.note_path(key).is_file():
            return None
        try:
            file = open_context_file(self.context_path(key), ep_name=descriptor.ep)
            found = next(
                (file.entry(name) for name in file.names if file.descriptor(name) == descriptor),
                None,
            )
        except EpContextError as error:
            if drops:
                _log.warning("a cached context is dropped: %s", error)
            found = None
        if found is None:
            if drops:
                self.drop(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(self.note_path(key))
        return found

    def write(self, entry: ContextEntry, *, model: str) -> bool:
        """Keep a context, then makes room; whether it could.

        A disk that is full or read-only keeps nothing, and the log says so.
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
        """Held while one process compiles what others then find.

        The system frees it where its holder is killed.

        Goes on without it where the directory cannot have locks, or where a holder keeps it for
        half an hour.

        Args:
            descriptor: what is compiled.
            limit_s: longest wait.
            check_cancelled: called while it waits; what it raises ends the wait.

        Raises LimitExceededError where the wait passes ``limit_s``.
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
        """All entries, the most recently used first."""
        try:
            notes = sorted(self.directory.glob("*.json"))
        except OSError:
            return []
        found = [entry for entry in map(self.entry, notes) if entry is not None]
        return sorted(found, key=lambda entry: (-entry.used_ns, entry.key))

    def prune(self, most_nbytes: int, *, keep: str = "") -> int:
        """Drop what was used least recently until all is at most ``most_nbytes``.

        Returns how many entries went.

        What killed sessions left half written goes as well. ``keep``: a key that stays; the caller
        holds its lock.
        """
        drop_leftovers(self.directory, own=keep)
        dropped = self.beyond(most_nbytes, keep=keep)
        for entry in dropped:
            self.drop(entry.key)
        return len(dropped)

    def beyond(self, most_nbytes: int, *, keep: str = "") -> list[CachedContext]:
        """What was used least recently of all that is more than ``most_nbytes``.

        ``keep``: a key that stays.
        """
        left, found = most_nbytes, []
        for entry in self.entries():
            left -= entry.nbytes
            if left < 0 and entry.key != keep:
                found.append(entry)
                left += entry.nbytes
        return found

    def files_of(self, key: str) -> list[Path]:
        """The files of an entry that are there, its lock among them."""
        paths = (self.note_path(key), self.context_path(key), self.directory / f"{key}.lock")
        return [path for path in paths if path.is_file()]

    def drop(self, key: str) -> None:
        """Delete an entry; what another process holds open (on Windows) stays."""
        for path in (self.note_path(key), self.context_path(key)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        lock = self.directory / f"{key}.lock"
        with contextlib.suppress(OSError), hold_lock(lock):
            # nobody holds it, and who opened it meanwhile sees that it is gone
            lock.unlink(missing_ok=True)

    def entry(self, note: Path) -> CachedContext | None:
        """The entry beside whose context that note lies; None where it is none."""
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
        """Whether there is an entry of that key, as far as names of files tell."""
        return self.context_path(key).is_file() and self.note_path(key).is_file()

    @property
    def kernels(self) -> KernelCache | None:
        """The compiled kernels beside its contexts; None where others may write to their folder."""
        folder = self.directory / "kernels"
        return None if foreign_writers(folder) else KernelCache(folder)

    def context_path(self, key: str) -> Path:
        """The file of a context."""
        return self.directory / context_file_name(key)

    def note_path(self, key: str) -> Path:
        """What lies beside a context.

        When it was changed last is when the context was used last.
        """
        return self.directory / f"{key}.json"


class _Wait:
    """A wait for another process that compiles the same, which may be ended and is told of."""

    def __init__(self, ep: str, limit_s: float | None, check_cancelled: Callable[[], None]) -> None:
        self._ep = ep
        self._limit_s = limit_s
        self._check_cancelled = check_cancelled
        self._is_told = False

    def check(self, waited_s: float) -> None:
        """LimitExceededError at the caller's limit, and what the caller raises to end it."""
        self._check_cancelled()
        if self._limit_s is not None and waited_s > self._limit_s:
            raise LimitExceededError(
                f"waiting for another process, which compiles the same for {self._ep}, passed"
                f" the time limit of {time_limit_text(self._limit_s)}",
                limit="time",
            )
        if waited_s > _SILENT_WAIT_S and not self._is_told:
            self._is_told = True
            _log.warning("waiting for another process, which compiles the same for %s", self._ep)
