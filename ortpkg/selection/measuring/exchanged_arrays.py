"""Lists of named arrays in one npz file, exchanged between a benchmark and its child processes.

An index in the file holds the names, so that any ONNX name is possible, and types that numpy does
not have (bfloat16) are stored as bytes with their name. Nothing is pickled.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_INDEX = "index"


def write_arrays(path: Path, feeds: Sequence[Mapping[str, Any]]) -> None:
    """Write one set of named arrays per run, leaving out other values (sequences, maps)."""
    index: list[list[dict[str, str]]] = []
    members: dict[str, Array] = {}
    for number, feed in enumerate(feeds):
        index.append([])
        for name, value in feed.items():
            if not isinstance(value, np.ndarray | np.generic):
                continue
            array = np.asarray(value)
            index[-1].append(
                {"name": name, "type": array.dtype.name if array.dtype.kind not in "OUS" else "str"}
            )
            members[f"{number}_{len(index[-1]) - 1}"] = _storable(array)
    members[_INDEX] = np.frombuffer(json.dumps(index).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **members)


def arrays_nbytes(path: Path) -> int:
    """Return the size of a file's arrays in memory, from its directory; 0 if there is no file."""
    if not path.exists():
        return 0
    with zipfile.ZipFile(path) as file:
        return sum(member.file_size for member in file.infolist())


def read_arrays(path: Path) -> list[dict[str, Array]]:
    """Return the arrays that :func:`write_arrays` wrote.

    Errors of numpy and the system are passed on if the file is something else.
    """
    with np.load(path, allow_pickle=False) as members:
        index = json.loads(members[_INDEX].tobytes())
        return [
            {
                entry["name"]: _restored(members[f"{number}_{position}"], entry["type"])
                for position, entry in enumerate(entries)
            }
            for number, entries in enumerate(index)
        ]


def _storable(array: Array) -> Array:
    if array.dtype.kind in "OUS":
        return array.astype(np.str_)
    if array.dtype.kind == "V":  # ml_dtypes
        return array.view(np.dtype(f"u{array.dtype.itemsize}"))
    return array


def _restored(array: Array, type_name: str) -> Array:
    if type_name == "str":
        return array.astype(object)
    if array.dtype.name == type_name:
        return array
    return array.view(np.dtype(getattr(ml_dtypes, type_name)))
