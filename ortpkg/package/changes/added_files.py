"""Add files to a folder that holds others: all of them appear, or none.

Files are made in a staging folder inside the target folder and then renamed into place. A journal
lists the renames; the next process that stages files there undoes what a killed one left half done.
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

from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.file_stamp import renamed_identity
from ortpkg.foundations.storage.package_lock import lock_package
from ortpkg.foundations.storage.process_lock import hold_lock, is_unlocked
from ortpkg.package.integrity.digests import STAGING_PREFIX
from ortpkg.package.paths.path_text import why_not_a_name

_PREFIX = f"{STAGING_PREFIX}files-"
_NAME = re.compile(re.escape(_PREFIX) + "[0-9a-f]{16}")
_TOKEN_NBYTES = 8
_NEW, _OLD = "new", "old"
_JOURNAL, _LOCK = "journal.json", "owner.lock"
_MOST_JOURNAL_NBYTES = 1 << 20

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """Planned change of a folder.

    Attributes:
        adds: name of the staged file → its name in the folder, in the order of the renames.
        takes_away: names in the folder that are removed first, in that order, including those that
            ``adds`` replaces.
    """

    adds: Mapping[str, str]
    takes_away: tuple[str, ...] = ()


@contextlib.contextmanager
def staging_folder(
    target: Path, operations: FileOperations, *, on_wait: Notify | None = None
) -> Iterator[Path]:
    """Create a staging folder inside ``target``, yield it, and remove it afterwards.

    ``target`` is created if it is missing, and removed again if it is empty afterwards. Leftovers
    of killed processes are undone first.

    Raises:
        AuthoringError: the folder cannot be written.
    """
    made = _make_folder(target, operations)
    staging = target / f"{_PREFIX}{secrets.token_hex(_TOKEN_NBYTES)}"
    try:
        with contextlib.ExitStack() as stack:
            with lock_package(target, on_wait=on_wait):
                for leftover in leftovers(target):
                    _put_back(target, leftover, operations)
                    _remove(leftover, operations)
                operations.make_directory(staging)
                with contextlib.suppress(
                    OSError
                ):  # without locks, a leftover looks like work in progress
                    stack.enter_context(hold_lock(staging / _LOCK))
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
    """Move the files made in ``staged`` into ``target``: all of them, or none.

    Args:
        target: the folder.
        staged: the folder that :func:`staging_folder` yielded.
        change: returns the change to make; called under the lock, and may raise to refuse.
        operations: change the disk.
        on_wait: called with a message if another process holds the lock.
        on_commit: called once all files are in place; an interrupt after that is ignored.

    Raises:
        AuthoringError: the folder cannot be changed; it is as before. Exceptions of ``change`` pass
            through.
    """
    with lock_package(target, on_wait=on_wait):
        planned = change()
        try:
            _move(target, staged, planned, operations)
            on_commit()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not any(
                map(os.path.lexists, _paths(staged, planned.adds))
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
        with contextlib.suppress(OSError):  # the files are in place; an error would deny it
            operations.fsync_directory(target)


def _move(target: Path, staged: Path, planned: FileChange, operations: FileOperations) -> None:
    journal = {
        "adds": {
            new_name: renamed_identity(staged / name) for name, new_name in planned.adds.items()
        },
        "staged": list(planned.adds),
        "takes_away": list(planned.takes_away),
    }
    operations.make_directory(staged.parent / _OLD)
    operations.write_file(staged.parent / _JOURNAL, json.dumps(journal).encode())
    operations.fsync_directory(staged.parent)
    for name in planned.takes_away:
        operations.replace(target / name, staged.parent / _OLD / name)
    for name, new_name in planned.adds.items():
        if os.path.lexists(target / new_name):
            raise AuthoringError(
                f"{quoted(target / new_name)} has come to lie there meanwhile; nothing was changed"
            )
        operations.replace(staged / name, target / new_name)


def _put_back(target: Path, leftover: Path, operations: FileOperations) -> None:
    """Undo the renames that the journal in ``leftover`` lists.

    Remove only files that are still what was put there; restore only what is missing.
    """
    try:
        journal = json.loads((leftover / _JOURNAL).read_bytes()[:_MOST_JOURNAL_NBYTES])
        identities, staged, taken_away = journal["adds"], journal["staged"], journal["takes_away"]
        if not all(why_not_a_name(name) is None for name in (*identities, *staged, *taken_away)):
            return
        if not any(map(os.path.lexists, _paths(leftover / _NEW, staged))):
            return  # all files had been moved: the change was complete
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    for name, identity in identities.items():
        if os.path.lexists(target / name) and renamed_identity(target / name) == identity:
            operations.remove_tree(target / name)
    for name in taken_away:
        if os.path.lexists(leftover / _OLD / name) and not os.path.lexists(target / name):
            operations.replace(leftover / _OLD / name, target / name)


def _remove(staging: Path, operations: FileOperations) -> None:
    """Remove the staging folder, its lock last.

    As long as the lock file exists, the next process can tell that nobody works here any more.
    """
    operations.remove_tree(staging / _NEW)
    operations.remove_tree(staging / _OLD)
    operations.remove_tree(staging)


def _paths(folder: Path, names: Iterable[str]) -> list[Path]:
    return [folder / name for name in names]


def leftovers(target: Path) -> list[Path]:
    """Return the staging folders in ``target`` whose process was killed, sorted.

    Folders of running processes are not among them.
    """
    if not target.is_dir():
        return []
    return [
        path
        for path in sorted(target.iterdir())
        if _NAME.fullmatch(path.name) and _is_abandoned(path)
    ]


def _is_abandoned(staging: Path) -> bool:
    try:
        if not stat.S_ISDIR(staging.lstat().st_mode):
            return False
        if not (staging / _LOCK).exists():
            return not (
                staging / _NEW
            ).exists()  # killed between making the two; without file locks, nobody can tell
        return is_unlocked(staging / _LOCK)
    except OSError:
        return False


def _make_folder(target: Path, operations: FileOperations) -> list[Path]:
    """Create the folder and its missing parents; return those created, the innermost first."""
    missing = []
    folder = target
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    try:
        for path in reversed(missing):
            operations.make_directory(path)
    except OSError as error:
        raise AuthoringError(
            f"cannot make the folder {quoted(target)}: {error.strerror or error}"
        ) from error
    return missing
