"""Reads untrusted npy and npz files, and writes outputs to one npz file.

Pickled objects are never loaded. Before anything is allocated, the header is checked, and that the
file is as long as the header says.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.arrays.npy_header import read_npy_header, why_unreadable
from ortpkg.foundations.errors import UsageError, quoted, unquoted
from ortpkg.foundations.storage.output_writing import write_output

Array = npt.NDArray[Any]

#: Largest array in an input file, in bytes.
MOST_ARRAY_NBYTES = 1 << 32
#: Most arrays in one npz file.
MOST_ARRAYS = 10_000
#: Deflate expands a byte to at most 1032; bzip2 and LZMA, which npz files do not use, expand far
#: more.
_MOST_EXPANSION = 1032


def read_npy(path: Path) -> Array:
    """Return the array in an npy file.

    Raises:
        UsageError: The file is missing, too large, damaged, or holds Python objects.
    """
    with _read_errors(path), path.open("rb") as file:
        return _read_array(file, path.name, os.fstat(file.fileno()).st_size)


def read_npz(path: Path) -> dict[str, Array]:
    """Return the arrays in an npz file by name.

    Raises:
        UsageError: See :func:`read_npy`.
    """
    arrays: dict[str, Array] = {}
    with _read_errors(path), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MOST_ARRAYS:
            raise ValueError(f"it holds {len(members)} arrays; at most {MOST_ARRAYS} are read")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"array {quoted(name)} is there twice")
            if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise ValueError(
                    f"array {quoted(name)} is compressed in a way that npz files do not use"
                )
            with archive.open(member) as file:
                arrays[name] = _read_array(
                    file,
                    name,
                    min(member.file_size, member.compress_size * _MOST_EXPANSION + _MOST_EXPANSION),
                )
                if file.read(1):  # the checksum of a member is compared only at its end
                    raise ValueError(f"array {quoted(name)} is followed by other bytes")
    return arrays


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    """Convert the dozen kinds of errors that zipfile and numpy raise for damaged files."""
    try:
        verify_regular(path)
        yield
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"cannot read {quoted(path)}: {why_unreadable(error)}") from error


def verify_regular(path: Path) -> None:
    """Raise UsageError unless ``path`` is a regular file.

    Opening a pipe would wait for its writer.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(f"cannot read {quoted(path)}: it is not a regular file")


def _read_array(file: IO[bytes], name: str, file_nbytes: int) -> Array:
    shape, is_fortran, dtype = read_npy_header(file, name)
    if dtype.hasobject:
        raise ValueError(
            f"array {quoted(name)} holds pickled Python objects, which are never loaded"
        )
    count = 1
    for size in shape:
        count *= size
    nbytes = count * dtype.itemsize
    if any(size < 0 for size in shape) or (count and not dtype.itemsize):
        raise ValueError(
            f"array {quoted(name)} says it has the shape {shape} of {dtype.itemsize} bytes each"
        )
    if nbytes > MOST_ARRAY_NBYTES:
        raise ValueError(
            f"array {quoted(name)} says it has {nbytes} bytes; at most {MOST_ARRAY_NBYTES} are read"
        )
    if nbytes > file_nbytes:
        raise ValueError(
            f"array {quoted(name)} says it has {nbytes} bytes; the file is too short for that"
        )
    data = bytearray(nbytes)
    view = memoryview(data)
    done = 0
    while done < nbytes:
        chunk = file.read(min(nbytes - done, 1 << 24))
        if not chunk:
            raise ValueError(f"array {quoted(name)} ends after {done} of {nbytes} bytes")
        view[done : done + len(chunk)] = chunk
        done += len(chunk)
    flat = np.frombuffer(data, dtype=dtype, count=count)
    return flat.reshape(shape, order="F" if is_fortran else "C")


# --- writing --------------------------------------------------------------------------------------


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to one npz file that ``numpy.load`` reads without unpickling.

    The file appears completely or not at all; see
    :func:`~ortpkg.foundations.storage.output_writing.write_output`. Texts become fixed-width
    unicode. The tensors of a sequence are written as ``name.0``, ``name.1``, ...

    Raises:
        UsageError: The file cannot be written, or npz files cannot hold an output.
    """
    written = {
        name: array for output, value in arrays.items() for name, array in _storable(output, value)
    }
    try:
        write_output(
            path, lambda file: _write_zip(file if _is_regular(file) else _Stream(file), written)
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"cannot write {quoted(path)}: {unquoted(reason)}") from error


def npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes that :func:`write_npz` writes; equal arrays give equal bytes.

    Raises:
        UsageError: See :func:`write_npz`.
    """
    file = io.BytesIO()
    _write_zip(
        file,
        {
            name: array
            for output, value in arrays.items()
            for name, array in _storable(output, value)
        },
    )
    return file.getvalue()


def _is_regular(file: IO[bytes]) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


class _Stream:
    """File that is only written to, and so needs no position, which /dev/null does not have."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write
        self.flush = file.flush


def _write_zip(file: Any, arrays: Mapping[str, Array]) -> None:
    # numpy.savez takes names as keywords, so an output named "file" or "allow_pickle" could not be
    # written.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            # Entries have zip's first time, so that the bytes do not depend on when they are
            # written.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _storable(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """Yield the names and arrays that an output is written as."""
    if "\0" in name:
        raise UsageError(
            f"output {quoted(name)} cannot be written: names in npz files end at a NUL"
        )
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _storable(f"{name}.{index}", item)
        return
    if value is None or isinstance(value, Mapping):
        what = "a map" if isinstance(value, Mapping) else "nothing"
        raise UsageError(
            f"output {quoted(name)} cannot be written: it is {what}, and npz files hold arrays"
        )
    array = np.asarray(value)
    if array.dtype.kind in "OT":
        array = _as_unicode(name, array)
    yield name, array


def _as_unicode(name: str, array: Array) -> Array:
    """Return texts as fixed-width unicode, which is read without unpickling."""
    objects = array.astype(object)
    texts = [
        item.decode("utf-8", "replace") if isinstance(item, bytes) else item
        for item in objects.ravel()
    ]
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(
            f"output {quoted(name)} cannot be written: it holds Python objects, not numbers or"
            " texts"
        )
    if any(text.endswith("\0") for text in texts):
        raise UsageError(
            f"output {quoted(name)} cannot be written: npz files drop the NUL at the end of a text"
        )
    return np.array(texts, dtype=np.str_).reshape(array.shape)
