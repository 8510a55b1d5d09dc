"""Sharing weights as content-addressed assets: ``shared_assets/sha256-<hex>/``.

onnxruntime 1.28 to 1.32 reads them.

A variant's model stays in its folder; a session option makes the asset the folder of its external
data: all of it or none. So variants share an asset that have exactly the same weights in data
files, however these are packed; components may share one, too. Such a model cannot be loaded by its
path alone, which is why this is done on request only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ortpkg.authoring.component_folders import ranges_of
from ortpkg.authoring.contents import ContentKey, read_contents
from ortpkg.authoring.model_weights import ModelWeights, read_model_weights, relative_to_folder
from ortpkg.authoring.shared_folder import SMALLEST_SHARED_NBYTES
from ortpkg.authoring.variant_files import option_places
from ortpkg.authoring.variant_places import ComponentDocument, DocumentEdits, ModelFilePlace
from ortpkg.errors import AuthoringError, UsageError, quoted
from ortpkg.graph.tensor_messages import with_data_at, with_empty_data
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER
from ortpkg.package.integrity.asset_digest import directory_digest, listing_digest
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo
from ortpkg.package.paths.asset_reference import ASSETS_DIRECTORY, asset_folder_name
from ortpkg.storage.composed_file import ComposedFile, FileRange, Segment
from ortpkg.storage.hashing import Progress, hash_file

VariantKey = tuple[str, str]
_OWN_WEIGHTS = (
    "it has other weights too, and a shared asset holds all of a model's data files or none"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetPlan:
    """What is to be done; paths in ``new_files`` and ``removed`` are absolute.

    Attributes:
        places: (component, variant) → where its model is from now on, and its asset.
        new_files: file → content.
        removed: file → size.
        read: files that are taken apart or moved.
        left_out: (component, variant) → why it shares nothing.
    """

    places: Mapping[VariantKey, ModelFilePlace]
    new_files: Mapping[Path, ComposedFile]
    removed: Mapping[Path, int]
    read: tuple[Path, ...]
    left_out: Mapping[VariantKey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A variant with data files.

    Attributes:
        variant, model: which.
        data_folder: where its data files lie.
        asset: the one that it uses already.
        obstacle: why it cannot share; "" where it can.
    """

    variant: VariantInfo
    model: ModelWeights
    data_folder: Path
    asset: str | None
    obstacle: str = ""

    @property
    def key(self) -> VariantKey:
        return self.variant.component_name, self.variant.name

    def contents(self, keys: Mapping[FileRange, ContentKey]) -> frozenset[ContentKey]:
        """What its data files hold, as far as the model uses it."""
        return frozenset(keys[tensor.data] for tensor in self.model.external if tensor.data.nbytes)


@dataclass(slots=True, kw_only=True)
class _Draft:
    places: dict[VariantKey, ModelFilePlace] = field(default_factory=dict)
    new_files: dict[Path, ComposedFile] = field(default_factory=dict)
    removed: dict[Path, int] = field(default_factory=dict)
    read: dict[Path, None] = field(default_factory=dict)


def plan_assets(
    package: PackageInfo,
    *,
    only: Collection[VariantKey] | None = None,
    progress: Progress | None = None,
) -> AssetPlan:
    """Plans for a whole package; ``only``: groups with one of these variants.

    Raises:
        UsageError: the package is not of the component generation, whose readers alone know shared
            assets.
        AuthoringError: an asset that is there already has other content than its name says.
        ModelError: a model is damaged.
    """
    check_can_have_assets(package)
    candidates = list(_candidates(package))
    keys = read_contents(ranges_of([each.model for each in candidates], None), progress=progress)
    groups: dict[frozenset[ContentKey], list[_Candidate]] = {}
    for each in candidates:
        groups.setdefault(each.contents(keys), []).append(each)
    draft = _Draft()
    for group in groups.values():
        free = [each for each in group if not each.obstacle]
        # who has an asset already is the host
        ordered = sorted(free, key=lambda each: each.asset is None)
        joining = [each for each in ordered[1:] if each.asset is None]
        if joining and (only is None or any(each.key in only for each in group)):
            _share(package, ordered[0], joining, keys, draft)
    left_out = {each.key: each.obstacle for each in candidates if each.obstacle} | _reasons(groups)
    return AssetPlan(
        places=draft.places,
        new_files=draft.new_files,
        removed=draft.removed,
        read=tuple(draft.read),
        left_out=(
            left_out if only is None else {key: why for key, why in left_out.items() if key in only}
        ),
    )


def check_can_have_assets(package: PackageInfo) -> None:
    """UsageError where the package has a format whose readers know no shared assets."""
    if package.format is not PackageFormat.COMPONENT:
        raise UsageError(
            f"shared assets mean nothing in a {package.format.value} package: convert it first"
            " (ortpkg convert --to component), or choose another layout"
        )


def _candidates(package: PackageInfo) -> Iterator[_Candidate]:
    """Variants with data files; those whose folder is theirs alone can share."""
    assets = {asset.path: asset.uri for asset in package.shared_assets}
    folders = _VariantFolders(package)
    documents = DocumentEdits(package)  # none
    for component in package.components:
        document = documents.document(component)
        for variant in component.variants:
            if variant.model_path is None:
                continue
            folder = Path(
                variant.session_options.get(EXTERNAL_INITIALIZERS_FOLDER, variant.directory)
            )
            asset = assets.get(folder)
            places = [place for place in option_places(variant) if asset is None or place != folder]
            model = read_model_weights(variant.model_path, data_folder=folder if asset else None)
            if not model.external:
                continue
            yield _Candidate(
                variant=variant,
                model=model,
                data_folder=folder if asset else model.folder,
                asset=asset,
                obstacle=_why_not(component, variant, model, document, places, folders),
            )


class _VariantFolders:
    """The folders of all variants of a package, and all that these lie in."""

    def __init__(self, package: PackageInfo) -> None:
        variants = [variant for component in package.components for variant in component.variants]
        self._own = Counter(variant.directory for variant in variants)
        self._above = {folder for variant in variants for folder in variant.directory.parents}

    def has_another(self, variant: VariantInfo) -> bool:
        """Whether the folder is that of another variant too, lies in such a one or holds one."""
        folder = variant.directory
        return (
            self._own[folder] > 1
            or folder in self._above
            or any(parent in self._own for parent in folder.parents)
        )


def _why_not(
    component: ComponentInfo,
    variant: VariantInfo,
    model: ModelWeights,
    document: ComponentDocument,
    places: list[Path],
    folders: _VariantFolders,
) -> str:
    if places:
        return "its session options name a folder of their own"
    if folders.has_another(variant):
        return "its folder is that of another variant too"
    if (
        variant.directory == component.directory
        or component.directory not in variant.directory.parents
    ):
        return "its folder is not one of its own below the component's"
    if model.opaque:
        return "its data files cannot be taken apart"
    return document.why_not_movable(variant) or ""


def _share(
    package: PackageInfo,
    host: _Candidate,
    joining: list[_Candidate],
    keys: Mapping[FileRange, ContentKey],
    draft: _Draft,
) -> None:
    data_files = {
        relative_to_folder(path, host.data_folder): path for path in host.model.data_files
    }
    uri = host.asset or listing_digest(
        {name: hash_file(path).sha256 for name, path in data_files.items()}
    )
    if host.asset is None:
        _add_asset(package.root / ASSETS_DIRECTORY / asset_folder_name(uri), uri, data_files, draft)
        joining = [host, *joining]
    locations = {
        keys[tensor.data]: (
            relative_to_folder(tensor.data.path, host.data_folder),
            tensor.data.offset,
        )
        for tensor in host.model.external
    }
    for each in joining:
        content = None if each is host else _rewritten(each.model, locations, keys)
        folder, path = each.variant.directory, each.model.path
        if content is not None:
            new = _free_name(path)
            draft.new_files[new] = content
            draft.removed[path] = path.stat().st_size
            path = new
        draft.removed |= {file: file.stat().st_size for file in each.model.data_files}
        draft.read |= dict.fromkeys((each.model.path, *each.model.data_files))
        draft.places[each.key] = ModelFilePlace(
            folder=folder, model_file=relative_to_folder(path, folder), asset=uri
        )


def _add_asset(folder: Path, uri: str, data_files: Mapping[str, Path], draft: _Draft) -> None:
    if not folder.exists():
        draft.new_files |= {
            folder / name: ComposedFile.copy_of(path) for name, path in data_files.items()
        }
    elif directory_digest(folder) != uri:
        raise AuthoringError(f"{quoted(folder)} is damaged: its content is not what its name says")


def _rewritten(
    model: ModelWeights,
    locations: Mapping[ContentKey, tuple[str, int]],
    keys: Mapping[FileRange, ContentKey],
) -> ComposedFile | None:
    """The model with each tensor's data where the asset has it; None where it says so already."""
    replacements = {}
    for tensor in model.external:
        if not tensor.data.nbytes:
            replacements[tensor.message.start] = with_empty_data(model.message.data, tensor.message)
            continue
        location, offset = locations[keys[tensor.data]]
        is_there = (
            PurePosixPath(tensor.location or "") == PurePosixPath(location)
            and tensor.data.offset == offset
        )
        if not is_there:
            replacements[tensor.message.start] = with_data_at(
                model.message.data, tensor.message, location, offset, tensor.data.nbytes
            )
    if not replacements:
        return None
    segments: list[Segment] = [
        piece if isinstance(piece, bytes) else FileRange(model.path, piece[0], piece[1] - piece[0])
        for piece in model.message.replaced(replacements)
    ]
    return ComposedFile(tuple(segments))


def _free_name(path: Path) -> Path:
    """A name beside ``path`` that nothing has: no live file is overwritten."""
    number = 2
    while (found := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return found


def _reasons(groups: Mapping[frozenset[ContentKey], list[_Candidate]]) -> dict[VariantKey, str]:
    """Who has weights in common with others but cannot share them: (component, variant) → why."""
    found: dict[VariantKey, str] = {}
    for contents, group in groups.items():
        free = [each for each in group if not each.obstacle]
        if len(free) != 1:
            continue
        hindered = next((each for each in group if each.obstacle), None)
        others = {key for other in groups if other is not contents for key in other}
        if hindered is not None:
            found[free[0].key] = (
                f"variant {quoted(hindered.variant.name)} has the same, but {hindered.obstacle}"
            )
        elif any(_nbytes_of(key) >= SMALLEST_SHARED_NBYTES for key in contents & others):
            found[free[0].key] = _OWN_WEIGHTS
    return found


def _nbytes_of(key: ContentKey) -> int:
    return int(key.rpartition(":")[2])
