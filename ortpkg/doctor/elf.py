"""Which shared libraries a native library needs, read from its file. Nothing is loaded.

Source: the ELF specification, "Dynamic Linking"; ld.so(8) for where libraries are looked for. Files
of 64 bits only, which all backends are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 15, 29
_MOST_HEADERS = 256
_MOST_DYNAMIC_NBYTES = 1 << 16
_MOST_STRING_NBYTES = 1 << 24
_DEFAULT_DIRECTORIES = (
    "lib",
    "lib64",
    "usr/lib",
    "usr/lib64",
    "usr/local/lib",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
)
_CACHE = "etc/ld.so.cache"
_MOST_CACHE_NBYTES = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededLibraries:
    """What a library names: the libraries that it needs, and where it wants them looked for."""

    names: tuple[str, ...]
    run_paths: tuple[str, ...]


def read_needed(path: Path) -> NeededLibraries | None:
    """What the library in ``path`` needs.

    None where it is no ELF file of 64 bits, or is damaged.
    """
    try:
        with path.open("rb") as file:
            return _read(file)
    except (OSError, ValueError, struct.error):
        return None


def missing_libraries(
    path: Path, *, root: Path = Path("/"), search: Sequence[Path] = (), library_path: str = ""
) -> tuple[str, ...]:
    """Libraries that ``path`` needs and that the loader will not find; sorted.

    Args:
        path: the library; those beside it count where its run path says so.
        root: where the system's directories lie.
        search: more directories, which whoever loads it adds.
        library_path: LD_LIBRARY_PATH.
    """
    needed = read_needed(path)
    if needed is None:
        return ()
    directories = [
        *(
            Path(each.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(path.parent)))
            for each in needed.run_paths
        ),
        *(Path(each) for each in library_path.split(":") if each),
        *search,
        *(root / each for each in _DEFAULT_DIRECTORIES),
    ]
    listed = _cache(root)
    return tuple(
        sorted(
            name
            for name in needed.names
            if b"\0" + name.encode() + b"\0" not in listed
            and not any(_is_file(each / name) for each in directories)
        )
    )


def _cache(root: Path) -> bytes:
    """The loader's cache, in which a library's name stands between NULs."""
    try:
        with (root / _CACHE).open("rb") as file:
            return b"\0" + file.read(_MOST_CACHE_NBYTES)
    except OSError:
        return b""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _read(file: BinaryIO) -> NeededLibraries | None:
    header = file.read(64)
    if len(header) < 64 or header[:5] != b"\x7fELF\x02" or header[5] not in (1, 2):
        return None
    order = "<" if header[5] == 1 else ">"
    (table_offset,) = struct.unpack_from(f"{order}Q", header, 32)
    entry_size, count = struct.unpack_from(f"{order}HH", header, 54)
    if entry_size < 56 or count > _MOST_HEADERS:
        return None
    headers = [_header(file, order, table_offset + number * entry_size) for number in range(count)]
    dynamic = next((each for each in headers if each[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        return NeededLibraries(names=(), run_paths=())
    _, offset, _, size = dynamic
    file.seek(offset)
    data = file.read(min(size, _MOST_DYNAMIC_NBYTES))
    entries = [
        struct.unpack_from(f"{order}qQ", data, place) for place in range(0, len(data) - 15, 16)
    ]
    strings = _strings(file, headers, dict(entries))
    return NeededLibraries(
        names=tuple(_string(strings, value) for tag, value in entries if tag == _DT_NEEDED),
        run_paths=tuple(
            part
            for tag, value in entries
            if tag in (_DT_RPATH, _DT_RUNPATH)
            for part in _string(strings, value).split(":")
            if part
        ),
    )


def _header(file: BinaryIO, order: str, offset: int) -> tuple[int, int, int, int]:
    """Type, offset in the file, address, size in the file."""
    file.seek(offset)
    kind, _, place, address, _, size = struct.unpack(f"{order}IIQQQQ", file.read(40))
    return kind, place, address, size


def _strings(
    file: BinaryIO, headers: Sequence[tuple[int, int, int, int]], values: dict[int, int]
) -> bytes:
    address = values.get(_DT_STRTAB, 0)
    for kind, place, start, size in headers:
        if kind == _PT_LOAD and start <= address < start + size:
            file.seek(place + address - start)
            return file.read(min(values.get(_DT_STRSZ, 0), _MOST_STRING_NBYTES))
    return b""


def _string(strings: bytes, offset: int) -> str:
    return (
        strings[offset : strings.find(b"\0", offset)].decode("utf-8", "replace")
        if offset < len(strings)
        else ""
    )
