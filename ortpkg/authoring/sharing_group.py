"""What a plan of shared weights consists of: the layout, and per folder who joins it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ortpkg.authoring.component_folders import VariantFolder
from ortpkg.authoring.shared_folder import JoinedModel
from ortpkg.authoring.variant_places import ModelFilePlace
from ortpkg.package.package_info import ComponentInfo
from ortpkg.storage.composed_file import ComposedFile


class SharedLayout(StrEnum):
    """Where shared data lies.

    COMMON_DIRECTORY: in the folder of one of the variants, where that has it already.
    SHARED_WEIGHTS: in ``shared_weights/<SHA-256 of the file>/model.data`` in the component's
        folder, a file per set of users; the models that share come to lie in the component's
        folder, too.
    SHARED_ASSETS: not in such a folder, but in a shared asset of the package
        (``asset_sharing.py``).
    """

    COMMON_DIRECTORY = "common-directory"
    SHARED_WEIGHTS = "shared-weights"
    SHARED_ASSETS = "shared-assets"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingOptions:
    """What a caller may choose.

    Attributes:
        layout: where shared data lies.
        smallest_embedded_nbytes: weights of this size and more that lie in ONNX files are shared
            too, and move out of those; None: they stay.
    """

    layout: SharedLayout = SharedLayout.COMMON_DIRECTORY
    smallest_embedded_nbytes: int | None = None


@dataclass(slots=True, kw_only=True)
class SharingGroup:
    """One folder, who joins it, and what that writes and frees.

    Attributes:
        host: the folder.
        joined: the folder that a model comes from (the host's own, where one of its models is
            replaced) → its models.
        new_files: to write, relative to the host.
        freed: files that nothing needs any more, absolute → size in bytes.
    """

    host: VariantFolder
    joined: list[tuple[VariantFolder, JoinedModel]] = field(default_factory=list)
    new_files: dict[str, ComposedFile] = field(default_factory=dict)
    freed: dict[Path, int] = field(default_factory=dict)

    @property
    def saved_nbytes(self) -> int:
        """By how many bytes the package becomes smaller."""
        return sum(self.freed.values()) - sum(content.nbytes for content in self.new_files.values())

    @property
    def places(self) -> dict[str, ModelFilePlace]:
        """Variant → where its model will be."""
        return {
            variant.name: ModelFilePlace(
                folder=self.host.path,
                model_file=joined.model_file,
                nbytes=sum(map(self._nbytes_of, joined.used)),
            )
            for folder, joined in self.joined
            for variant in folder.variants_of(joined.model)
        }

    def _nbytes_of(self, location: str) -> int:
        if location in self.new_files:
            return self.new_files[location].nbytes
        return (self.host.path / location).stat().st_size

    @property
    def removed_folders(self) -> list[Path]:
        """Folders that go as a whole."""
        return list(
            dict.fromkeys(folder.path for folder, _ in self.joined if folder is not self.host)
        )

    @property
    def removed_files(self) -> list[Path]:
        """Files of the host that go."""
        return [path for path in self.freed if path.is_relative_to(self.host.path)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlan:
    """What sharing changes in one component.

    ``left_out`` says which variants could share, but may not, and why.
    """

    component: ComponentInfo
    groups: tuple[SharingGroup, ...]
    left_out: Mapping[str, str]
