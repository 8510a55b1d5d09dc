"""``add_variant`` with shared weights: the new variant joins the folder that it shares most with.

Only what the new model has alone is copied into the package; what is there stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.authoring.component_folders import (
    UsedPlaces,
    VariantFolder,
    own_folder,
    ranges_of,
    read_component_folders,
    shareable_contents,
)
from ortpkg.authoring.contents import ContentKey, read_contents
from ortpkg.authoring.dedup import check_no_links
from ortpkg.authoring.document_edits import adding_variant
from ortpkg.authoring.model_weights import ModelWeights, read_model_weights
from ortpkg.authoring.new_variant import Notify, PreparedVariant
from ortpkg.authoring.shared_folder import JoinedModel, SharedFolder
from ortpkg.authoring.variant_places import ComponentDocument
from ortpkg.errors import quoted
from ortpkg.package.changes.transaction import DocumentChange, PackageChange
from ortpkg.package.formats.variant_declarations import OWN_FOLDER
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.storage.composed_file import ComposedFile, FileRange
from ortpkg.storage.hashing import Progress


def join_variant(
    package: PackageInfo,
    component: ComponentInfo,
    prepared: PreparedVariant,
    *,
    commit: Callable[[PackageChange], None],
    notify: Notify,
    on_note: Notify,
    progress: Progress | None = None,
) -> bool:
    """Adds a new variant to ``component`` so that it shares weights.

    False, with nothing done, where it cannot.

    ``on_note`` is told how many bytes that saves, ``notify`` why none. ``commit`` carries out a
    change; it is called twice where the host's model has to be named before another one lies beside
    it.

    Raises ModelError where a model of the component, or the new one, is damaged; AuthoringError
    where the package holds symbolic links.
    """
    found = _plan(package, component, prepared, progress)
    if isinstance(found, str):
        notify(f"variant {quoted(prepared.name)} shares no weights: {found}")
        return False
    if found.naming is not None:
        commit(PackageChange(documents=(found.naming,), new_directories={}))
    entry = replace(
        prepared.entry,
        model_id=OWN_FOLDER if found.folder == component.directory else found.folder.name,
        model_file=found.model_file,
        directory=found.folder.relative_to(component.directory).as_posix(),
    )
    # Read anew from the disk: naming has changed them.
    documents = adding_variant(package, component.name, prepared.name, entry)
    commit(PackageChange(documents=documents, new_directories={}, new_files=found.new_files))
    host = quoted(found.host.name)
    on_note(
        f"variant {quoted(prepared.name)} shares weights with {host}: {found.saved_nbytes} bytes"
        " saved"
    )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joining:
    """How a new variant joins a folder.

    Attributes:
        folder: which, absolute.
        host: a variant whose folder it is.
        model_file: of the new variant, relative to the folder.
        new_files: to write, relative to the package root.
        saved_nbytes: how much less that is than the variant's own files.
        naming: to be committed first, where the host's model is not named.
    """

    folder: Path
    host: VariantInfo
    model_file: str
    new_files: Mapping[str, ComposedFile]
    saved_nbytes: int
    naming: DocumentChange | None


def _plan(
    package: PackageInfo,
    component: ComponentInfo,
    prepared: PreparedVariant,
    progress: Progress | None,
) -> _Joining | str:
    """How the new variant can share weights with those that are there, or why it cannot."""
    check_no_links(package)
    files = prepared.files
    if files.model_file is None:
        return "it is a set of files, not one model"
    model = read_model_weights(files.sources[files.model_file])
    if not set(files.sources.values()) <= set(model.files):
        return "its folder holds other files than the model and its data"
    document = ComponentDocument(package, component)
    folders = _hosts(package, component, document)
    models = [each for folder in folders for each in folder.models]
    keys = read_contents(ranges_of([*models, model], None), progress=progress)
    candidates = (
        _join(folder, model, prepared.name, keys, in_own_folder=folder.path == component.directory)
        for folder in folders
        if _has_common(folder, model, keys)
    )
    found = [each for each in candidates if each is not None and each.saved_nbytes > 0]
    if not found:
        if len(model.files) == 1:
            return (
                "its weights lie in the ONNX file itself; ortpkg dedup --externalize SIZE shares"
                " such"
            )
        return "no variant that it could join has weights in common with it"
    best = max(found, key=lambda each: each.saved_nbytes)
    folder, joined = best.folder, best.joined
    return _Joining(
        folder=folder.path,
        host=folder.variants[0],
        model_file=joined.model_file,
        new_files={
            (folder.path / location).relative_to(package.root).as_posix(): content
            for location, content in joined.new_files.items()
        },
        saved_nbytes=best.saved_nbytes,
        naming=document.naming_model_files(folder.variants),
    )


def _hosts(
    package: PackageInfo, component: ComponentInfo, document: ComponentDocument
) -> list[VariantFolder]:
    """The folders that another model may join: those of variants, and the component's own.

    The component's own only where models lie in it.
    """
    hosts = [
        folder
        for folder in read_component_folders(package, component, document, UsedPlaces(package))
        if not folder.why_not_host
    ]
    own = own_folder(package, component, document)
    return hosts if own is None or not own.models else [own, *hosts]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    folder: VariantFolder
    joined: JoinedModel
    saved_nbytes: int


def _join(
    folder: VariantFolder,
    model: ModelWeights,
    variant: str,
    keys: Mapping[FileRange, ContentKey],
    *,
    in_own_folder: bool,
) -> _Candidate | None:
    """Joins the host; ``in_own_folder``: the component's own, where models have variants' names.

    ADR 7 says why.
    """
    shared = SharedFolder(folder.path, keys, prefers_variant_names=in_own_folder)
    for each in folder.models:
        shared.keep(each)
    joined = shared.place(model, variant)
    if isinstance(joined, str):
        return None
    new_nbytes = sum(content.nbytes for content in joined.new_files.values())
    return _Candidate(
        folder=folder, joined=joined, saved_nbytes=_total_nbytes(model.files) - new_nbytes
    )


def _has_common(
    folder: VariantFolder, model: ModelWeights, keys: Mapping[FileRange, ContentKey]
) -> bool:
    ours = shareable_contents(model, keys, None).keys()
    return any(ours & shareable_contents(each, keys, None).keys() for each in folder.models)


def _total_nbytes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
