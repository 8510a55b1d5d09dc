"""Folders of a component as weight sharing sees them: models, contents, obstacles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ortpkg.authoring.model_weights import ModelWeights, StoredTensor, read_model_weights
from ortpkg.authoring.sharing.contents import ContentKey
from ortpkg.authoring.sharing.layouts import CHECKSUM_FOLDER
from ortpkg.authoring.sharing.shared_folder import SMALLEST_SHARED_NBYTES, whole_file
from ortpkg.authoring.variant_files import option_places
from ortpkg.authoring.variant_places import ComponentDocument
from ortpkg.foundations.documents.finding_collector import listed
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.foundations.storage.composed_file import FileRange
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo
from ortpkg.package.paths.disk_places import is_link

OPTIONS_NAME_A_FOLDER = "its session options name a folder of their own"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFolder:
    """Folder with the models of one or more variants.

    Attributes:
        path: absolute.
        variants: the variants with this folder, in declaration order.
        models: their models, each once.
        why_not_host: why no other model may join; "" if it may.
        why_not_movable: why its models may not join another folder; "" if they may.
        why_not_editable: why its models may not be replaced in place; "" if they may.
        asset: URI of the shared asset that its data files lie in; None if they lie beside a model.
    """

    path: Path
    variants: tuple[VariantInfo, ...]
    models: tuple[ModelWeights, ...]
    why_not_host: str = ""
    why_not_movable: str = ""
    why_not_editable: str = ""
    asset: str | None = None
    _by_model: dict[Path | None, list[VariantInfo]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for variant in self.variants:
            self._by_model.setdefault(variant.model_path, []).append(variant)

    def variants_of(self, model: ModelWeights) -> list[VariantInfo]:
        """Return the variants with that model file, in declaration order."""
        return self._by_model[model.path]

    @property
    def files(self) -> dict[Path, None]:
        """Every file that its models need, once."""
        return dict.fromkeys(path for model in self.models for path in model.files)


class UsedPaths:
    """Paths that the variants of a package use: folders, models, and folders of their options.

    Each path is kept with the only component that uses it; "" stands for several, or an option.
    """

    def __init__(self, package: PackageInfo) -> None:
        self._users: dict[Path, str] = {}
        self._users_below: dict[Path, str] = {}
        for component in package.components:
            for variant in component.variants:
                self._add(variant.directory, component.name)
                if variant.model_path is not None:
                    self._add(variant.model_path, component.name)
                for option_folder in option_places(variant):
                    self._add(option_folder, "")

    def _add(self, used_path: Path, user: str) -> None:
        for users, paths in ((self._users, (used_path,)), (self._users_below, used_path.parents)):
            for path in paths:
                if users.setdefault(path, user) != user:
                    users[path] = ""

    def by_others(self, folder: Path, component: str) -> bool:
        """Return True if another component uses this folder, one inside it, or a parent of it."""
        return self._users_below.get(folder, component) != component or any(
            self._users.get(path, component) != component for path in (folder, *folder.parents)
        )


def read_component_folders(
    package: PackageInfo, component: ComponentInfo, document: ComponentDocument, used: UsedPaths
) -> list[VariantFolder]:
    """Return the folders of a component in the order of their first variants.

    Args:
        package, component: the component and its package.
        document: of the component.
        used: paths in use anywhere in the package.

    Raises:
        ModelError: a model is damaged.
    """
    grouped: dict[Path, list[VariantInfo]] = {}
    for variant in component.variants:
        grouped.setdefault(variant.directory, []).append(variant)
    folders = [_read_folder(path, variants, document) for path, variants in grouped.items()]
    holders = _holders_of(folders)
    # The older generation names a variant's folder, the newer one its path below the component's.
    must_be_child = package.format is not PackageFormat.COMPONENT
    return [
        _unchangeable(folder)
        if used.by_others(folder.path, component.name)
        or holders[folder.path] != {folder.path}
        or component.directory
        not in ([folder.path.parent] if must_be_child else folder.path.parents)
        else folder
        for folder in folders
    ]


def own_folder(
    package: PackageInfo, component: ComponentInfo, document: ComponentDocument
) -> VariantFolder | None:
    """Return the component's own folder, ``models/<component>/``, for other models to join.

    Return None if they may not. A component that is declared in manifest.json alone has no folder
    of its own.
    """
    path = component.directory
    if path == package.root or path.parent != package.root / MODELS:
        return None
    if any(
        variant.directory.is_relative_to(path / CHECKSUM_FOLDER) for variant in component.variants
    ):
        return None  # a variant has the name of the folder for shared weights
    variants = [variant for variant in component.variants if variant.directory == path]
    if not variants:
        return VariantFolder(path=path, variants=(), models=())
    folder = _read_folder(path, variants, document)
    return None if folder.why_not_host or folder.why_not_editable else folder


def check_no_links(package: PackageInfo) -> None:
    """Raise AuthoringError if the package holds a link: it may lead to a file to be removed."""
    for name in list_files(package.root):
        if is_link((package.root / name).lstat()):
            raise AuthoringError(
                f"{quoted(name)} is a symbolic link: weights are shared only in packages of plain"
                " files"
            )


def _read_folder(
    path: Path, variants: list[VariantInfo], document: ComponentDocument
) -> VariantFolder:
    without_model = next((variant for variant in variants if variant.model_path is None), None)
    if without_model is not None:
        reason = f"variant {quoted(without_model.name)} is a set of files, not one model"
        return _without_models(path, variants, reason)
    if any(option_places(variant) for variant in variants):
        return _without_models(path, variants, OPTIONS_NAME_A_FOLDER)
    paths = dict.fromkeys(
        variant.model_path for variant in variants if variant.model_path is not None
    )
    folder = VariantFolder(
        path=path,
        variants=tuple(variants),
        models=tuple(read_model_weights(model) for model in paths),
    )
    reasons = (document.why_not_movable(variant) for variant in variants)
    why_not_editable = next((reason for reason in reasons if reason), "")
    return replace(
        folder,
        why_not_host=_why_not_host(folder, document),
        why_not_movable=why_not_editable or _why_not_movable(folder),
        why_not_editable=why_not_editable,
    )


def _without_models(path: Path, variants: Sequence[VariantInfo], reason: str) -> VariantFolder:
    return VariantFolder(
        path=path,
        variants=tuple(variants),
        models=(),
        why_not_host=reason,
        why_not_movable=reason,
        why_not_editable=reason,
    )


def _why_not_host(folder: VariantFolder, document: ComponentDocument) -> str:
    if any(variant.source.document != document.path for variant in folder.variants):
        return f"it is not declared in {document.path}"
    outside = [path for path in folder.files if not path.is_relative_to(folder.path)]
    if outside:
        return f"its file {quoted(outside[0].name)} lies outside its folder"
    # The onnx package refuses to read such files.
    linked = [path for path in folder.files if path.stat().st_nlink > 1]
    return f"its file {quoted(linked[0].name)} has several names (hard links)" if linked else ""


def _why_not_movable(folder: VariantFolder) -> str:
    needed = folder.files
    if any(not path.is_relative_to(folder.path) for path in needed):
        return "its files lie outside its folder"
    others = [path for path in _files_below(folder.path) if path not in needed]
    names = [path.relative_to(folder.path).as_posix() for path in others]
    return f"its folder holds other files: {listed(names)}" if names else ""


def _holders_of(folders: Iterable[VariantFolder]) -> dict[Path, set[Path]]:
    """Map each path to at most two of ``folders`` that are it, or have files at or below it."""
    holders: dict[Path, set[Path]] = {}
    for folder in folders:
        for used_path in {folder.path, *folder.files}:
            for parent in (used_path, *used_path.parents):
                path_holders = holders.setdefault(parent, set())
                if len(path_holders) < 2:
                    path_holders.add(folder.path)
    return holders


def _unchangeable(folder: VariantFolder) -> VariantFolder:
    reason = "its folder is not its own"
    return replace(
        folder,
        why_not_host=folder.why_not_host or reason,
        why_not_movable=folder.why_not_movable or reason,
        why_not_editable=folder.why_not_editable or reason,
    )


def _files_below(folder: Path) -> list[Path]:
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in sorted(names)]


def ranges_of(
    models: Iterable[ModelWeights], smallest_embedded_nbytes: int | None
) -> list[FileRange]:
    """Return every range of the models' files that may equal another: tensors, whole files."""
    ranges: list[FileRange] = []
    for model in models:
        ranges += [tensor.data for tensor in model.external]
        ranges += [tensor.data for tensor in embedded_tensors(model, smallest_embedded_nbytes)]
        ranges += [whole_file(path) for path in (*sorted(model.opaque), *model.context_files)]
    return ranges


def embedded_tensors(model: ModelWeights, smallest_nbytes: int | None) -> list[StoredTensor]:
    """Return initializers in the model that may move out of it; None for ``smallest``: none."""
    if smallest_nbytes is None:
        return []
    return [tensor for tensor in model.embedded if tensor.data.nbytes >= smallest_nbytes]


def shareable_contents(
    model: ModelWeights, keys: Mapping[FileRange, ContentKey], smallest_embedded_nbytes: int | None
) -> dict[ContentKey, FileRange]:
    """Map content worth sharing to its range in the model's files, a data file if possible."""
    contents: dict[ContentKey, FileRange] = {}
    for tensor in (*model.external, *embedded_tensors(model, smallest_embedded_nbytes)):
        if tensor.data.path not in model.opaque and tensor.data.nbytes >= SMALLEST_SHARED_NBYTES:
            contents.setdefault(keys[tensor.data], tensor.data)
    for path in model.opaque:
        contents.setdefault(keys[whole_file(path)], whole_file(path))
    return contents
