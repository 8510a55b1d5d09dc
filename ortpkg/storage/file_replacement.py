"""A file written anew and put in its place in one step: no reader ever sees half of it, and nothing
is truncated.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ortpkg.errors import ModelFileError, quoted

#: As for any new file; the umask takes its part away.
_MODE = 0o666
_MOST_TRIES = 100


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a new file and moves it over ``path``, so that a file that someone has mapped keeps
    its bytes.

    Windows refuses to replace a mapped file; that is a ModelFileError like any other failure to
    write.
    """
    _write_and_place(path, write, lambda temporary: temporary.replace(path))


def create_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a new file and puts it at ``path``, where nothing may be: what is there stays as it
    is.

    Raises ModelFileError where something is there, or where it cannot be written.
    """
    if os.path.lexists(path):
        raise _exists(path)
    _write_and_place(path, write, lambda temporary: _place_new(temporary, path))


def _write_and_place(
    path: Path, write: Callable[[BinaryIO], object], place: Callable[[Path], object]
) -> None:
    try:
        handle, temporary = _temporary_beside(path)
    except OSError as error:
        raise ModelFileError(f"cannot write {quoted(path)}: {quoted(error)}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        place(temporary)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ModelFileError(f"cannot write {quoted(path)}: {quoted(error)}") from error
        raise


def _temporary_beside(path: Path) -> tuple[int, Path]:
    flags = (
        os.O_RDWR
        | os.O_CREAT
        | os.O_EXCL
        | getattr(os, "O_BINARY", 0)
        | getattr(os, "O_NOFOLLOW", 0)
    )
    for _ in range(_MOST_TRIES):
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        try:
            return os.open(temporary, flags, _MODE), temporary
        except FileExistsError:
            continue
    raise FileExistsError(f"no free name beside {quoted(path)}")


def _place_new(temporary: Path, path: Path) -> None:
    """Gives the file its name; a link, unlike a rename, does not take the place of what came there
    meanwhile.
    """
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:  # a file system without hard links
        if os.path.lexists(path):
            raise _exists(path) from error
        temporary.rename(path)
    else:
        temporary.unlink()


def _exists(path: Path) -> ModelFileError:
    return ModelFileError(f"{quoted(path)} exists already, and is never written over")
