"""Check that parts of contexts which are used in mapped files still exist."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any

import numpy as np

from ortpkg.foundations.errors import EpContextError


class MappedParts:
    """Mapped files behind arrays, each once; other arrays do not count."""

    def __init__(self, arrays: Iterable[Any]) -> None:
        """Find the files behind arrays, through all views."""
        mappings: dict[int, mmap.mmap] = {}
        for array in arrays:
            base = array
            while isinstance(base, np.ndarray):
                base = base.base
            owner = base.obj if isinstance(base, memoryview) else base
            if isinstance(owner, mmap.mmap):
                mappings[id(owner)] = owner
        self._mappings = tuple(mappings.values())

    def verify_length(self, *, ep_name: str, partition_name: str = "") -> None:
        """Raise EpContextError if a file became shorter: reading the missing part ends the process.

        It queries each file's size, in less than a microsecond.
        """
        for mapping in self._mappings:
            if mapping.size() < len(mapping):
                raise EpContextError(
                    "the context's file became shorter while the session was open; replace files by"
                    " renaming new ones over them",
                    ep_name=ep_name,
                    partition_name=partition_name,
                )
