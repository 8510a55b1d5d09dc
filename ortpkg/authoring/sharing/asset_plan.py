"""Plan which variants of a package share all their weights as a shared asset; writes nothing.

onnxruntime 1.28 to 1.32 reads shared assets, ``shared_assets/sha256-<hex>/``. A variant's model
stays in its folder; a session option makes the asset the folder of all its external data. Variants,
also of different components, can therefore share an asset only if their data files hold exactly the
same weights, in any order. Such a model cannot be loaded by its path alone, so this is done on
request only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ortpkg.authoring.edited_documents import EditedDocuments
from ortpkg.authoring.model_weights import ModelWeights, read_model_weights, relative_to_folder
from ortpkg.authoring.sharing.component_folders import (
    OPTIONS_NAME_A_FOLDER,
    VariantFolder,
    ranges_of,
)
from ortpkg.authoring.sharing.contents import ContentKey, read_contents
from ortpkg.authoring.sharing.relocation import relocated
from ortpkg.authoring.sharing.shared_folder import (
    SMALLEST_SHARED_NBYTES,
    DataPosition,
    JoinedModel,
)
from ortpkg.authoring.sharing.sharing_group import SharingGroup, SharingPlan
from ortpkg.authoring.variant_files import option_places
from ortpkg.authoring.variant_places import ComponentDocument
from ortpkg.authoring.variant_sizes import VariantKey
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.storage.composed_file import ComposedFile, FileRange
from ortpkg.foundations.storage.hashing import Progress, hash_file
from ortpkg.package.formats.executor_info import data_folder_of
from ortpkg.package.integrity.asset_digest import directory_digest, listing_digest
from ortpkg.package.package_info import PackageFormat, PackageInfo, VariantInfo
from ortpkg.package.paths.asset_reference import ASSETS_DIRECTORY, asset_folder_name

_OTHER_WEIGHTS = (
    "it has other weights too, and a shared asset holds all of a model's data files or none"
)


def check_can_have_assets(package: PackageInfo) -> None:
    """Raise UsageError if the readers of the package's format know no shared assets."""
    if package.format is not PackageFormat.COMPONENT:
        raise UsageError(
            f"shared assets mean nothing in a {package.format.value} package: convert it first"
            " (ortpkg convert --to component), or choose another layout"
        )


def plan_assets(
    package: PackageInfo,
    *,
    only: Collection[VariantKey] | None = None,
    progress: Progress | None = None,
) -> SharingPlan:
    """Plan shared assets for a whole package, or for weights that the variants ``only`` have.

    Raises:
        UsageError: the package is not of the component generation; no other reader knows shared
            assets.
        AuthoringError: an existing asset does not have the content that its name says.
        ModelError: a model is damaged.
    """
    check_can_have_assets(package)
    folders = list(_folders_with_data(package))
    models = [model for folder in folders for model in folder.models]
    keys = read_contents(ranges_of(models, None), progress=progress)
    equal: dict[frozenset[ContentKey], list[VariantFolder]] = {}
    for folder in folders:
        contents = frozenset(
            keys[tensor.data] for tensor in folder.models[0].external if tensor.data.nbytes
        )
        equal.setdefault(contents, []).append(folder)
    groups = []
    for members in equal.values():
        # a variant that has an asset already is the host
        free = sorted(_movable(members), key=lambda folder: folder.asset is None)
        joining = [folder for folder in free[1:] if folder.asset is None]
        if joining and (only is None or any(_key_of(folder) in only for folder in members)):
            groups.append(_asset_group(package, free[0], joining, keys))
    left_out = {
        _key_of(folder): folder.why_not_movable for folder in folders if folder.why_not_movable
    } | _why_alone(equal)
    if only is not None:
        left_out = {key: why for key, why in left_out.items() if key in only}
    return SharingPlan(components=package.components, groups=tuple(groups), left_out=left_out)


def _folders_with_data(package: PackageInfo) -> Iterator[VariantFolder]:
    """Yield a folder for each variant with data files.

    It is movable if the data files may become a shared asset, or be left for one.
    """
    assets = {asset.path: asset.uri for asset in package.shared_assets}
    documents = EditedDocuments(package)  # without edits
    counts = Counter(
        variant.directory for component in package.components for variant in component.variants
    )
    above = {parent for folder in counts for parent in folder.parents}
    for component in package.components:
        document = ComponentDocument(documents, component)
        for variant in component.variants:
            if variant.model_path is None:
                continue
            data_folder, folder = data_folder_of(variant), variant.directory
            asset = assets.get(data_folder)
            model = read_model_weights(
                variant.model_path, data_folder=data_folder if asset else None
            )
            if not model.external:
                continue
            if any(option != data_folder or asset is None for option in option_places(variant)):
                reason = OPTIONS_NAME_A_FOLDER
            elif (
                counts[folder] > 1
                or folder in above
                or not counts.keys().isdisjoint(folder.parents)
            ):
                reason = "its folder is that of another variant too"
            elif component.directory not in folder.parents:
                reason = "its folder is not one of its own below the component's"
            else:
                reason = _why_not_apart(model, variant, document)
            yield VariantFolder(
                path=folder,
                variants=(variant,),
                models=(model,),
                why_not_movable=reason,
                asset=asset,
            )


def _why_not_apart(model: ModelWeights, variant: VariantInfo, document: ComponentDocument) -> str:
    if model.opaque:
        return "its data files cannot be taken apart"
    return document.why_not_movable(variant) or ""


def _movable(folders: Iterable[VariantFolder]) -> list[VariantFolder]:
    return [folder for folder in folders if not folder.why_not_movable]


def _key_of(folder: VariantFolder) -> VariantKey:
    return folder.variants[0].component_name, folder.variants[0].name


def _asset_group(
    package: PackageInfo,
    host: VariantFolder,
    joining: Sequence[VariantFolder],
    keys: Mapping[FileRange, ContentKey],
) -> SharingGroup:
    """Return the group around a host's data, which becomes an asset unless it is one already."""
    (model,) = host.models
    data_files = {relative_to_folder(path, model.data_folder): path for path in model.data_files}
    uri = host.asset or listing_digest(
        {name: hash_file(path).sha256 for name, path in data_files.items()}
    )
    positions = {
        keys[tensor.data]: DataPosition(
            relative_to_folder(tensor.data.path, model.data_folder), tensor.data.offset
        )
        for tensor in model.external
    }
    if host.asset is not None:
        group = SharingGroup(host=host, home=model.data_folder, asset=uri)
    else:
        home = package.root / ASSETS_DIRECTORY / asset_folder_name(uri)
        new_files = _asset_files(home, uri, data_files)
        group = SharingGroup(host=host, home=home, asset=uri, new_files=new_files)
        joining = [host, *joining]
    for folder in joining:
        _use_asset(group, folder, positions, keys)
    return group


def _asset_files(
    folder: Path, uri: str, data_files: Mapping[str, Path]
) -> dict[Path, ComposedFile]:
    """Return the new files of an asset; none if it exists."""
    if not folder.exists():
        return {folder / name: ComposedFile.copy_of(path) for name, path in data_files.items()}
    if directory_digest(folder) != uri:
        raise AuthoringError(f"{quoted(folder)} is damaged: its content is not what its name says")
    return {}


def _use_asset(
    group: SharingGroup,
    folder: VariantFolder,
    positions: Mapping[ContentKey, DataPosition],
    keys: Mapping[FileRange, ContentKey],
) -> None:
    """Let the model of ``folder``, which stays in it, use the data of the group's asset."""
    (model,) = folder.models
    tensors = [
        (tensor, positions[keys[tensor.data]] if tensor.data.nbytes else None)
        for tensor in model.external
    ]
    # The asset is the host's data as it is.
    content = None if folder is group.host else relocated(model, tensors)
    path = model.path
    if content is not None:
        path = _free_name(model.path)
        group.new_files[path] = content
        group.freed[model.path] = model.path.stat().st_size
    group.freed |= {file: file.stat().st_size for file in model.data_files}
    joined = JoinedModel(
        model=model,
        model_file=relative_to_folder(path, folder.path),
        used_files={position.location for _, position in tensors if position is not None},
        is_rewritten=content is not None,
    )
    group.joined.append((folder, joined))


def _free_name(path: Path) -> Path:
    """Return an unused name beside ``path``: no live file is overwritten."""
    number = 2
    while (candidate := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return candidate


def _why_alone(
    equal: Mapping[frozenset[ContentKey], Sequence[VariantFolder]],
) -> dict[VariantKey, str]:
    """Return why variants with weights in common with others cannot share them.

    ``equal`` maps contents to the folders that have exactly these.
    """
    reasons: dict[VariantKey, str] = {}
    for contents, members in equal.items():
        free = _movable(members)
        if len(free) != 1:
            continue
        hindered = next((folder for folder in members if folder.why_not_movable), None)
        others = {key for other in equal if other is not contents for key in other}
        if hindered is not None:
            name = quoted(hindered.variants[0].name)
            why = f"variant {name} has the same, but {hindered.why_not_movable}"
            reasons[_key_of(free[0])] = why
        elif any(_nbytes_of(key) >= SMALLEST_SHARED_NBYTES for key in contents & others):
            reasons[_key_of(free[0])] = _OTHER_WEIGHTS
    return reasons


def _nbytes_of(key: ContentKey) -> int:
    return int(key.rpartition(":")[2])
