"""Share weights as content-addressed assets: ``shared_assets/sha256-<hex>/``.

onnxruntime 1.28 to 1.32 reads them. A variant's model stays in its folder; a session option makes
the asset the folder of all its external data. Variants, also of different components, can therefore
share an asset only if their data files hold exactly the same weights, in any order. Such a model
cannot be loaded by its path alone, so this is done on request only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ortpkg.authoring.edited_documents import EditedDocuments
from ortpkg.authoring.model_weights import ModelWeights, read_model_weights, relative_to_folder
from ortpkg.authoring.sharing.component_folders import ranges_of
from ortpkg.authoring.sharing.contents import ContentKey, read_contents
from ortpkg.authoring.sharing.shared_folder import SMALLEST_SHARED_NBYTES
from ortpkg.authoring.variant_files import option_places
from ortpkg.authoring.variant_places import ComponentDocument, ModelLocation
from ortpkg.authoring.variant_sizes import VariantKey
from ortpkg.errors import AuthoringError, UsageError, quoted
from ortpkg.graph.tensor_messages import with_data_at, with_empty_data
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER
from ortpkg.package.integrity.asset_digest import directory_digest, listing_digest
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo
from ortpkg.package.paths.asset_reference import ASSETS_DIRECTORY, asset_folder_name
from ortpkg.storage.composed_file import ComposedFile, FileRange, Segment
from ortpkg.storage.hashing import Progress, hash_file

_OWN_WEIGHTS = (
    "it has other weights too, and a shared asset holds all of a model's data files or none"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetPlan:
    """Planned changes; paths in ``new_files`` and ``removed`` are absolute.

    Attributes:
        locations: (component, variant) → new location of its model, and its asset.
        new_files: file → content.
        removed: file → size in bytes.
        read: files that are taken apart or moved.
        left_out: (component, variant) → why it shares nothing.
    """

    locations: Mapping[VariantKey, ModelLocation]
    new_files: Mapping[Path, ComposedFile]
    removed: Mapping[Path, int]
    read: tuple[Path, ...]
    left_out: Mapping[VariantKey, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """Variant with data files.

    Attributes:
        variant, model: the variant and its model.
        data_folder: the folder of its data files.
        asset: the asset that it uses already; None for none.
        obstacle: why it cannot share; "" if it can.
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
        """Return the keys of the weights in its data files that the model uses."""
        return frozenset(keys[tensor.data] for tensor in self.model.external if tensor.data.nbytes)


@dataclass(slots=True, kw_only=True)
class _Draft:
    locations: dict[VariantKey, ModelLocation] = field(default_factory=dict)
    new_files: dict[Path, ComposedFile] = field(default_factory=dict)
    removed: dict[Path, int] = field(default_factory=dict)
    read: dict[Path, None] = field(default_factory=dict)


def plan_assets(
    package: PackageInfo,
    *,
    only: Collection[VariantKey] | None = None,
    progress: Progress | None = None,
) -> AssetPlan:
    """Plan the sharing of a whole package, or of the groups with one of the variants ``only``.

    Raises:
        UsageError: the package is not of the component generation; no other reader knows shared
            assets.
        AuthoringError: an existing asset does not have the content that its name says.
        ModelError: a model is damaged.
    """
    check_can_have_assets(package)
    candidates = list(_candidates(package))
    keys = read_contents(
        ranges_of([candidate.model for candidate in candidates], None), progress=progress
    )
    groups: dict[frozenset[ContentKey], list[_Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.contents(keys), []).append(candidate)
    draft = _Draft()
    for group in groups.values():
        free = [candidate for candidate in group if not candidate.obstacle]
        # a variant that has an asset already is the host
        ordered = sorted(free, key=lambda candidate: candidate.asset is None)
        joining = [candidate for candidate in ordered[1:] if candidate.asset is None]
        if joining and (only is None or any(candidate.key in only for candidate in group)):
            _share(package, ordered[0], joining, keys, draft)
    left_out = {
        candidate.key: candidate.obstacle for candidate in candidates if candidate.obstacle
    } | _reasons(groups)
    return AssetPlan(
        locations=draft.locations,
        new_files=draft.new_files,
        removed=draft.removed,
        read=tuple(draft.read),
        left_out=(
            left_out if only is None else {key: why for key, why in left_out.items() if key in only}
        ),
    )


def check_can_have_assets(package: PackageInfo) -> None:
    """Raise UsageError if the readers of the package's format know no shared assets."""
    if package.format is not PackageFormat.COMPONENT:
        raise UsageError(
            f"shared assets mean nothing in a {package.format.value} package: convert it first"
            " (ortpkg convert --to component), or choose another layout"
        )


def _candidates(package: PackageInfo) -> Iterator[_Candidate]:
    """Yield variants with data files; the others of their folder decide if they can share."""
    assets = {asset.path: asset.uri for asset in package.shared_assets}
    folders = _VariantFolders(package)
    documents = EditedDocuments(package)  # without edits
    for component in package.components:
        document = ComponentDocument(documents, component)
        for variant in component.variants:
            if variant.model_path is None:
                continue
            folder = Path(
                variant.session_options.get(EXTERNAL_INITIALIZERS_FOLDER, variant.directory)
            )
            asset = assets.get(folder)
            option_folders = [
                option_folder
                for option_folder in option_places(variant)
                if asset is None or option_folder != folder
            ]
            model = read_model_weights(variant.model_path, data_folder=folder if asset else None)
            if not model.external:
                continue
            yield _Candidate(
                variant=variant,
                model=model,
                data_folder=folder if asset else model.folder,
                asset=asset,
                obstacle=_why_not(component, variant, model, document, option_folders, folders),
            )


class _VariantFolders:
    """Folders of all variants of a package, and the folders above them."""

    def __init__(self, package: PackageInfo) -> None:
        variants = [variant for component in package.components for variant in component.variants]
        self._counts = Counter(variant.directory for variant in variants)
        self._above = {folder for variant in variants for folder in variant.directory.parents}

    def has_another(self, variant: VariantInfo) -> bool:
        """Return True if another variant uses this folder, one above it or one inside it."""
        folder = variant.directory
        return (
            self._counts[folder] > 1
            or folder in self._above
            or any(parent in self._counts for parent in folder.parents)
        )


def _why_not(
    component: ComponentInfo,
    variant: VariantInfo,
    model: ModelWeights,
    document: ComponentDocument,
    option_folders: list[Path],
    folders: _VariantFolders,
) -> str:
    if option_folders:
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
    for candidate in joining:
        content = None if candidate is host else _rewritten(candidate.model, locations, keys)
        folder, path = candidate.variant.directory, candidate.model.path
        if content is not None:
            new_path = _free_name(path)
            draft.new_files[new_path] = content
            draft.removed[path] = path.stat().st_size
            path = new_path
        draft.removed |= {file: file.stat().st_size for file in candidate.model.data_files}
        draft.read |= dict.fromkeys((candidate.model.path, *candidate.model.data_files))
        draft.locations[candidate.key] = ModelLocation(
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
    """Return the model with its data in the asset; None if it refers to it already."""
    replacements = {}
    for tensor in model.external:
        if not tensor.data.nbytes:
            replacements[tensor.message.start] = with_empty_data(model.message.data, tensor.message)
            continue
        location, offset = locations[keys[tensor.data]]
        is_unchanged = (
            PurePosixPath(tensor.location or "") == PurePosixPath(location)
            and tensor.data.offset == offset
        )
        if not is_unchanged:
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
    """Return an unused name beside ``path``: no live file is overwritten."""
    number = 2
    while (candidate := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return candidate


def _reasons(groups: Mapping[frozenset[ContentKey], list[_Candidate]]) -> dict[VariantKey, str]:
    """Map (component, variant) to why it cannot share weights that it has in common with others."""
    reasons: dict[VariantKey, str] = {}
    for contents, group in groups.items():
        free = [candidate for candidate in group if not candidate.obstacle]
        if len(free) != 1:
            continue
        hindered = next((candidate for candidate in group if candidate.obstacle), None)
        others = {key for other in groups if other is not contents for key in other}
        if hindered is not None:
            reasons[free[0].key] = (
                f"variant {quoted(hindered.variant.name)} has the same, but {hindered.obstacle}"
            )
        elif any(_nbytes_of(key) >= SMALLEST_SHARED_NBYTES for key in contents & others):
            reasons[free[0].key] = _OWN_WEIGHTS
    return reasons


def _nbytes_of(key: ContentKey) -> int:
    return int(key.rpartition(":")[2])
