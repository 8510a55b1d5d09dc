"""Plan which variants of a component share weights, in which folder, and what that saves.

Nothing is written here. Folders are grouped around a *host*: the one with the most data in common
with others. The models of the others join it if that saves bytes; the host's files stay as they
are. A model of the host is replaced only if that is the only way to share: for weights that move
out of a model, or data that a folder has twice.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.authoring.model_weights import ModelWeights
from ortpkg.authoring.sharing.component_folders import (
    UsedPaths,
    VariantFolder,
    embedded_tensors,
    own_folder,
    ranges_of,
    read_component_folders,
    shareable_contents,
)
from ortpkg.authoring.sharing.contents import ContentKey, read_contents
from ortpkg.authoring.sharing.host_scores import HostScores
from ortpkg.authoring.sharing.shared_folder import JoinedModel, SharedFolder, whole_file
from ortpkg.authoring.sharing.sharing_group import (
    ComponentPlan,
    SharedLayout,
    SharingGroup,
    SharingOptions,
)
from ortpkg.authoring.variant_places import ComponentDocument
from ortpkg.package.package_info import ComponentInfo, PackageInfo
from ortpkg.storage.composed_file import FileRange
from ortpkg.storage.hashing import Progress


def plan_component(
    package: PackageInfo,
    component: ComponentInfo,
    document: ComponentDocument,
    used: UsedPaths,
    options: SharingOptions,
    *,
    progress: Progress | None = None,
) -> ComponentPlan:
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
        own_folder(package, component, document)
        if options.layout is SharedLayout.SHARED_WEIGHTS
        else None
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
    return ComponentPlan(component=component, groups=groups, left_out=planner.left_out)


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
        if self._components_folder is not None:
            return self._plan_own(self._components_folder)
        groups = []
        remaining = {folder.path: folder for folder in self._folders}
        hosts = [folder for folder in self._folders if folder.models and not folder.why_not_host]
        scores = HostScores(hosts, self._folders, self._contents)
        while (host := scores.pop_best()) is not None:
            builder = GroupBuilder(host, self._keys, self._options)
            movers = self._movers(host, remaining.values()) if scores.common_nbytes(host) else []
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

    def _plan_own(self, components_folder: VariantFolder) -> list[SharingGroup]:
        """Return one group around the component's own folder, of all that share data with it."""
        others = [
            folder
            for folder in self._folders
            if folder is not components_folder and not folder.why_not_movable
        ]
        owners = Counter(
            key for folder in (components_folder, *others) for key in self._contents[folder.path]
        )
        movers = [
            folder
            for folder in others
            if any(owners[key] > 1 for key in self._contents[folder.path])
        ]
        builder = GroupBuilder(components_folder, self._keys, self._options)
        group = builder.build(movers)
        self.left_out |= builder.left_out
        groups = [group] if group.saved_nbytes > 0 else []
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
        """Return folders that share with the host, or with one that joins before them."""
        waiting = [
            folder for folder in folders if folder is not host and not folder.why_not_movable
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


@dataclass(slots=True)
class _Users:
    """Models that have a content, and the range that holds it for each."""

    models: list[Path] = field(default_factory=list)
    ranges: list[FileRange] = field(default_factory=list)

    @property
    def is_stored_often(self) -> bool:
        """True if several models have it, and not all at the same place."""
        return len(self.models) > 1 and len(set(self.ranges)) > 1


class GroupBuilder:
    """Builder of the group of one host.

    Attributes:
        left_out: variant → why it could not join.
    """

    def __init__(
        self, host: VariantFolder, keys: Mapping[FileRange, ContentKey], options: SharingOptions
    ) -> None:
        self.left_out: dict[str, str] = {}
        self._host = host
        self._keys = keys
        self._options = options
        self._shared = SharedFolder(
            host.path, keys, prefers_variant_names=options.layout is SharedLayout.SHARED_WEIGHTS
        )
        self._group = SharingGroup(host=host)
        self._host_users = Counter(path for model in host.models for path in model.files)

    def build(self, movers: Sequence[VariantFolder]) -> SharingGroup:
        """Return the group of the host with those of ``movers`` whose joining saves bytes."""
        pool = {} if self._host.why_not_editable else self._pool(movers)
        self._add_pool(pool, movers)
        homes = pool.keys() | self._at_host()
        drawing = [
            model for model in self._host.models if self._draws_from_elsewhere(model, pool, homes)
        ]
        for model in self._host.models:
            if model not in drawing:
                self._place_in_host(model, draws=False)
        for model in drawing:
            self._place_in_host(model, draws=True)
        for folder in movers:
            self._join(folder)
        self._group.new_files = dict(self._shared.new_files)
        self._group.freed = self._freed()
        used = {location for _, joined in self._group.joined for location in joined.used_files}
        needed_folders = {
            folder for location in used for folder in (self._host.path / location).parents
        }
        assert needed_folders.isdisjoint(self._group.removed_folders), "data would be lost"
        return self._group

    def _pool(self, movers: Iterable[VariantFolder]) -> dict[ContentKey, FileRange]:
        """Return contents for a new file: several models have them, and no file that may stay."""
        candidates = {
            key: users.ranges[0]
            for key, users in self._users(movers).items()
            if users.is_stored_often
        }
        if self._options.layout is SharedLayout.SHARED_WEIGHTS:
            return candidates
        at_host = self._at_host()
        embedded = {
            self._keys[tensor.data]
            for folder in (self._host, *movers)
            for model in folder.models
            for tensor in embedded_tensors(model, self._options.smallest_embedded_nbytes)
        }
        return {
            key: data for key, data in candidates.items() if key in embedded and key not in at_host
        }

    def _users(self, movers: Iterable[VariantFolder]) -> dict[ContentKey, _Users]:
        """Map the content of a tensor to its ranges and the models that have it."""
        all_users: dict[ContentKey, _Users] = {}
        for folder in (self._host, *movers):
            for model in folder.models:
                whole = {self._keys[whole_file(path)] for path in model.opaque}
                contents = shareable_contents(
                    model, self._keys, self._options.smallest_embedded_nbytes
                )
                for key, data in contents.items():
                    if key not in whole:
                        users = all_users.setdefault(key, _Users())
                        users.ranges.append(data)
                        users.models.append(model.path)
        return all_users

    def _at_host(self) -> set[ContentKey]:
        return {
            self._keys[tensor.data]
            for model in self._host.models
            for tensor in model.external
            if tensor.data.path not in model.opaque
        }

    def _add_pool(
        self, pool: Mapping[ContentKey, FileRange], movers: Iterable[VariantFolder]
    ) -> None:
        """Add one file per set of users, so that removing a variant frees all that it alone had."""
        users = self._users(movers)
        files: dict[tuple[Path, ...], dict[ContentKey, FileRange]] = {}
        for key, data in pool.items():
            files.setdefault(tuple(users[key].models), {})[key] = data
        for tensors in files.values():
            self._shared.add_data_file(
                tensors, by_checksum=self._options.layout is SharedLayout.SHARED_WEIGHTS
            )

    def _draws_from_elsewhere(
        self,
        model: ModelWeights,
        pool: Mapping[ContentKey, FileRange],
        homes: Set[ContentKey],
    ) -> bool:
        """Return True if a model of the host has weights that will move to another file."""
        if self._host.why_not_editable:
            return False
        embedded = embedded_tensors(model, self._options.smallest_embedded_nbytes)
        return any(self._keys[tensor.data] in homes for tensor in embedded) or any(
            self._keys[tensor.data] in pool for tensor in model.external
        )

    def _place_in_host(self, model: ModelWeights, *, draws: bool) -> None:
        """Leave a model of the host as it is, unless it ``draws`` on a file or has data twice."""
        if not self._host.why_not_editable:
            smallest_nbytes = self._options.smallest_embedded_nbytes if draws else None
            placed = self._place(self._shared, self._host, model, smallest_nbytes)
            if (
                isinstance(placed, JoinedModel)
                and placed.is_rewritten
                and (draws or self._saves(model, placed))
            ):
                self._shared.accept(placed)
                self._group.joined.append((self._host, placed))
                return
        self._shared.keep(model)

    def _saves(self, model: ModelWeights, placed: JoinedModel) -> bool:
        staying = {self._host.path / location for location in placed.used_files}
        freed_nbytes = sum(
            path.stat().st_size
            for path in model.files
            if path not in staying and self._host_users[path] == 1
        )
        return freed_nbytes > sum(content.nbytes for content in placed.new_files.values())

    def _join(self, folder: VariantFolder) -> None:
        """Let all models of a folder join, or none if that would save nothing."""
        trial = self._shared.trial()
        placed = []
        for model in folder.models:
            joined = self._place(trial, folder, model, self._options.smallest_embedded_nbytes)
            if isinstance(joined, str):
                self.left_out |= {variant.name: joined for variant in folder.variants}
                return
            trial.accept(joined)
            placed.append((folder, joined))
        added_nbytes = trial.new_nbytes - self._shared.new_nbytes
        if sum(path.stat().st_size for path in folder.files) > added_nbytes:
            self._shared.take(trial)
            self._group.joined += placed

    @staticmethod
    def _place(
        shared: SharedFolder,
        folder: VariantFolder,
        model: ModelWeights,
        smallest_embedded_nbytes: int | None,
    ) -> JoinedModel | str:
        variant = folder.variants_of(model)[0].name
        return shared.place(model, variant, smallest_embedded_nbytes=smallest_embedded_nbytes)

    def _freed(self) -> dict[Path, int]:
        """Return files that nobody needs once the group is as planned."""
        joined = {model.model.path for _, model in self._group.joined}
        files = dict.fromkeys(path for folder, _ in self._group.joined for path in folder.files)
        remaining = [model for model in self._host.models if model.path not in joined]
        needed = {path for model in remaining for path in model.files}
        needed |= {
            self._host.path / location
            for _, joined_model in self._group.joined
            for location in joined_model.used_files
        }
        return {path: path.stat().st_size for path in files if path not in needed}
