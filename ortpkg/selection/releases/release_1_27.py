"""Read a package as onnxruntime 1.26 and 1.27 do, with their refusals.

They read the metadata generation only, ignore what they do not know, confine nothing to the
package, have no limits, and resolve the model of every variant, even of those that they would not
select. ``tests/interop/`` compares all of this with the releases. Only documents are read here; of
other files only names and kinds are used, as the system sees them: a path ends at a NUL.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.document_rules import DOCUMENT_TOO_LARGE
from ortpkg.foundations.documents.finding_collector import json_pointer
from ortpkg.foundations.documents.json_documents import read_json
from ortpkg.foundations.errors import PackageFormatError, quoted
from ortpkg.foundations.onnxruntime_releases import ONNXRUNTIME_1_27
from ortpkg.package.document_names import MANIFEST, METADATA
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.formats.variant_declarations import sanitize_model_id
from ortpkg.package.package_info import (
    ComponentInfo,
    Constraints,
    PackageFormat,
    PackageInfo,
    Source,
    VariantInfo,
    until_nul,
)
from ortpkg.package.paths.disk_places import PathKind, kind_of
from ortpkg.selection.releases.common_rules import Refusal

# The releases have no limits. Packages beyond these are not predicted.
_MOST_NBYTES = 64 * 1024 * 1024
_LIMITS = DocumentLimits(
    nbytes=_MOST_NBYTES,
    depth=100,
    values=4_000_000,
    string_length=_MOST_NBYTES,
    number_length=_MOST_NBYTES,
    repeated_keys=True,
    text_after_nul=True,
    drops_what_is_deeper=True,
)
_MODEL_SUFFIX = ".onnx"


class _RefusedError(Exception):
    """Ends the reading with one refusal."""

    def __init__(self, document: str, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.refusal = Refusal(document=document, message=message, pointer=pointer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadComponent:
    """The component that a release reads: name, folder, metadata.json and its content."""

    name: str
    folder: str
    document: str
    metadata: Mapping[str, Any]
    manifest: Mapping[str, Any]


def read_as_1_27(root: Path) -> tuple[PackageInfo | None, tuple[Refusal, ...]]:
    """Return the package in ``root`` as onnxruntime 1.26 and 1.27 find it, or all refusals.

    ``model_path`` of a variant is the path that they would load, which need not be a file and may
    lie outside the package. Options, which they ignore, are left out.
    """
    try:
        component_found = _find_component(os.path.realpath(root))
    except _RefusedError as error:
        return None, (error.refusal,)
    variants: list[VariantInfo] = []
    refusals: list[Refusal] = []
    for name, body in component_found.metadata["model_variants"].items():
        try:
            variants.append(
                _read_variant(name, body if isinstance(body, Mapping) else {}, component_found)
            )
        except _RefusedError as error:
            refusals.append(error.refusal)
    if refusals:
        return None, tuple(refusals)
    component = ComponentInfo(
        name=component_found.name,
        directory=Path(until_nul(component_found.folder)),
        variants=tuple(variants),
        source=Source(document=component_found.document),
    )
    version = component_found.manifest.get("model_version")
    package = PackageInfo(
        root=Path(os.path.realpath(root)),
        name=component_found.manifest.get("model_name", component_found.name),
        version=version if isinstance(version, str) else None,
        format=PackageFormat.METADATA,
        components=(component,),
        compat=ONNXRUNTIME_1_27,
    )
    return package, ()


def _find_component(root: str) -> _ReadComponent:
    if (
        _kind_at(_joined(root, METADATA), METADATA) is PathKind.FILE
    ):  # a component's own folder, whatever else it contains
        metadata = _read_metadata(root, METADATA)
        return _ReadComponent(
            name=os.path.basename(root),  # noqa: PTH119
            folder=root,
            document=METADATA,
            metadata=metadata,
            manifest={},
        )
    manifest = _read(_joined(root, MANIFEST), MANIFEST)
    if not isinstance(manifest, Mapping):
        raise _RefusedError(MANIFEST, "is no JSON object")
    name = manifest.get("model_name")
    if not isinstance(name, str) or not name:
        raise _RefusedError(MANIFEST, "has no model_name, which must be a text that is not empty")
    is_listed = "component_models" in manifest
    pointer = "/component_models" if is_listed else ""
    components = manifest["component_models"] if is_listed else list(_discover(root))
    if not isinstance(components, list) or not all(isinstance(name, str) for name in components):
        raise _RefusedError(MANIFEST, "component_models is not a list of names", pointer)
    if len(components) != 1:
        raise _RefusedError(
            MANIFEST, f"has {len(components)} component models; exactly one is read", pointer
        )
    (component,) = components
    folder, document = _joined(root, MODELS, component), f"{MODELS}/{component}/{METADATA}"
    if _kind_at(folder, document) is not PathKind.DIRECTORY:
        raise _RefusedError(document, "is not there")
    metadata = _read_metadata(folder, document)
    if not metadata["model_variants"]:
        raise _RefusedError(document, "has no variants in model_variants")
    return _ReadComponent(
        name=component, folder=folder, document=document, metadata=metadata, manifest=manifest
    )


def _discover(root: str) -> Iterator[str]:
    """Yield the folders in models/ that have a metadata.json.

    One that cannot be read is an error.
    """
    folder = _joined(root, MODELS)
    for entry in sorted(_entries(folder, MODELS), key=lambda item: item.name):
        document = f"{MODELS}/{entry.name}/{METADATA}"
        if _kind_of_entry(entry, MODELS) is not PathKind.DIRECTORY:
            continue
        if _kind_at(_joined(entry.path, METADATA), document) is not PathKind.MISSING:
            _read_metadata(entry.path, document)
            yield entry.name


def _read_metadata(folder: str, document: str) -> Mapping[str, Any]:
    """Return metadata.json, whose ``model_variants`` is an object."""
    metadata = _read(_joined(folder, METADATA), document)
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("model_variants"), Mapping):
        raise _RefusedError(document, "is no JSON object with the object model_variants")
    return metadata


def _read_variant(name: str, body: Mapping[str, Any], component: _ReadComponent) -> VariantInfo:
    pointer = json_pointer("model_variants", name)
    folder = _joined(component.folder, sanitize_model_id(_text(body, "model_id")) or name)
    try:
        model = _find_model(folder, body.get("model_file"), component.document)
    except _RefusedError as error:
        message = (
            f"variant {quoted(name)} {error}: the whole package is refused, whichever variant would"
            " suit"
        )
        raise _RefusedError(component.document, message, pointer) from None
    constraints_value = body.get("constraints")
    constraints = constraints_value if isinstance(constraints_value, Mapping) else {}
    return VariantInfo(
        name=name,
        component_name=component.name,
        directory=Path(until_nul(folder)),
        model_path=Path(until_nul(model)),
        constraints=Constraints(
            ep=_text(constraints, "ep") or None,
            device=_text(constraints, "device") or None,
            architecture=_text(constraints, "architecture") or None,
            ep_compatibility_info=_text(constraints, "ep_compatibility_info") or None,
        ),
        source=Source(document=component.document, pointer=pointer),
    )


def _find_model(folder: str, model_file: Any, document: str) -> str:
    """Return the file for a variant's ``model_file``, or the only ONNX file of a folder."""
    path = folder
    if isinstance(model_file, str):
        path = _joined(folder, model_file)
        kind = _kind_at(path, document)
        if kind is PathKind.MISSING:
            raise _RefusedError(document, f"has no model file {quoted(model_file)}")
        if kind is not PathKind.DIRECTORY:
            return path
    names = [
        entry.name
        for entry in _entries(path, document)
        if _kind_of_entry(entry, document) is PathKind.FILE and _is_model(entry.name)
    ]
    if len(names) != 1:
        shown = quoted(os.path.basename(os.path.normpath(path)))  # noqa: PTH119
        raise _RefusedError(
            document, f"has {len(names)} ONNX files in {shown}, and names none of them"
        )
    return _joined(path, *names)


def _is_model(name: str) -> bool:
    """Return True if the extension of a file's name is .onnx.

    A name that is nothing but an extension has none.
    """
    return name.rfind(".") > 0 and name[name.rfind(".") :].lower() == _MODEL_SUFFIX


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


def _joined(*parts: str) -> str:
    return os.path.join(*parts)  # noqa: PTH118  # as C++ joins paths: a slash or a dot at the end stays


def _kind_at(path: str, document: str) -> PathKind:
    """Return the kind of file at ``path``, following links.

    An error of the system stops the release.
    """
    try:
        return kind_of(os.stat(until_nul(path)))  # noqa: PTH116
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return PathKind.MISSING
        raise _RefusedError(
            document, f"leads to {quoted(path)}, which cannot be read: {error.strerror}"
        ) from None


def _entries(folder: str, document: str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(until_nul(folder)) as entries:
            return list(entries)
    except OSError as error:
        shown = quoted(os.path.basename(folder))  # noqa: PTH119
        raise _RefusedError(
            document, f"has no folder {shown} that can be read: {error.strerror}"
        ) from None


def _kind_of_entry(entry: os.DirEntry[str], document: str) -> PathKind:
    """Return the kind of a folder's entry; a link that leads in a circle stops the release."""
    if entry.is_symlink():
        return _kind_at(entry.path, document)
    if entry.is_dir():
        return PathKind.DIRECTORY
    return PathKind.FILE if entry.is_file() else PathKind.OTHER


def _read(path: str, document: str) -> Any:
    try:
        return read_json(until_nul(path), document=document, limits=_LIMITS)
    except PackageFormatError as error:
        first = error.findings[0]
        what = (
            "is more than ortpkg reads, so that it is not foretold"
            if first.rule == DOCUMENT_TOO_LARGE.id
            else ""
        )
        raise _RefusedError(document, what or first.message) from None
