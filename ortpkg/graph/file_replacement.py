"""A file written anew and moved over the old one in one step: no reader ever sees half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ortpkg.errors import ModelFileError, quoted


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a new file and moves it over ``path``, so that a file that someone has mapped keeps its bytes.

    Windows refuses to replace a mapped file; that is a ModelFileError like any other failure to write.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ModelFileError(f"cannot write {quoted(path)}: {quoted(error)}") from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ModelFileError(f"cannot write {quoted(path)}: {quoted(error)}") from error
        raise
