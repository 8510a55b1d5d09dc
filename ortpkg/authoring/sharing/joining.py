"""Add a variant with shared weights: it joins the folder that it has most in common with.

Only data that the new model alone has is copied into the package; existing files stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ortpkg.authoring.document_edits import adding_variant
from ortpkg.authoring.edited_documents import EditedDocuments
from ortpkg.authoring.model_weights import ModelWeights, read_model_weights
from ortpkg.authoring.new_variant import Notify, PreparedVariant
from ortpkg.authoring.sharing.component_folders import (
    UsedPaths,
    VariantFolder,
    check_no_links,
    own_folder,
    ranges_of,
    read_component_folders,
    shareable_contents,
)
from ortpkg.authoring.sharing.contents import ContentKey, read_contents
from ortpkg.authoring.sharing.relocation import plan_joining
from ortpkg.authoring.sharing.shared_folder import JoinedModel, SharedFolder
from ortpkg.authoring.variant_places import ComponentDocument, naming_model_files
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.storage.composed_file import FileRange
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.changes.transaction import PackageChange
from ortpkg.package.formats.variant_declarations import OWN_FOLDER
from ortpkg.package.package_info import ComponentInfo, PackageInfo


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
    """Add a new variant to ``component`` so that it shares weights; return False if it cannot.

    Args:
        package, component: the component and its package.
        prepared: the new variant.
        commit: carries out a change; called twice if the host's model has to be named before
            another one lies beside it.
        notify: called with the reason if nothing is shared.
        on_note: called with the number of bytes saved.
        progress: called while files are read.

    Raises:
        ModelError: a model of the component, or the new one, is damaged.
        AuthoringError: the package holds symbolic links.
    """
    best = _best_candidate(package, component, prepared, progress)
    if isinstance(best, str):
        notify(f"variant {quoted(prepared.name)} shares no weights: {best}")
        return False
    folder = best.folder.path
    naming = naming_model_files(package, component, best.folder.variants)
    if naming is not None:
        commit(PackageChange(documents=(naming,), new_directories={}))
    entry = replace(
        prepared.entry,
        model_id=OWN_FOLDER if folder == component.directory else folder.name,
        model_file=best.joined.model_file,
        directory=folder.relative_to(component.directory).as_posix(),
    )
    # Read again from the disk: naming has changed them.
    documents = adding_variant(package, component.name, prepared.name, entry)
    new_files = {
        (folder / location).relative_to(package.root).as_posix(): content
        for location, content in best.joined.new_files.items()
    }
    commit(PackageChange(documents=documents, new_directories={}, new_files=new_files))
    host = quoted(best.folder.variants[0].name)
    on_note(
        f"variant {quoted(prepared.name)} shares weights with {host}: {best.saved_nbytes} bytes"
        " saved"
    )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """Plan of a new variant's joining a folder.

    Attributes:
        folder: the folder.
        joined: the model in it.
        saved_nbytes: size of the variant's own files minus that of the new ones.
    """

    folder: VariantFolder
    joined: JoinedModel
    saved_nbytes: int


def _best_candidate(
    package: PackageInfo,
    component: ComponentInfo,
    prepared: PreparedVariant,
    progress: Progress | None,
) -> _Candidate | str:
    """Return how the new variant shares most weights with existing ones, or why it cannot."""
    check_no_links(package)
    files = prepared.files
    if files.model_file is None:
        return "it is a set of files, not one model"
    model = read_model_weights(files.sources[files.model_file])
    if not set(files.sources.values()) <= set(model.files):
        return "its folder holds other files than the model and its data"
    document = ComponentDocument(EditedDocuments(package), component)
    folders = _hosts(package, component, document)
    models = [host_model for folder in folders for host_model in folder.models]
    keys = read_contents(ranges_of([*models, model], None), progress=progress)
    worthwhile = [
        candidate
        for candidate in _candidates(folders, model, prepared.name, component, keys)
        if candidate.saved_nbytes > 0
    ]
    if worthwhile:
        return max(worthwhile, key=lambda candidate: candidate.saved_nbytes)
    if len(model.files) == 1:
        return (
            "its weights lie in the ONNX file itself; ortpkg dedup --externalize SIZE shares such"
        )
    return "no variant that it could join has weights in common with it"


def _hosts(
    package: PackageInfo, component: ComponentInfo, document: ComponentDocument
) -> list[VariantFolder]:
    """Return the folders that another model may join: of variants, and the component's own.

    The component's own folder is included only if it holds models.
    """
    hosts = [
        folder
        for folder in read_component_folders(package, component, document, UsedPaths(package))
        if not folder.why_not_host
    ]
    components_folder = own_folder(package, component, document)
    return (
        hosts
        if components_folder is None or not components_folder.models
        else [components_folder, *hosts]
    )


def _candidates(
    folders: Iterable[VariantFolder],
    model: ModelWeights,
    variant: str,
    component: ComponentInfo,
    keys: Mapping[FileRange, ContentKey],
) -> Iterator[_Candidate]:
    """Yield plans for the folders that have weights in common with the model and can take it."""
    contents = shareable_contents(model, keys, None).keys()
    old_nbytes = sum(path.stat().st_size for path in model.files)
    for folder in folders:
        if all(
            contents.isdisjoint(shareable_contents(host_model, keys, None))
            for host_model in folder.models
        ):
            continue
        # In the component's own folder models are named after their variants (ADR 7).
        in_own_folder = folder.path == component.directory
        shared = SharedFolder(folder.path, keys, prefers_variant_names=in_own_folder)
        for host_model in folder.models:
            shared.keep(host_model)
        joined = plan_joining(shared, model, variant)
        if not isinstance(joined, str):
            new_nbytes = sum(content.nbytes for content in joined.new_files.values())
            yield _Candidate(folder=folder, joined=joined, saved_nbytes=old_nbytes - new_nbytes)
