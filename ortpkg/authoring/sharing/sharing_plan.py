"""Plan which variants of a component share weights, in which folder; nothing is written here.

Folders are grouped around the one with the most data in common with others, or around the
component's own.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ortpkg.authoring.sharing.component_folders import (
    UsedPaths,
    VariantFolder,
    own_folder,
    ranges_of,
    read_component_folders,
    shareable_contents,
)
from ortpkg.authoring.sharing.contents import ContentKey, read_contents
from ortpkg.authoring.sharing.layouts import SharingOptions
from ortpkg.authoring.sharing.sharing_group import GroupBuilder, SharingGroup, SharingPlan
from ortpkg.authoring.variant_places import ComponentDocument
from ortpkg.foundations.storage.composed_file import FileRange
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.package_info import ComponentInfo, PackageInfo

_MAPPING_ALIGNMENT = 4096


def plan_component(
    package: PackageInfo,
    component: ComponentInfo,
    document: ComponentDocument,
    used: UsedPaths,
    options: SharingOptions,
    *,
    progress: Progress | None = None,
) -> SharingPlan:
    """Plan one component.

    Args:
        package, component: the component and its package.
        document: declares the component.
        used: paths in use anywhere in the package.
        options: of sharing.
        progress: called while files are read.

    Raises:
        ModelError: a model of it is damaged: then nothing is known about its weights.
    """
    folders = read_component_folders(package, component, document, used)
    components_folder = (
        own_folder(package, component, document) if options.answers.fills_component_folder else None
    )
    if components_folder is not None:
        folders = [
            components_folder,
            *(folder for folder in folders if folder.path != components_folder.path),
        ]
    models = [model for folder in folders for model in folder.models]
    keys = read_contents(ranges_of(models, options.smallest_embedded_nbytes), progress=progress)
    planner = _Planner(folders, keys, options, components_folder)
    groups = tuple(planner.plan())
    left_out = {(component.name, variant): why for variant, why in planner.left_out.items()}
    return SharingPlan(components=(component,), groups=groups, left_out=left_out)


class _Planner:
    def __init__(
        self,
        folders: Sequence[VariantFolder],
        keys: Mapping[FileRange, ContentKey],
        options: SharingOptions,
        components_folder: VariantFolder | None,
    ) -> None:
        """Prepare the plan.

        ``components_folder`` is the host of all that share; if it is None, one of their folders is.
        """
        self._folders = folders
        self._components_folder = components_folder
        self._keys = keys
        self._options = options
        self._contents = {folder.path: self._contents_of(folder) for folder in folders}
        self.left_out: dict[str, str] = {}

    def plan(self) -> list[SharingGroup]:
        """Return the groups that save bytes, chosen greedily: the best host first."""
        groups = []
        remaining = {folder.path: folder for folder in self._folders}
        hosts = [folder for folder in self._folders if folder.models and not folder.why_not_host]
        if self._components_folder is not None:
            hosts = [self._components_folder]
        scores = HostScores(hosts, self._folders, self._contents)
        while (host := scores.pop_best()) is not None:
            builder = GroupBuilder(host, self._keys, self._options)
            movers = []
            if scores.common_nbytes(host) or host is self._components_folder:
                movers = self._movers(host, remaining.values())
            group = builder.build(movers)
            self.left_out |= builder.left_out
            used_paths = {host.path}
            if group.saved_nbytes > 0:
                groups.append(group)
                used_paths |= {folder.path for folder, _ in group.joined}
            for path in used_paths:
                scores.drop(remaining.pop(path))
        self._explain_left_out(groups)
        return groups

    def _explain_left_out(self, groups: Iterable[SharingGroup]) -> None:
        """Record why variants with contents in common with another folder cannot join it."""
        in_groups = {
            folder.path
            for group in groups
            for folder in (group.host, *(joined_folder for joined_folder, _ in group.joined))
        }
        owners = Counter(key for contents in self._contents.values() for key in contents)
        for folder in self._folders:
            is_equal = any(owners[key] > 1 for key in self._contents[folder.path])
            if folder.path not in in_groups and folder.why_not_movable and is_equal:
                for variant in folder.variants:
                    self.left_out.setdefault(variant.name, folder.why_not_movable)

    def _movers(self, host: VariantFolder, folders: Iterable[VariantFolder]) -> list[VariantFolder]:
        """Return folders that share with the host, or with one that joins before them.

        Folders may join the component's own if they share with any other.
        """
        waiting = [
            folder for folder in folders if folder is not host and not folder.why_not_movable
        ]
        if host is self._components_folder:
            counts = Counter(
                key for folder in (host, *waiting) for key in self._contents[folder.path]
            )
            return [
                folder
                for folder in waiting
                if any(counts[key] > 1 for key in self._contents[folder.path])
            ]
        owners: dict[ContentKey, list[int]] = {}
        for index, folder in enumerate(waiting):
            for key in self._contents[folder.path]:
                owners.setdefault(key, []).append(index)
        movers: list[VariantFolder] = []
        reached: set[int] = set()
        nearest: list[int] = []  # a heap: folders join in their order
        joining: VariantFolder | None = host
        while joining is not None:
            for key in self._contents[joining.path]:
                for index in owners.pop(key, ()):
                    if index not in reached:
                        reached.add(index)
                        heapq.heappush(nearest, index)
            joining = waiting[heapq.heappop(nearest)] if nearest else None
            movers += [joining] if joining is not None else []
        return movers

    def _contents_of(self, folder: VariantFolder) -> dict[ContentKey, FileRange]:
        contents: dict[ContentKey, FileRange] = {}
        for model in folder.models:
            contents = (
                shareable_contents(model, self._keys, self._options.smallest_embedded_nbytes)
                | contents
            )
        return contents


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
