"""Which folder is the best host: the one with which others have the most in common."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ortpkg.authoring.component_folders import VariantFolder
from ortpkg.authoring.contents import ContentKey
from ortpkg.storage.composed_file import FileRange

_MAPPING_ALIGNMENT = 4096


class HostScores:
    """How much each of ``hosts`` has in common with others, while folders drop out one by one.

    Counted are first the bytes that they could share with it, then how many of its own are aligned
    for mapping.

    Args:
        hosts: of equal ones the first is the best.
        folders: that may join a host, where nothing is against it.
        contents: of every folder.
    """

    def __init__(
        self,
        hosts: Sequence[VariantFolder],
        folders: Iterable[VariantFolder],
        contents: Mapping[Path, Mapping[ContentKey, FileRange]],
    ) -> None:
        self._contents = contents
        self._hosts = {host.path: host for host in hosts}
        self._order = {host.path: index for index, host in enumerate(hosts)}
        self._movable = {folder.path for folder in folders if not folder.why_not_movable}
        self._owners = Counter(key for path in self._movable for key in contents[path])
        self._heap = [self._entry(path) for path in self._hosts]
        heapq.heapify(self._heap)

    def common_nbytes(self, host: VariantFolder) -> int:
        """Bytes that others could share with ``host``."""
        own = host.path in self._movable
        return sum(
            data.nbytes * (self._owners[key] - own)
            for key, data in self._contents[host.path].items()
        )

    def pop_best(self) -> VariantFolder | None:
        """The best of those that did not drop out; None where all did.

        It is to drop out before the next one is asked for.
        """
        while self._heap:
            entry = heapq.heappop(self._heap)
            path = entry[-1]
            if path not in self._hosts:
                continue
            now = self._entry(path)  # what dropped out has only lowered it
            if now == entry:
                return self._hosts[path]
            heapq.heappush(self._heap, now)
        return None

    def drop(self, folder: VariantFolder) -> None:
        """``folder`` takes no more part."""
        self._hosts.pop(folder.path, None)
        if folder.path in self._movable:
            self._movable.remove(folder.path)
            self._owners.subtract(self._contents[folder.path].keys())

    def _entry(self, path: Path) -> tuple[int, int, int, Path]:
        aligned = (
            data.nbytes
            for data in self._contents[path].values()
            if data.offset % _MAPPING_ALIGNMENT == 0
        )
        return -self.common_nbytes(self._hosts[path]), -sum(aligned), self._order[path], path
