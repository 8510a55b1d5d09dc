"""Headers of untrusted npy arrays, and plain reasons why a damaged file cannot be read."""

from __future__ import annotations

import zipfile
import zlib
from typing import IO, Any

import numpy as np

from ortpkg.foundations.errors import printable, quoted

_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}
_MAGIC = b"\x93NUMPY"
#: Errors of reading a member of a damaged archive, as opposed to those of numpy's parser for a
#: damaged header.
_ARCHIVE_ERRORS = (OSError, EOFError, zipfile.BadZipFile, zlib.error)


def read_npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, Fortran order and type of the array ``name`` that begins at ``file``.

    Raises:
        ValueError: There is no valid header; the text ends in a plain reason.
        OSError: ``file`` cannot be read.
    """
    begin = file.read(len(_MAGIC) + 2)
    if begin[: len(_MAGIC)] != _MAGIC[: len(begin)]:
        raise ValueError(f"array {quoted(name)} does not begin as npy data does")
    if len(begin) < len(_MAGIC) + 2:
        raise ValueError(f"array {quoted(name)} ends within its header")
    version = (begin[-2], begin[-1])
    if version not in _READERS:
        raise ValueError(f"npy files of version {version[0]}.{version[1]} are not known")
    try:
        return _READERS[version](file)
    except _ARCHIVE_ERRORS:
        raise
    except Exception as error:  # numpy's parser raises some eight kinds, with Python's own texts
        raise ValueError(
            f"array {quoted(name)} has a damaged header, or one that is cut off"
        ) from error


def why_unreadable(error: Exception) -> str:
    """Return why an npy or npz file cannot be read, as a phrase after "cannot read FILE: "."""
    if isinstance(error, zipfile.BadZipFile):
        text = printable(error)
        if text == "File is not a zip file":
            return "it is no npz file (a zip archive), or its end is missing"
        return f"the archive is damaged ({text})"
    if isinstance(error, zlib.error | EOFError):
        return "its compressed data is damaged or cut off"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, OSError | ValueError | RuntimeError) and str(error):
        return printable(error)
    return "it is damaged"
