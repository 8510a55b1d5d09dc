"""Leases on parts of a store that processes use, and announcements of running collections.

Both are files in ``leases/``; a file without content yet means everything. A user first announces
its lease and then looks for collections; a collector first announces the collection and then looks
for leases. Whichever is first, one of the two sees the other (docs/adr/0021-store.md). The lock on
such a file only tells whether its process lives.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ortpkg.distribution.store.process_names import Maker, maker_of, new_name
from ortpkg.distribution.store.store_folder import StoreFolder, names_in
from ortpkg.foundations.errors import StoreError, quoted
from ortpkg.foundations.storage.held_file import hold, is_held
from ortpkg.package.stored_documents import dump_json, read_json

_LEASE, _COLLECTION = ".lease", ".gc"
_WAIT_S = 60.0
_PAUSE_S = 0.01
_ATTEMPTS = 5
_NEW_S = 0.5
#: Time that an announcement of another machine is believed although no lock is seen on it: a
#: network file system without locks shows none.
_FOREIGN_AGE_S = 7 * 24 * 3600.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, *_FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Parts of a store.

    Attributes:
        trees: Keys of package trees.
        blobs: SHA-256 of blobs.
        is_everything: True for the whole store, whatever the other attributes say.
    """

    trees: frozenset[str] = frozenset()
    blobs: frozenset[str] = frozenset()
    is_everything: bool = False

    def __or__(self, other: Holdings) -> Holdings:
        return Holdings(
            trees=self.trees | other.trees,
            blobs=self.blobs | other.blobs,
            is_everything=self.is_everything or other.is_everything,
        )

    def meets(self, other: Holdings) -> bool:
        """Return True if both have a part in common."""
        if self.is_everything or other.is_everything:
            return True
        return not (self.trees.isdisjoint(other.trees) and self.blobs.isdisjoint(other.blobs))

    def has_tree(self, key: str) -> bool:
        """Return True if the tree with that key is included."""
        return self.is_everything or key in self.trees

    def has_blob(self, sha256: str) -> bool:
        """Return True if that blob is included."""
        return self.is_everything or sha256 in self.blobs


class Lease:
    """Protection of parts of a store from collection, until release or the end of the process.

    Attributes:
        is_recorded: False if this process may not write to the store; then whoever may collect has
            to know that others use it.
    """

    def __init__(self, announcement: _Announcement | None) -> None:
        self.is_recorded = announcement is not None
        self._release = (
            None if announcement is None else weakref.finalize(self, announcement.withdraw)
        )

    def release(self) -> None:
        """Release what was held; a second call does nothing."""
        if self._release is not None:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take_lease(folder: StoreFolder, holdings: Holdings, *, timeout_s: float = _WAIT_S) -> Lease:
    """Hold parts of the store, whether they exist or not.

    Existing parts then stay. The call waits while some of them are being collected; those may be
    gone afterwards.

    Raises:
        StoreError: The collection took longer than ``timeout_s``.
        OSError: The lease cannot be written, for a reason other than a read-only store.
    """
    try:
        announcement = _announce(folder, holdings, _LEASE)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        return Lease(None)
    lease = Lease(announcement)
    try:
        _wait_for_collections(folder, holdings, timeout_s)
    except BaseException:
        lease.release()
        raise
    return lease


@contextlib.contextmanager
def announce_collection(folder: StoreFolder, holdings: Holdings) -> Iterator[None]:
    """Announce that ``holdings`` are being collected, unless a lease holds them."""
    announcement = _announce(folder, holdings, _COLLECTION)
    try:
        yield
    finally:
        announcement.withdraw()


def leased(folder: StoreFolder) -> Holdings:
    """Return what living processes hold now."""
    holdings = Holdings()
    for path in _announcements(folder, _LEASE):
        if not is_over(path):
            holdings |= _holdings_of(path)
    return holdings


def finished_announcements(folder: StoreFolder) -> list[Path]:
    """Return the announcements of processes that ended without withdrawing them."""
    return [
        path
        for suffix in (_LEASE, _COLLECTION)
        for path in _announcements(folder, suffix)
        if is_over(path)
    ]


def is_over(path: Path) -> bool:
    """Return True if the process that created and named the file ``path`` has ended."""
    if is_held(path):
        return False  # also if its process has ended while a child of it goes on
    match maker_of(path.name.partition(".")[0]):
        case Maker.LIVES:
            return False
        case Maker.IS_GONE:
            return True
    try:
        return time.time() - path.lstat().st_mtime > _FOREIGN_AGE_S
    except FileNotFoundError:
        return True


class _Announcement:
    """File in ``leases/`` that this process holds."""

    def __init__(self, folder: StoreFolder, path: Path, descriptor: int) -> None:
        self._folder = folder
        self._path = path
        self._descriptor = descriptor
        self._process = os.getpid()

    def withdraw(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        if os.getpid() == self._process:  # a forked child has a copy of what its parent still uses
            with contextlib.suppress(OSError):
                self._folder.operations.unlink(self._path)


def _announce(folder: StoreFolder, holdings: Holdings, suffix: str) -> _Announcement:
    """Create the file, lock it, and write what it announces.

    Until the content is written the file means everything. On a full disk it stays that way,
    because a collection must be able to make room.
    """
    if not folder.leases.is_dir():
        folder.prepare()
        folder.make_folder(folder.leases)
    path = folder.leases / f"{new_name()}{suffix}"
    folder.operations.before("create", path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    announcement = _Announcement(folder, path, descriptor)
    try:
        hold(descriptor)
        content = {"trees": sorted(holdings.trees), "blobs": sorted(holdings.blobs)}
        _write(folder, path, descriptor, dump_json(content))
    except BaseException:
        announcement.withdraw()
        raise
    return announcement


def _write(folder: StoreFolder, path: Path, descriptor: int, content: bytes) -> None:
    try:
        folder.operations.before("write", path)
        if os.write(descriptor, content) == len(content):
            return
    except OSError as error:
        if error.errno not in _FULL:
            raise
    os.truncate(descriptor, 0)


def _wait_for_collections(folder: StoreFolder, holdings: Holdings, timeout_s: float) -> None:
    began_s = time.monotonic()
    while (collection := _running_collection(folder, holdings)) is not None:
        if time.monotonic() - began_s > timeout_s:
            raise StoreError(
                f"another process has been collecting what is wanted of the store"
                f" {quoted(folder.root)} for {timeout_s:g} s, says {quoted(collection)}:"
                " try again when it is done"
            )
        time.sleep(_PAUSE_S)


def _running_collection(folder: StoreFolder, holdings: Holdings) -> Path | None:
    """Return the announcement of a collection that may take some of ``holdings``."""
    for path in _announcements(folder, _COLLECTION):
        if _may_collect(folder, path) and holdings.meets(_holdings_of(path)) and not is_over(path):
            return path
    return None


def _may_collect(folder: StoreFolder, path: Path) -> bool:
    """Return True if the announcer of a collection can delete blobs at all.

    Other users may write to ``leases/`` so that their sessions are seen, and nothing else. A pipe,
    a link or a folder announces nothing: announcements are regular files.
    """
    try:
        announcement = path.lstat()
        if not stat.S_ISREG(announcement.st_mode):
            return False
        blobs = folder.blobs.stat()
    except OSError:
        return True
    if sys.platform == "win32":
        return True
    owner = announcement.st_uid
    if owner in (0, blobs.st_uid) or blobs.st_mode & stat.S_IWOTH:
        return True
    return bool(blobs.st_mode & stat.S_IWGRP) and _is_in_group(owner, blobs.st_gid)


def _is_in_group(user: int, group: int) -> bool:
    """Return True if the user is in the group, or is unknown here, as in containers."""
    import pwd  # where there are users

    try:
        account = pwd.getpwuid(user)
    except KeyError:
        return True
    return group in os.getgrouplist(account.pw_name, account.pw_gid)


def _announcements(folder: StoreFolder, suffix: str) -> list[Path]:
    return [folder.leases / name for name in names_in(folder.leases) if name.endswith(suffix)]


def _holdings_of(path: Path) -> Holdings:
    """Return the holdings of an announcement; a new one gets a moment to be written."""
    for _ in range(_ATTEMPTS):
        try:
            document = read_json(path)
            if document is None:  # withdrawn meanwhile
                return Holdings()
            return Holdings(trees=frozenset(document["trees"]), blobs=frozenset(document["blobs"]))
        except (OSError, StoreError, KeyError, TypeError):
            if not _is_new(path):
                break
            time.sleep(_PAUSE_S)
    return Holdings(is_everything=True)


def _is_new(path: Path) -> bool:
    try:
        return abs(time.time() - path.lstat().st_mtime) < _NEW_S
    except OSError:
        return False
