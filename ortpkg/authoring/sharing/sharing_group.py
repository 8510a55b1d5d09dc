"""Groups of models that share data in one folder: the files that a group writes and frees.

Nothing is written here. The models of other folders join the group's *host* if that saves bytes;
the host's files stay as they are. A model of the host is replaced only if that is the only way to
share: for weights that move out of a model, or data that a folder has twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from ortpkg.authoring.model_weights import ModelWeights
from ortpkg.authoring.sharing.component_folders import (
    VariantFolder,
    embedded_tensors,
    shareable_contents,
)
from ortpkg.authoring.sharing.contents import ContentKey
from ortpkg.authoring.sharing.layouts import SharingOptions
from ortpkg.authoring.sharing.relocation import plan_joining
from ortpkg.authoring.sharing.shared_folder import JoinedModel, SharedFolder, whole_file
from ortpkg.authoring.variant_places import ModelLocation
from ortpkg.authoring.variant_sizes import VariantKey
from ortpkg.foundations.storage.composed_file import ComposedFile, FileRange
from ortpkg.package.package_info import ComponentInfo


@dataclass(slots=True, kw_only=True)
class SharingGroup:
    """Folder of shared data, the models that use it, and the files that this writes and frees.

    Attributes:
        host: the folder whose data is shared.
        home: absolute path to the folder of the shared data.
        asset: URI of the shared asset that the home is: models stay in their folders. None if they
            move to the home.
        joined: folder that a model comes from (the host, if one of its own models changes) and the
            model; used files are relative to the home.
        new_files: files to write, absolute path → content.
        freed: files that are no longer needed, absolute path → size in bytes.
    """

    host: VariantFolder
    home: Path
    asset: str | None = None
    joined: list[tuple[VariantFolder, JoinedModel]] = field(default_factory=list)
    new_files: dict[Path, ComposedFile] = field(default_factory=dict)
    freed: dict[Path, int] = field(default_factory=dict)

    @property
    def saved_nbytes(self) -> int:
        """Bytes by which the package becomes smaller."""
        return sum(self.freed.values()) - sum(content.nbytes for content in self.new_files.values())

    @property
    def members(self) -> dict[VariantKey, tuple[VariantFolder, JoinedModel]]:
        """Item of :attr:`joined` of each variant that has such a model."""
        return {
            (variant.component_name, variant.name): (folder, joined)
            for folder, joined in self.joined
            for variant in folder.variants_of(joined.model)
        }

    @property
    def locations(self) -> dict[VariantKey, ModelLocation]:
        """New location of the model of each variant."""
        return {
            key: ModelLocation(
                folder=self._model_folder(folder),
                model_file=joined.model_file,
                nbytes=sum(self._content_of(path).nbytes for path in self.files_of(folder, joined)),
                asset=self.asset,
            )
            for key, (folder, joined) in self.members.items()
        }

    @property
    def removes(self) -> list[Path]:
        """Folders that are removed as a whole, and files of folders that stay."""
        if self.asset is not None:
            return list(self.freed)
        folders = dict.fromkeys(folder.path for folder, _ in self.joined if folder is not self.host)
        return [*folders, *(path for path in self.freed if path.is_relative_to(self.home))]

    def files_of(self, folder: VariantFolder, joined: JoinedModel) -> list[Path]:
        """Return every file that a model needs once the group is as planned, itself first."""
        model = self._model_folder(folder) / joined.model_file
        return [model, *(self.home / location for location in joined.used_files)]

    def digests_of(self, variant: VariantKey) -> tuple[str, dict[str, str]]:
        """Return the SHA-256 of a variant's new ONNX file, and of its other files by location."""
        folder, joined = self.members[variant]
        model = self._content_of(self._model_folder(folder) / joined.model_file)
        return model.sha256(), {
            location: self._content_of(self.home / location).sha256()
            for location in sorted(joined.used_files)
        }

    def _model_folder(self, folder: VariantFolder) -> Path:
        return self.home if self.asset is None else folder.path

    def _content_of(self, path: Path) -> ComposedFile:
        return self.new_files.get(path) or ComposedFile.copy_of(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPlan:
    """Changes of sharing in some components.

    Attributes:
        components: components that may change.
        groups: groups of their models.
        left_out: variants that have weights in common with others → why they cannot share.
    """

    components: tuple[ComponentInfo, ...]
    groups: tuple[SharingGroup, ...]
    left_out: Mapping[VariantKey, str]


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
        self._layout = options.answers
        self._smallest_embedded_nbytes = options.smallest_embedded_nbytes
        self._shared = SharedFolder(
            host.path, keys, prefers_variant_names=self._layout.fills_component_folder
        )
        self._group = SharingGroup(host=host, home=host.path)
        self._host_users = Counter(path for model in host.models for path in model.files)

    def build(self, movers: Sequence[VariantFolder]) -> SharingGroup:
        """Return the group of the host with those of ``movers`` whose joining saves bytes."""
        at_host = {
            self._keys[tensor.data]
            for model in self._host.models
            for tensor in model.external
            if tensor.data.path not in model.opaque
        }
        pool = set() if self._host.why_not_editable else self._add_pool(movers, at_host)
        homes = pool | at_host
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
        self._group.new_files = {
            self._host.path / location: content
            for location, content in self._shared.new_files.items()
        }
        used_files = {
            path
            for folder, joined in self._group.joined
            for path in self._group.files_of(folder, joined)
        }
        self._group.freed = self._freed(used_files)
        needed = used_files.union(*(path.parents for path in used_files))
        assert needed.isdisjoint(self._group.removes), "data would be lost"
        return self._group

    def _add_pool(
        self, movers: Sequence[VariantFolder], at_host: Set[ContentKey]
    ) -> set[ContentKey]:
        """Add new files of contents that several models have, and no file that may stay.

        There is one file per set of users, so that removing a variant frees all that it alone had.
        """
        models = [model for folder in (self._host, *movers) for model in folder.models]
        embedded = {
            self._keys[tensor.data]
            for model in models
            for tensor in embedded_tensors(model, self._smallest_embedded_nbytes)
        }
        files: dict[tuple[Path, ...], dict[ContentKey, FileRange]] = {}
        for key, users in self._users(models).items():
            is_homeless = key in embedded and key not in at_host
            if len(set(users.values())) > 1 and (
                self._layout.fills_component_folder or is_homeless
            ):
                files.setdefault(tuple(users), {})[key] = next(iter(users.values()))
        for tensors in files.values():
            self._shared.add_data_file(tensors, self._layout.data_file)
        return {key for tensors in files.values() for key in tensors}

    def _users(self, models: Iterable[ModelWeights]) -> dict[ContentKey, dict[Path, FileRange]]:
        """Map the content of a tensor to the models that have it, each with its range."""
        users: dict[ContentKey, dict[Path, FileRange]] = {}
        for model in models:
            whole = {self._keys[whole_file(path)] for path in model.opaque}
            contents = shareable_contents(model, self._keys, self._smallest_embedded_nbytes)
            for key, data in contents.items():
                if key not in whole:
                    users.setdefault(key, {})[model.path] = data
        return users

    def _draws_from_elsewhere(
        self,
        model: ModelWeights,
        pool: Set[ContentKey],
        homes: Set[ContentKey],
    ) -> bool:
        """Return True if a model of the host has weights that will move to another file."""
        if self._host.why_not_editable:
            return False
        embedded = embedded_tensors(model, self._smallest_embedded_nbytes)
        return any(self._keys[tensor.data] in homes for tensor in embedded) or any(
            self._keys[tensor.data] in pool for tensor in model.external
        )

    def _place_in_host(self, model: ModelWeights, *, draws: bool) -> None:
        """Leave a model of the host as it is, unless it ``draws`` on a file or has data twice."""
        if not self._host.why_not_editable:
            smallest_nbytes = self._smallest_embedded_nbytes if draws else None
            variant = self._host.variants_of(model)[0].name
            placed = plan_joining(self._shared, model, variant, smallest_nbytes)
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
            variant = folder.variants_of(model)[0].name
            joined = plan_joining(trial, model, variant, self._smallest_embedded_nbytes)
            if isinstance(joined, str):
                self.left_out |= {variant.name: joined for variant in folder.variants}
                return
            trial.accept(joined)
            placed.append((folder, joined))
        added_nbytes = trial.new_nbytes - self._shared.new_nbytes
        if sum(path.stat().st_size for path in folder.files) > added_nbytes:
            self._shared.take(trial)
            self._group.joined += placed

    def _freed(self, used_files: set[Path]) -> dict[Path, int]:
        """Return files that nobody needs once the group is as planned."""
        joined = {model.model.path for _, model in self._group.joined}
        files = dict.fromkeys(path for folder, _ in self._group.joined for path in folder.files)
        remaining = [model for model in self._host.models if model.path not in joined]
        needed = used_files.union(path for model in remaining for path in model.files)
        return {path: path.stat().st_size for path in files if path not in needed}
