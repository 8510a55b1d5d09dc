"""Find the best host for shared weights: the folder that has most in common with others."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ortpkg.authoring.sharing.component_folders import VariantFolder
from ortpkg.authoring.sharing.contents import ContentKey
from ortpkg.storage.composed_file import FileRange

_MAPPING_ALIGNMENT = 4096


class HostScores:
    """Score of each of ``hosts``, while folders drop out one by one.

    The score is first the number of bytes that other folders could share with the host, then the
    number of its own bytes that are aligned for mapping.

    Args:
        hosts: the first of equal ones is the best.
        folders: folders that may join a host, if nothing forbids it.
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
        """Return the number of bytes that others could share with ``host``."""
        is_movable = host.path in self._movable
        return sum(
            data.nbytes * (self._owners[key] - is_movable)
            for key, data in self._contents[host.path].items()
        )

    def pop_best(self) -> VariantFolder | None:
        """Return the best host that did not drop out; None if all did.

        Drop it before asking for the next one.
        """
        while self._heap:
            entry = heapq.heappop(self._heap)
            path = entry[-1]
            if path not in self._hosts:
                continue
            now = self._entry(path)  # folders that dropped out can only have lowered it
            if now == entry:
                return self._hosts[path]
            heapq.heappush(self._heap, now)
        return None

    def drop(self, folder: VariantFolder) -> None:
        """Take ``folder`` out of the comparison."""
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
