"""Read names, types and shapes of the arrays in an npz file, and labels; no pickled object."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.foundations.arrays.npy_header import read_npy_header, why_unreadable
from ortpkg.foundations.errors import quoted

_MOST_ARRAYS = 10_000
_MOST_ARRAY_NBYTES = 1 << 32


class NpzError(Exception):
    """File that is not an npz file, or one that is never loaded.

    The text is the end of a sentence that begins with the file's name.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayHeader:
    """One array of an npz file."""

    dtype: np.dtype
    shape: tuple[int, ...]


def read_npz_headers(path: Path) -> dict[str, ArrayHeader]:
    """Return the arrays in the npz file by name.

    Raises:
        NpzError: it cannot be read, is larger than the limits, or holds pickled objects.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_ARRAYS:
                raise NpzError(f"holds {len(members)} arrays; at most {_MOST_ARRAYS} are read")
            return {
                member.filename.removesuffix(".npy"): _read_header(archive, member)
                for member in members
            }
    except NpzError:
        raise
    except (
        Exception
    ) as error:  # zipfile, its decompressors and numpy's parser raise some twelve kinds
        raise NpzError(f"cannot be read: {why_unreadable(error)}") from error


def read_labels(path: Path, name: str) -> Sequence[Any]:
    """Return the values of a one-dimensional array whose header was read.

    Return () if its data is damaged, or far too large.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            values: list[Any] = arrays[name].tolist()
    except Exception:  # noqa: BLE001  # as above; running the samples will report the damage
        return ()
    return values


def _read_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ArrayHeader:
    with archive.open(member) as file:
        shape, _, dtype = read_npy_header(file, member.filename.removesuffix(".npy"))
    if dtype.hasobject:
        raise NpzError(
            f"holds pickled objects (array {quoted(member.filename)}), which are never loaded"
        )
    nbytes = dtype.itemsize
    for size in shape:
        nbytes *= size
    if nbytes > _MOST_ARRAY_NBYTES:
        raise NpzError(
            f"says that array {quoted(member.filename)} has {nbytes} bytes; at most 4 GiB are read"
        )
    return ArrayHeader(dtype=dtype, shape=shape)
