"""New files in a folder that holds others: all of them come to lie there, or none.

They are made in a folder of their own inside that folder, then renamed to their places. A journal
says which file went where; whoever stages there next undoes what a killed process left in the midst
of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ortpkg.errors import AuthoringError, quoted
from ortpkg.package.integrity.digests import STAGING_PREFIX
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.storage.file_lock import hold_lock, is_unlocked
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.package_lock import lock_package

_PREFIX = f"{STAGING_PREFIX}files-"
_NAME = re.compile(re.escape(_PREFIX) + "[0-9a-f]{16}")
_TOKEN_NBYTES = 8
_NEW, _OLD = "new", "old"
_JOURNAL, _LOCK = "journal.json", "owner.lock"
_MOST_JOURNAL_NBYTES = 1 << 20

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What is to become of a folder.

    Attributes:
        adds: staged file's name → its name in the folder, in the order in which they come there.
        takes_away: names in the folder that go first, in that order; those of ``adds`` that are
            there are among them.
    """

    adds: Mapping[str, str]
    takes_away: tuple[str, ...] = ()


@contextlib.contextmanager
def staging_folder(
    target: Path, operations: FileOperations, *, on_wait: Notify | None = None
) -> Iterator[Path]:
    """Yields a new folder inside ``target`` to make files in.

    Nothing of it is left when the context is left.

    ``target`` is made where it is missing, and goes again where it is empty afterwards. What killed
    commands left there is undone first. AuthoringError where that cannot be done.
    """
    made = _make_folder(target, operations)
    staging = target / f"{_PREFIX}{secrets.token_hex(_TOKEN_NBYTES)}"
    try:
        with contextlib.ExitStack() as held:
            with lock_package(target, on_wait=on_wait):
                for leftover in leftovers(target):
                    _put_back(target, leftover, operations)
                    _remove(leftover, operations)
                operations.make_directory(staging)
                with contextlib.suppress(OSError):  # without locks, what is left cannot be told
                    held.enter_context(hold_lock(staging / _LOCK))
                operations.make_directory(staging / _NEW)
            yield staging / _NEW
    except OSError as error:
        raise AuthoringError(
            f"cannot write in {quoted(target)}: {error.strerror or error}"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            _remove(staging, operations)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def publish(
    target: Path,
    staged: Path,
    change: Callable[[], FileChange],
    operations: FileOperations,
    *,
    on_wait: Notify | None = None,
    on_commit: Callable[[], None] = lambda: None,
) -> None:
    """Moves what was made in ``staged`` to its places in ``target``: all of it or nothing.

    Args:
        target: the folder.
        staged: where the files were made.
        change: what is to happen; asked while nobody else publishes there, and may refuse.
        operations: change the disk.
        on_wait: is told what is being waited for.
        on_commit: called once all are in their places; an interrupt that comes so late is passed
            over.

    Raises AuthoringError where it cannot, and what ``change`` raises; then ``target`` is as it was.
    """
    with lock_package(target, on_wait=on_wait):
        wanted = change()
        try:
            _move(target, staged, wanted, operations)
            on_commit()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not any(
                map(os.path.lexists, _places(staged, wanted.adds))
            ):
                on_commit()
                return
            with contextlib.suppress(OSError):
                _put_back(target, staged.parent, operations)
            if isinstance(error, OSError):
                raise AuthoringError(
                    f"cannot change {quoted(target)}; nothing was changed:"
                    f" {error.strerror or error}"
                ) from error
            raise
        with contextlib.suppress(OSError):  # they are there; an error would claim that they are not
            operations.fsync_directory(target)


def _move(target: Path, staged: Path, wanted: FileChange, operations: FileOperations) -> None:
    journal = {
        "adds": {place: _identity(staged / name) for name, place in wanted.adds.items()},
        "staged": list(wanted.adds),
        "takes_away": list(wanted.takes_away),
    }
    operations.make_directory(staged.parent / _OLD)
    operations.write_file(staged.parent / _JOURNAL, json.dumps(journal).encode())
    operations.fsync_directory(staged.parent)
    for name in wanted.takes_away:
        operations.replace(target / name, staged.parent / _OLD / name)
    for name, place in wanted.adds.items():
        if os.path.lexists(target / place):
            raise AuthoringError(
                f"{quoted(target / place)} has come to lie there meanwhile; nothing was changed"
            )
        operations.replace(staged / name, target / place)


def _put_back(target: Path, leftover: Path, operations: FileOperations) -> None:
    """Takes away only files that are still what we put there; brings back only what is missing."""
    try:
        journal = json.loads((leftover / _JOURNAL).read_bytes()[:_MOST_JOURNAL_NBYTES])
        identities, staged, taken = journal["adds"], journal["staged"], journal["takes_away"]
        if not all(why_not_a_name(name) is None for name in (*identities, *staged, *taken)):
            return
        if not any(map(os.path.lexists, _places(leftover / _NEW, staged))):
            return  # all had been moved
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    for name, identity in identities.items():
        if os.path.lexists(target / name) and _identity(target / name) == identity:
            operations.remove_tree(target / name)
    for name in taken:
        if os.path.lexists(leftover / _OLD / name) and not os.path.lexists(target / name):
            operations.replace(leftover / _OLD / name, target / name)


def _remove(staging: Path, operations: FileOperations) -> None:
    """Removes the staging folder, its lock last.

    While the lock is there, whoever comes after a killed process can tell that nobody works here.
    """
    operations.remove_tree(staging / _NEW)
    operations.remove_tree(staging / _OLD)
    operations.remove_tree(staging)


def _places(folder: Path, names: Iterable[str]) -> list[Path]:
    return [folder / name for name in names]


def leftovers(target: Path) -> list[Path]:
    """What commands that were killed left in ``target``.

    What a living one works in is not among it.
    """
    if not target.is_dir():
        return []
    return [
        path for path in sorted(target.iterdir()) if _NAME.fullmatch(path.name) and _is_left(path)
    ]


def _is_left(staging: Path) -> bool:
    try:
        if not stat.S_ISDIR(staging.lstat().st_mode):
            return False
        if not (staging / _LOCK).exists():
            return not (
                staging / _NEW
            ).exists()  # killed between the two; on a file system without locks, none can tell
        return is_unlocked(staging / _LOCK)
    except OSError:
        return False


def _identity(path: Path) -> list[int]:
    """What a rename does not change; the inode alone may be given to another file later."""
    status = path.lstat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _make_folder(target: Path, operations: FileOperations) -> list[Path]:
    """Makes the folder and those around it that are missing; returns them, the innermost first."""
    missing = []
    folder = target
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    try:
        for each in reversed(missing):
            operations.make_directory(each)
    except OSError as error:
        raise AuthoringError(
            f"cannot make the folder {quoted(target)}: {error.strerror or error}"
        ) from error
    return missing
