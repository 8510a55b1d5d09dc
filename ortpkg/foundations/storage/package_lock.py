"""Lock a package, so that one authoring command at a time changes it.

Readers never need the lock: each commit is one atomic rename. It lies in a directory of the user,
named after a hash of the package's real path: a package may be read-only, on a network share, or
signed, so nothing in it is touched. Two users do not exclude each other; for them the commit
compares the documents that it replaces with those that it read (``transaction.py``). If the user
has no writable directory (a container, a service), the lock lies in the directory for temporary
files.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ortpkg.foundations.errors import AuthoringError, PackageBusyError, quoted
from ortpkg.foundations.host.directories import cache_directory
from ortpkg.foundations.storage.process_lock import hold_lock

LOCK_TIMEOUT_S = 600.0
_UNUSED_AFTER_S = 3600.0
_MOST_REMOVED = 200  # at a time, so that no command has to wait for this
_MOST_HOLDER_NBYTES = 4096

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def lock_package(
    root: Path, *, timeout_s: float = LOCK_TIMEOUT_S, on_wait: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Lock the package at ``root``, which may not exist yet, against other commands of this user.

    Args:
        root: the package.
        timeout_s: how long to wait for another command.
        on_wait: called once with a sentence about the other command; by default it is logged as a
            warning.

    Raises:
        PackageBusyError: the other command did not finish in time.
        AuthoringError: the lock cannot be made.
    """
    directory = _writable_directory(root)
    path = directory / _lock_name(root)
    holder_path = path.with_suffix(".json")

    def tell(waited_s: float) -> None:
        if waited_s == 0:
            holder = _read_holder(holder_path)
            (on_wait or logger.warning)(f"waiting for {holder}, which is changing {quoted(root)}")

    with contextlib.ExitStack() as stack:
        try:
            path.touch(mode=0o600)  # so that nobody takes it for an unused one
            stack.enter_context(hold_lock(path, timeout_s=timeout_s, while_waiting=tell))
        except TimeoutError as error:
            raise _busy(root, _read_holder(holder_path), timeout_s) from error
        except OSError as error:
            raise AuthoringError(
                f"cannot lock {quoted(root)} through {quoted(path)}: {error}"
            ) from error
        try:
            _write_holder(holder_path)
            yield
        finally:
            with contextlib.suppress(OSError):
                holder_path.unlink(missing_ok=True)
            stack.close()
            _remove_unused(directory)


def locks_directory() -> Path:
    """Return the directory of this user's locks: ``locks`` in the directory of caches.

    That is ``ORTPKG_CACHE_DIR``, or the platform's.
    """
    return cache_directory() / "locks"


def _remove_unused(directory: Path) -> None:
    """Remove locks that nobody has wanted for an hour, e.g. of packages that are gone.

    A lock is removed only while it is held here, and only if it is still old: a waiting process has
    touched it first.
    """
    removed = 0
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            path = Path(entry.path)
            if removed == _MOST_REMOVED:
                return
            if path.suffix != ".lock" or not _is_unused(path):
                continue
            with contextlib.suppress(OSError), hold_lock(path):
                if _is_unused(path):
                    path.with_suffix(".json").unlink(missing_ok=True)
                    path.unlink(missing_ok=True)  # fails on Windows, which keeps open files
                    removed += 1


def _is_unused(path: Path) -> bool:
    return time.time() - path.lstat().st_mtime > _UNUSED_AFTER_S


def _writable_directory(root: Path) -> Path:
    """Return the directory of the user's locks, creating it if needed.

    Raises:
        AuthoringError: there is none that can be written.
    """
    directory = locks_directory()
    try:
        _make_writable(directory)
    except OSError as error:
        substitute = _temporary_directory()
        try:
            _make_writable(substitute)
            _check_owner(substitute)
        except OSError as second:
            raise AuthoringError(
                f"cannot lock {quoted(root)}: {quoted(directory)} cannot be written"
                f" ({error.strerror or error}), nor {quoted(substitute)}"
                f" ({second.strerror or second}); name another one in ORTPKG_CACHE_DIR"
            ) from error
        return substitute
    return directory


def _make_writable(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))


def _temporary_directory() -> Path:
    """Return a directory that is the same for all processes of a user, and no other user's."""
    user = str(os.getuid()) if sys.platform != "win32" else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir(), f"ortpkg-locks-{user}")


def _check_owner(directory: Path) -> None:
    """Raise PermissionError if somebody else created the directory and could exchange its files."""
    status = directory.lstat()
    if sys.platform != "win32" and (
        not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid()
    ):
        raise PermissionError(errno.EACCES, "it belongs to somebody else", str(directory))


def _lock_name(root: Path) -> str:
    real_root = os.path.normcase(os.path.realpath(root))
    return f"{hashlib.sha256(os.fsencode(real_root)).hexdigest()}.lock"


def _busy(root: Path, holder: str, timeout_s: float) -> PackageBusyError:
    return PackageBusyError(
        f"{quoted(root)} is still being changed by {holder} after {timeout_s:g} s; nothing was"
        " changed: try again when that command is done",
        holder=holder,
    )


def _write_holder(path: Path) -> None:
    """Record who holds the lock; only for messages, so a failure does not matter."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]]) if sys.argv else "python"
    with contextlib.suppress(OSError):
        path.write_text(
            json.dumps({"pid": os.getpid(), "command": command, "since": time.time()}),
            encoding="utf-8",
        )


def _read_holder(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            holder = json.loads(stream.read(_MOST_HOLDER_NBYTES))
        return f"{quoted(holder['command'])} (process {int(holder['pid'])})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another ortpkg command"
