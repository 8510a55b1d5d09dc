"""Find the files to remove with a variant or a component, and edit samples accordingly."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from ortpkg.authoring.variant_files import files_of_model, option_places
from ortpkg.foundations.documents.json_documents import dump_document, parse_document
from ortpkg.foundations.errors import AuthoringError, ModelError, quoted
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.pipeline import pipeline_components, read_pipeline
from ortpkg.package.formats.samples import read_samples
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.package.sidecar import PIPELINE, SAMPLES, samples_document


def files_of_variant(package: PackageInfo, variant: VariantInfo) -> tuple[str, ...]:
    """Return the variant's folder, or its own files if others share the folder.

    Paths are relative to the root, with ``/``.
    """
    return files_of_variants(package, [variant])


def files_of_variants(package: PackageInfo, leaving: Collection[VariantInfo]) -> tuple[str, ...]:
    """Return what only the variants ``leaving`` use: whole folders, or files in shared ones."""
    keys = {(variant.component_name, variant.name) for variant in leaving}
    others = [
        other
        for component in package.components
        for other in component.variants
        if (other.component_name, other.name) not in keys
    ]
    paths = (path for variant in leaving for path in _files_of_variant(package, variant, others))
    return tuple(dict.fromkeys(paths))


def files_of_component(package: PackageInfo, component: ComponentInfo) -> tuple[str, ...]:
    """Return the component's folder; if it holds more, its variants' files and its document."""
    others = [
        variant
        for other_component in package.components
        if other_component.name != component.name
        for variant in other_component.variants
    ]
    documents = [
        package.root / other_component.source.document
        for other_component in package.components
        if other_component.name != component.name
    ]
    is_its_own = component.directory != package.root and not any(
        document.is_relative_to(component.directory) for document in documents
    )
    if is_its_own and not any(_touches(component.directory, other) for other in others):
        return _relative(package, [component.directory])
    document = () if component.source.document == MANIFEST else (component.source.document,)
    return (*files_of_variants(package, component.variants), *document)


def _files_of_variant(
    package: PackageInfo, variant: VariantInfo, others: list[VariantInfo]
) -> tuple[str, ...]:
    component = package.component(variant.component_name)
    assert component is not None
    is_below_component = (
        variant.directory != component.directory
        and variant.directory.is_relative_to(component.directory)
    )
    if is_below_component and not any(_touches(variant.directory, other) for other in others):
        return _relative(package, [variant.directory])
    neighbours = [used_files(other) for other in others if _touches(variant.directory, other)]
    if any(files is None for files in neighbours):
        return ()  # a set of files, or a damaged model, may need any file
    used = {path for files in neighbours for path in files or ()}
    return _relative(package, [path for path in used_files(variant) or () if path not in used])


def check_component_is_free(package: PackageInfo, component: str) -> None:
    """Raise AuthoringError if pipeline.json or samples.json uses the component to be removed."""
    if users := users_of_component(package, component):
        raise AuthoringError(
            f"this is the last variant of component model {quoted(component)}, which"
            f" {' and '.join(users)} uses: change that first, or add another variant"
        )


def users_of_component(package: PackageInfo, component: str) -> list[str]:
    """Return those of pipeline.json and samples.json that are about the component."""
    pipeline = read_pipeline(package)
    users = (
        [PIPELINE] if pipeline is not None and component in pipeline_components(pipeline) else []
    )
    meant = (component, None) if pipeline is None else (component,)
    return users + (
        [SAMPLES] if any(sample.component in meant for sample in read_samples(package)) else []
    )


def _touches(directory: Path, variant: VariantInfo) -> bool:
    """Return True if ``directory`` holds or lies in something that ``variant`` needs."""
    paths = [variant.directory, *option_places(variant)]
    paths += [variant.model_path] if variant.model_path is not None else []
    return any(path.is_relative_to(directory) for path in paths) or directory.is_relative_to(
        variant.directory
    )


def used_files(variant: VariantInfo) -> list[Path] | None:
    """Return the model file and the files that it needs.

    Return None for a set of files, or a model that cannot be read.
    """
    if variant.model_path is None:
        return None
    try:
        return [variant.model_path, *files_of_model(variant, variant.model_path).values()]
    except ModelError:
        return None


def _relative(package: PackageInfo, paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(
        path.relative_to(package.root).as_posix()
        for path in paths
        if path.exists() and path != package.root and path.is_relative_to(package.root)
    )


def samples_without(
    package: PackageInfo, leaving: Mapping[str, Collection[str]]
) -> Iterator[DocumentChange]:
    """Yield samples.json without its entries about leaving variants: component → variants."""
    document = samples_document(package.root)
    if document is None:
        return
    before = (package.root / SAMPLES).read_bytes()
    for sample in document["samples"]:
        component = sample.get("component") or package.components[0].name
        for name in leaving.get(component, ()):
            sample.get("variants", {}).pop(name, None)
        if sample.get("variants") == {}:
            del sample["variants"]
    if (after := dump_document(document)) != dump_document(
        parse_document(before, document=SAMPLES)
    ):
        yield DocumentChange(path=SAMPLES, before=before, after=after)
