"""Cache of compiled kernels by content, beside the contexts of a cache: equal layers compile once.

A context spares the compilation of the same partition; a kernel spares that of the same layer,
whatever its model and weights. A kernel's key is a digest of everything that its code comes from:
the compiler's input, version and options. A file holds the key, the functions and the code, with a
digest over all of it: a damaged or wrong file is ignored. That protects from accidents; anyone who
may write to the folder can run code, which is why a cache that others may write to is not used at
all (:mod:`.cache_owner`).

Files appear in one step, so that any number of processes may read and write. The least recently
used kernels are dropped when they exceed the limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ortpkg.foundations.errors import quoted
from ortpkg.foundations.storage.file_replacement import remove_leftovers, replace_file

_log = logging.getLogger(__name__)

#: Largest size of all kernels on the disk; each has a few kilobytes.
MOST_NBYTES = 256 << 20
_MOST_FILE_NBYTES = 16 << 20
_MAGIC = b"ortpkg kernel 1\n"
_DIGEST_NBYTES = hashlib.sha256().digest_size
_FILE_NAME = re.compile(r"[0-9a-f]{64}\.kernel")
#: Set explicitly, as for contexts: a folder that any user may write to is not read.
_FOLDER_MODE = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedKernel:
    """Code of a kernel.

    Attributes:
        functions: name of a function → its offset.
        code: position-independent machine code.
    """

    functions: Mapping[str, int]
    code: bytes


class KernelCache:
    """Kernels in one directory, which need not exist yet."""

    def __init__(self, directory: Path, *, most_nbytes: int = MOST_NBYTES) -> None:
        self.directory = directory
        self._most_nbytes = most_nbytes

    def read(self, key: str) -> CachedKernel | None:
        """Return the kernel of a key; None if there is no valid one."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_FILE_NBYTES)
        except OSError:
            return None
        kernel = _kernel_in(data, key)
        if kernel is None:
            _log.warning("the cached kernel %s is damaged, and compiled anew", quoted(path))
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return kernel

    def write(self, kernels: Mapping[str, CachedKernel]) -> None:
        """Store kernels by their keys, then make room.

        A full or read-only disk stores nothing, and a warning is logged.
        """
        if not kernels:
            return
        try:
            self.directory.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            for key, kernel in kernels.items():
                write = partial(_write, _file_of(kernel, key))
                replace_file(self._path(key), write, is_durable=False)
        except OSError as error:
            _log.warning("compiled kernels cannot be kept: %s", error)
        self._prune()

    def files(self) -> list[Path]:
        """Return the files of all kernels."""
        try:
            return sorted(
                path for path in self.directory.iterdir() if _FILE_NAME.fullmatch(path.name)
            )
        except OSError:
            return []

    def _prune(self) -> None:
        remove_leftovers(self.directory)
        kernels = []
        for path in self.files():
            with contextlib.suppress(OSError):  # another process may have deleted it
                status = path.stat()
                kernels.append((status.st_mtime_ns, status.st_size, path))
        excess = sum(nbytes for _, nbytes, _ in kernels) - self._most_nbytes
        for _, nbytes, path in sorted(kernels):
            if excess <= 0:
                return
            excess -= nbytes
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.kernel"


def _write(data: bytes, file: BinaryIO) -> None:
    file.write(data)


def _file_of(kernel: CachedKernel, key: str) -> bytes:
    head = json.dumps({"key": key, "functions": dict(kernel.functions)}, sort_keys=True).encode()
    content = b"%s\n%s" % (head, kernel.code)
    return _MAGIC + hashlib.sha256(content).digest() + content


def _kernel_in(data: bytes, key: str) -> CachedKernel | None:
    """Return the kernel in a file; None unless it is that of the key, undamaged."""
    start = len(_MAGIC) + _DIGEST_NBYTES
    content = memoryview(data)[start:]
    digest = data[len(_MAGIC) : start]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(content).digest() != digest:
        return None
    head, _, code = bytes(content).partition(b"\n")
    try:
        header: Any = json.loads(head)
        functions = {str(name): int(offset) for name, offset in header["functions"].items()}
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
        return None
    is_inside = all(0 <= offset < len(code) for offset in functions.values())
    if header.get("key") != key or not is_inside:
        return None
    return CachedKernel(functions=functions, code=code)
