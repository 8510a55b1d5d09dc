"""Parts of a plan of shared weights: the layout, and for each folder the models that join it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ortpkg.authoring.sharing.component_folders import VariantFolder
from ortpkg.authoring.sharing.shared_folder import JoinedModel
from ortpkg.authoring.variant_places import ModelLocation
from ortpkg.package.package_info import ComponentInfo
from ortpkg.storage.composed_file import ComposedFile


class SharedLayout(StrEnum):
    """Layout of shared data.

    COMMON_DIRECTORY: in the folder of one of the variants that has it already.
    SHARED_WEIGHTS: in ``shared_weights/<SHA-256 of the file>/model.data`` in the component's
    folder, a file per set of users; the models that share it move to the component's folder, too.
    SHARED_ASSETS: in a shared asset of the package (``asset_sharing.py``).
    """

    COMMON_DIRECTORY = "common-directory"
    SHARED_WEIGHTS = "shared-weights"
    SHARED_ASSETS = "shared-assets"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingOptions:
    """Options of sharing.

    Attributes:
        layout: of shared data.
        smallest_embedded_nbytes: weights of this size and more in ONNX files are shared too, and
            move out of them; None leaves them there.
    """

    layout: SharedLayout = SharedLayout.COMMON_DIRECTORY
    smallest_embedded_nbytes: int | None = None


@dataclass(slots=True, kw_only=True)
class SharingGroup:
    """One folder, the models that join it, and the files that this writes and frees.

    Attributes:
        host: the folder.
        joined: the folder that a model comes from (the host's own, if one of its models is
            replaced) → its models.
        new_files: files to write, relative to the host.
        freed: files that are no longer needed, absolute → size in bytes.
    """

    host: VariantFolder
    joined: list[tuple[VariantFolder, JoinedModel]] = field(default_factory=list)
    new_files: dict[str, ComposedFile] = field(default_factory=dict)
    freed: dict[Path, int] = field(default_factory=dict)

    @property
    def saved_nbytes(self) -> int:
        """Bytes by which the package becomes smaller."""
        return sum(self.freed.values()) - sum(content.nbytes for content in self.new_files.values())

    @property
    def locations(self) -> dict[str, ModelLocation]:
        """New place of each variant's model."""
        return {
            variant.name: ModelLocation(
                folder=self.host.path,
                model_file=joined.model_file,
                nbytes=sum(map(self._nbytes_of, joined.used_files)),
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
        """Folders that are removed as a whole."""
        return list(
            dict.fromkeys(folder.path for folder, _ in self.joined if folder is not self.host)
        )

    @property
    def removed_files(self) -> list[Path]:
        """Files of the host that are removed."""
        return [path for path in self.freed if path.is_relative_to(self.host.path)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlan:
    """Changes of sharing in one component.

    ``left_out`` maps variants that have weights in common with others to why they cannot share.
    """

    component: ComponentInfo
    groups: tuple[SharingGroup, ...]
    left_out: Mapping[str, str]
