"""LoRA adapter files (``.onnx_adapter``): named tensors, as onnxruntime reads and writes them.

Source: ``adapter_schema.fbs`` of onnxruntime: a FlatBuffers file, identifier "TORT", root table
(format version, adapter version, model version, parameters), each parameter a table (name, dims,
data type, raw data). FlatBuffers' own layout: offsets are forward and relative to where they
stand; a table begins with the distance back to its vtable.
"""

from __future__ import annotations

import math
import mmap
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import AdapterFileError, quoted
from ortpkg.foundations.names import did_you_mean_path
from ortpkg.foundations.storage.file_replacement import write_model_file
from ortpkg.graph.types import MOST_DIMENSIONS, ElementType, numpy_dtype

Tensor = npt.NDArray[Any]

FORMAT_VERSION = 1
_IDENTIFIER = b"TORT"
#: Field offsets of both tables: four fields of four bytes behind the distance to the vtable.
_VTABLE = struct.pack("<6H", 12, 20, 4, 8, 12, 16)
_TABLE_NBYTES = 20
_ALIGNMENT = 8
_MOST_PARAMETERS = 1 << 20
#: Types that the schema knows and that have a raw form.
_TYPES = frozenset(range(1, 21)) - {int(ElementType.STRING)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFile:
    """The content of an adapter file; arrays are read-only if they were read from a file."""

    parameters: Mapping[str, Tensor]
    element_types: Mapping[str, ElementType]
    format_version: int = FORMAT_VERSION
    adapter_version: int = 0
    model_version: int = 0


# --- writing --------------------------------------------------------------------------------------


def write_adapter(adapter: AdapterFile, path: Path) -> None:
    """Write the file, replacing an existing one in one step.

    Raises:
        ModelFileError: if that is not possible.
    """
    content = _serialized(adapter)
    write_model_file(path, lambda file: file.write(content))


def _serialized(adapter: AdapterFile) -> bytes:
    made = bytearray(struct.pack("<I4s", 0, _IDENTIFIER))
    root = _begin_table(made)
    struct.pack_into("<I", made, 0, root)
    versions = (adapter.format_version, adapter.adapter_version, adapter.model_version)
    struct.pack_into("<3i", made, root + 4, *versions)
    _point(made, root + 16)
    start = _append(
        made, struct.pack("<I", len(adapter.parameters)) + bytes(4 * len(adapter.parameters))
    )
    for number, (name, array) in enumerate(adapter.parameters.items()):
        table = _begin_table(made)
        slot = start + 4 + 4 * number
        struct.pack_into("<I", made, slot, table - slot)
        struct.pack_into("<i", made, table + 12, int(adapter.element_types[name]))
        text = name.encode()
        _point(made, table + 4)
        _append(made, struct.pack("<I", len(text)) + text + b"\0")
        _append_vector(made, table + 8, struct.pack(f"<{array.ndim}q", *array.shape), array.ndim)
        data = np.ascontiguousarray(array).tobytes()
        _append_vector(made, table + 16, data, len(data))
    return bytes(made)


def _begin_table(made: bytearray) -> int:
    """Append the vtable and an empty table, and return the table's position."""
    vtable = _append(made, _VTABLE)
    return _append(made, struct.pack("<i", len(made) - vtable) + bytes(_TABLE_NBYTES - 4))


def _append(made: bytearray, content: bytes) -> int:
    position = len(made)
    made += content + bytes(-len(content) % 4)
    return position


def _append_vector(made: bytearray, slot: int, content: bytes, count: int) -> None:
    """Append a vector whose elements begin at a multiple of eight bytes."""
    made += bytes(-(len(made) + 4) % _ALIGNMENT)
    _point(made, slot)
    _append(made, struct.pack("<I", count) + content)


def _point(made: bytearray, slot: int) -> None:
    """Make the offset at ``slot`` point to the current end, where the next data goes."""
    struct.pack_into("<I", made, slot, len(made) - slot)


# --- reading --------------------------------------------------------------------------------------


def read_adapter(path: Path) -> AdapterFile:
    """Read the file; its tensors stay mapped.

    Raises:
        AdapterFileError: if there is no such file, or it is no adapter or damaged.
    """
    try:
        # Looked at before it is opened: opening a pipe would wait for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("it is not a regular file")
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise AdapterFileError(
            f"there is no adapter {quoted(path)}{did_you_mean_path(path)}"
        ) from error
    except (OSError, ValueError) as error:
        raise AdapterFileError(
            f"the adapter {quoted(path)} cannot be read: {quoted(error)}"
        ) from error
    try:
        return _Reader(content).read()
    except (struct.error, UnicodeDecodeError, ValueError, KeyError) as error:
        raise AdapterFileError(
            f"{quoted(path)} is no adapter, or is damaged: {quoted(error)}"
        ) from error


class _Reader:
    """Reads one file.

    Positions are checked where they are followed: struct and numpy refuse any outside the file.
    """

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content

    def read(self) -> AdapterFile:
        """Return the whole file; ValueError or struct.error describes any damage."""
        (root,) = struct.unpack_from("<I", self._content, 0)
        if self._content[4:8] != _IDENTIFIER:
            raise ValueError("the identifier TORT is missing")
        versions = [self._number(root, field) for field in range(3)]
        if versions[0] != FORMAT_VERSION:
            raise ValueError(f"format version {versions[0]}; {FORMAT_VERSION} is known")
        arrays: dict[str, Tensor] = {}
        types: dict[str, ElementType] = {}
        start, count = self._vector(root, 3, most=_MOST_PARAMETERS)
        for number in range(count):
            slot = start + 4 * number
            table = slot + self._offset(slot)
            name, array, element_type = self._parameter(table)
            if name in arrays:
                raise ValueError(f"parameter {name!r} is there twice")
            arrays[name], types[name] = array, element_type
        return AdapterFile(
            parameters=arrays,
            element_types=types,
            format_version=versions[0],
            adapter_version=versions[1],
            model_version=versions[2],
        )

    def _parameter(self, table: int) -> tuple[str, Tensor, ElementType]:
        start, length = self._vector(table, 0, most=len(self._content))
        name = self._content[start : start + length].decode()
        start, rank = self._vector(table, 1, most=MOST_DIMENSIONS)
        shape = struct.unpack_from(f"<{rank}q", self._content, start)
        number = self._number(table, 2)
        if number not in _TYPES or min(shape, default=0) < 0:
            raise ValueError(f"parameter {name!r} has type {number} and shape {shape}")
        dtype = numpy_dtype(ElementType(number))
        start, nbytes = self._vector(table, 3, most=len(self._content))
        if math.prod(shape) * dtype.itemsize != nbytes:
            raise ValueError(f"parameter {name!r} has {nbytes} bytes for shape {shape}")
        if not nbytes:
            return name, np.empty(shape, dtype), ElementType(number)
        flat = np.frombuffer(self._content, dtype, math.prod(shape), start)
        return name, flat.reshape(shape), ElementType(number)

    def _vector(self, table: int, field: int, *, most: int) -> tuple[int, int]:
        """Return (position of the first element, count); (0, 0) if the field is left out."""
        slot = self._field(table, field)
        if slot is None:
            return 0, 0
        start = slot + self._offset(slot)
        (count,) = struct.unpack_from("<I", self._content, start)
        if count > most:
            raise ValueError(f"a vector of {count} elements")
        return start + 4, count

    def _number(self, table: int, field: int) -> int:
        slot = self._field(table, field)
        return 0 if slot is None else int(struct.unpack_from("<i", self._content, slot)[0])

    def _field(self, table: int, field: int) -> int | None:
        (distance,) = struct.unpack_from("<i", self._content, table)
        vtable = table - distance
        if vtable < 0:
            raise ValueError("a table before the file")
        (size,) = struct.unpack_from("<H", self._content, vtable)
        if 4 + 2 * field >= size:
            return None
        (offset,) = struct.unpack_from("<H", self._content, vtable + 4 + 2 * field)
        return table + offset if offset else None

    def _offset(self, slot: int) -> int:
        return int(struct.unpack_from("<I", self._content, slot)[0])
