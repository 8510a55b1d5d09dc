"""Replaces a file in one step: no reader sees half of the new one, the old one keeps its bytes."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ortpkg.errors import ModelFileError, quoted

_MOST_TRIES = 100
#: So many characters of a name leave room for what is added, whatever they are.
_MOST_NAME = 58
_WINDOWS_ATTEMPTS = 20
_WINDOWS_PAUSE_S = 0.05

_LEFT = re.compile(r"\..{1,58}\.[0-9a-f]{12}", re.DOTALL)
#: Whoever still writes a file has written to it within that time.
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
    """Writes a new file and moves it to ``path``; who has the old one mapped keeps its bytes.

    Args:
        path: where it appears, whole or not at all.
        write: is handed the file.
        replaces: whether it takes the place of what is there.
        is_durable: whether it survives that the machine loses power a moment later.
        mode: its permissions; left out, those that this process gives new files.

    Raises OSError (FileExistsError where something is there and stays; on Windows also where
    someone has mapped what is to be replaced), and what ``write`` raises.
    """
    if not replaces and os.path.lexists(path):
        raise FileExistsError(f"{quoted(path)} exists already")
    handle, temporary = _temporary_beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                temporary.chmod(mode)  # before there is anything in it that others may not read
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
    """As :func:`replace_file`; ModelFileError where that is not possible."""
    try:
        replace_file(path, write, replaces=replaces)
    except FileExistsError as error:
        if replaces:
            raise ModelFileError(f"cannot write {quoted(path)}: {quoted(error)}") from error
        raise ModelFileError(f"{quoted(path)} exists already, and is never written over") from error
    except OSError as error:
        raise ModelFileError(f"cannot write {quoted(path)}: {quoted(error)}") from error


def remove_leftovers(folder: Path) -> None:
    """Removes what processes that were killed while they replaced files left in a folder.

    Once it is a day old: nobody writes to it any more.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFT.fullmatch(entry.name) is not None:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if time.time() - status.st_mtime > _LEFT_AGE_S:
                        Path(entry.path).unlink()


def rename_over(source: Path, target: Path) -> None:
    """Renames ``source`` to ``target`` atomically.

    An existing file is replaced, its readers keep theirs.

    Windows refuses while another process (a virus scanner, a reader) holds the target open: tried
    again for a second.
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
    """Gives the file its name.

    A link, unlike a rename, does not take the place of what came there meanwhile.
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
