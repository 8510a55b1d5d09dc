"""Replace a file in one step: no reader sees half of the new one, and old mappings stay valid."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ortpkg.foundations.errors import ModelFileError, quoted

_MOST_TRIES = 100
#: Characters of a name that leave room for the suffix, however many bytes they need.
_MOST_NAME = 58
_WINDOWS_ATTEMPTS = 20
_WINDOWS_PAUSE_S = 0.05

_LEFT = re.compile(r"\..{1,58}\.[0-9a-f]{12}", re.DOTALL)
#: A file that is still being written is younger than that.
_LEFT_AGE_S = 24 * 3600.0

Write = Callable[[BinaryIO], object]


def replace_file(
    path: Path,
    write: Write,
    *,
    replaces: bool = True,
    is_durable: bool = True,
    mode: int | None = None,
) -> None:
    """Write a new file and move it to ``path``; processes that map the old one keep its bytes.

    Args:
        path: where it appears, whole or not at all.
        write: called with the open file.
        replaces: False refuses to replace an existing file.
        is_durable: make it survive a power cut right afterwards.
        mode: its permissions; None for this process's default.

    Raises:
        FileExistsError: the file exists and may not be replaced.
        OSError: it cannot be written; on Windows also if another process maps the old one.
            Exceptions of ``write`` pass through.
    """
    if not replaces and os.path.lexists(path):
        raise FileExistsError(f"{quoted(path)} exists already")
    handle, temporary = _temporary_beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                temporary.chmod(mode)  # before it has content that others may not read
            write(file)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        if replaces:
            rename_over(temporary, path)
        else:
            _place_new(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_model_file(path: Path, write: Write, *, replaces: bool = True) -> None:
    """Write a file like :func:`replace_file`; ModelFileError if that is impossible."""
    try:
        replace_file(path, write, replaces=replaces)
    except FileExistsError as error:
        if replaces:
            raise ModelFileError(f"cannot write {quoted(path)}: {quoted(error)}") from error
        raise ModelFileError(f"{quoted(path)} exists already, and is never written over") from error
    except OSError as error:
        raise ModelFileError(f"cannot write {quoted(path)}: {quoted(error)}") from error


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that killed processes left in a folder, once they are a day old."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFT.fullmatch(entry.name) is not None:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if time.time() - status.st_mtime > _LEFT_AGE_S:
                        Path(entry.path).unlink()


def rename_over(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target`` atomically.

    An existing file is replaced; its readers keep the old one. Windows refuses while another
    process (a virus scanner, a reader) holds the target open: the rename is retried for a second.
    """
    for _ in range(_WINDOWS_ATTEMPTS if sys.platform == "win32" else 0):
        with contextlib.suppress(PermissionError):
            source.replace(target)
            return
        time.sleep(_WINDOWS_PAUSE_S)
    source.replace(target)


def _temporary_beside(path: Path) -> tuple[int, Path]:
    flags = (
        os.O_RDWR
        | os.O_CREAT
        | os.O_EXCL
        | getattr(os, "O_BINARY", 0)
        | getattr(os, "O_NOFOLLOW", 0)
    )
    for _ in range(_MOST_TRIES):
        temporary = path.with_name(f".{path.name[:_MOST_NAME]}.{os.urandom(6).hex()}")
        try:
            return os.open(temporary, flags, 0o666), temporary  # less the umask
        except FileExistsError:
            continue
    raise FileExistsError(f"no free name beside {quoted(path)}")


def _place_new(temporary: Path, path: Path) -> None:
    """Give the file its name.

    A link, unlike a rename, does not replace a file that appeared meanwhile.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError(f"{quoted(path)} exists already") from None
        temporary.rename(path)
    else:
        temporary.unlink()
