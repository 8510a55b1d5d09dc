"""Headers of strangers' npy arrays, and what is wrong with a damaged file, in plain words."""

from __future__ import annotations

import zipfile
import zlib
from typing import IO, Any

import numpy as np

from ortpkg.errors import printable, quoted

_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}
_MAGIC = b"\x93NUMPY"
#: What reading a member of a damaged archive raises, as against what a damaged header makes numpy's
#: parser raise.
_ARCHIVE_ERRORS = (OSError, EOFError, zipfile.BadZipFile, zlib.error)


def read_npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran's order, and type of the array ``name`` that begins at ``file``.

    Raises ValueError, whose text ends in a plain reason, for what is no header; what reading
    ``file`` raises passes.
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
    """What keeps an npy or npz file from being read, as a phrase after "cannot read FILE: "."""
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
