"""Parts of contexts that are used where they lie in a mapped file: whether they are still there."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Any

import numpy as np

from ortpkg.errors import EpContextError


class MappedParts:
    """The mapped files that arrays lie in, each once; arrays elsewhere do not count."""

    def __init__(self, arrays: Iterable[Any]) -> None:
        """Find the files behind arrays, through all views."""
        found: dict[int, mmap.mmap] = {}
        for array in arrays:
            base = array
            while isinstance(base, np.ndarray):
                base = base.base
            owner = base.obj if isinstance(base, memoryview) else base
            if isinstance(owner, mmap.mmap):
                found[id(owner)] = owner
        self._mappings = tuple(found.values())

    def verify_length(self, *, ep_name: str, partition_name: str = "") -> None:
        """Raise EpContextError where a file became shorter: to read what is gone ends the process.

        It takes the system's word for each file's size, in less than a microsecond.
        """
        for mapping in self._mappings:
            if mapping.size() < len(mapping):
                raise EpContextError(
                    "the context's file became shorter while the session was open; replace files by"
                    " renaming new ones over them",
                    ep_name=ep_name,
                    partition_name=partition_name,
                )
