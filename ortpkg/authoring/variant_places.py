"""Edit the document that declares a component's variants: folder and model file of each.

This works in every generation of the format, since only existing keys change: ``model_id`` and
``model_file`` in ``model_variants``, ``variant_directory`` and ``executor_info.ort.model_file`` in
``variants``, both in a universal package.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ortpkg.authoring.document_edits import checked_document
from ortpkg.documents.json_documents import parse_document
from ortpkg.errors import AuthoringError, quoted
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.component_format import FACTS
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER, ORT
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.formats.variant_declarations import OWN_FOLDER
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo

_OLDER, _NEWER = "model_variants", "variants"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFilePlace:
    """Place of a variant's model: a folder (absolute), and a file relative to it (with ``/``).

    ``nbytes`` is the size of the model with all files that it needs; None for no change. ``asset``
    is the shared asset that becomes the folder of its external data (component generation only);
    None for no change.
    """

    folder: Path
    model_file: str
    nbytes: int | None = None
    asset: str | None = None


class DocumentContent(NamedTuple):
    """Document as its file has it, and the value in it, edited or not."""

    before: bytes
    value: dict[str, Any]

    @classmethod
    def read(cls, package: PackageInfo, path: str) -> DocumentContent:
        """Read the document at ``path``; PackageFormatError if it is not valid."""
        before = (package.root / path).read_bytes()
        return cls(before, parse_document(before, document=path))


class ComponentDocument:
    """The one document that declares (most of) a component's variants, and edits of it.

    Args:
        package, component: the component that the document declares, and its package.
        content: of the document, if it has been read already.

    Attributes:
        path: relative to the package root.
    """

    def __init__(
        self,
        package: PackageInfo,
        component: ComponentInfo,
        content: DocumentContent | None = None,
    ) -> None:
        self._package = package
        self._component = component
        self.path = component.source.document
        self._content = content or DocumentContent.read(package, self.path)

    def why_not_movable(self, variant: VariantInfo) -> str | None:
        """Return why the variant's place cannot be changed here; None if it can."""
        bodies = list(self._bodies(self._content.value, variant.name))
        expected = 2 if self._package.format is PackageFormat.UNIVERSAL else 1
        if variant.source.document != self.path or len(bodies) != expected:
            return f"it is not declared in {self.path} alone"
        newer = next((body for kind, body in bodies if kind == _NEWER), None)
        if newer is not None and not _names_model_inline(newer):
            return "its executor_info does not name the model itself"
        return None

    def naming_model_files(self, variants: Iterable[VariantInfo]) -> DocumentChange | None:
        """Return the document with the present model file of each of ``variants`` named.

        Return None if the document names them all already. A folder whose only ONNX file is not
        named cannot take in another one before that.
        """
        if not (model_places := self.unnamed(variants)):
            return None
        edited = DocumentContent(self._content.before, copy.deepcopy(self._content.value))
        ComponentDocument(self._package, self._component, edited).place(model_places)
        return _change(self._package, self.path, edited)

    def unnamed(self, variants: Iterable[VariantInfo]) -> dict[str, ModelFilePlace]:
        """Return the places of models whose file the document does not name, by variant."""
        return {
            variant.name: ModelFilePlace(
                folder=variant.directory,
                model_file=variant.model_path.relative_to(variant.directory).as_posix(),
            )
            for variant in variants
            if variant.model_path is not None and not self._names_model_file(variant)
        }

    def place(self, model_places: Mapping[str, ModelFilePlace]) -> None:
        """Edit the value so that these variants have their models in other places."""
        for name, model_place in model_places.items():
            for kind, body in self._bodies(self._content.value, name):
                if kind == _OLDER:
                    self._place_older(name, body, model_place)
                else:
                    self._place_newer(body, model_place)

    def state(self, name: str, fact: str, value: Any) -> None:
        """Edit the value so that the variant's metadata has this fact."""
        for kind, body in self._bodies(self._content.value, name):
            holder = body
            if kind == _NEWER and self._package.format is PackageFormat.COMPONENT:
                holder = body.setdefault("additional_metadata", {}).setdefault(FACTS, {})
            if kind == _OLDER or holder is not body:
                holder.setdefault("metadata", {})[fact] = value

    def _names_model_file(self, variant: VariantInfo) -> bool:
        for kind, body in self._bodies(self._content.value, variant.name):
            name = body.get("model_file") or body.get("file")
            if kind == _OLDER and not (
                isinstance(name, str) and (variant.directory / name).is_file()
            ):
                return False
        return True

    def _bodies(self, value: Any, variant: str) -> list[tuple[str, Any]]:
        """Return (list, body) of each declaration of the variant in the document."""
        bodies = []
        for owner in self._owners(value):
            for kind in (_OLDER, _NEWER):
                body = (
                    owner.get(kind, {}).get(variant) if isinstance(owner.get(kind), dict) else None
                )
                if isinstance(body, dict) and self._is_read(kind):
                    bodies.append((kind, body))
        return bodies

    def _owners(self, value: Any) -> list[Any]:
        if self.path != MANIFEST:
            return [value]
        lists = (value.get(key) for key in ("component_models", "components"))
        owners = (
            components.get(self._component.name)
            for components in lists
            if isinstance(components, dict)
        )
        return [owner for owner in owners if isinstance(owner, dict)]

    def _is_read(self, kind: str) -> bool:
        """Return True if that list means anything in a package of this format."""
        if self._package.format is PackageFormat.UNIVERSAL:
            return True
        return kind == (_NEWER if self._package.format is PackageFormat.COMPONENT else _OLDER)

    def _place_older(self, name: str, body: dict[str, Any], model_place: ModelFilePlace) -> None:
        component_folder = self._package.root / MODELS / self._component.name
        folder = OWN_FOLDER if model_place.folder == component_folder else model_place.folder.name
        if component_folder not in (model_place.folder, model_place.folder.parent):
            raise AuthoringError(
                f"{quoted(model_place.folder)} is not a folder of component"
                f" {quoted(self._component.name)}"
            )
        variant = self._component.variant(name)
        key = "file" if "file" in body and not body.get("model_file") else "model_file"
        body[key] = model_place.model_file
        if (
            model_place.nbytes is not None
            and isinstance(body.get("metadata"), dict)
            and "nbytes" in body["metadata"]
        ):
            body["metadata"]["nbytes"] = model_place.nbytes
        if folder != name or variant is None or variant.directory.name != name:
            ordered = {"model_id": folder, **body} | {"model_id": folder}
            body.clear()
            body.update(ordered)

    def _place_newer(self, body: dict[str, Any], model_place: ModelFilePlace) -> None:
        body["variant_directory"] = model_place.folder.relative_to(
            self._component.directory
        ).as_posix()
        payload = body["executor_info"][ORT]
        payload["model_file"] = model_place.model_file
        if model_place.asset is not None:
            options = payload.get("session_options") or {}
            payload["session_options"] = {
                **options,
                EXTERNAL_INITIALIZERS_FOLDER: model_place.asset,
            }


class DocumentEdits:
    """Edits of several components, some of which may share a document (a manifest).

    Each document is read, copied and checked once, however many components it declares.
    """

    def __init__(self, package: PackageInfo) -> None:
        self._package = package
        self._contents: dict[str, DocumentContent] = {}

    def document(self, component: ComponentInfo) -> ComponentDocument:
        """Return the component's document with all edits so far; ``place`` edits it further."""
        path = component.source.document
        if path not in self._contents:
            self._contents[path] = DocumentContent.read(self._package, path)
        return ComponentDocument(self._package, component, self._contents[path])

    def changes(self) -> dict[str, DocumentChange]:
        """Map each document to all edits of it, as one change."""
        changes = {
            path: _change(self._package, path, content) for path, content in self._contents.items()
        }
        return {path: change for path, change in changes.items() if change is not None}


def _change(package: PackageInfo, path: str, content: DocumentContent) -> DocumentChange | None:
    """Return the edited document; None if nothing in it differs."""
    if content.value == parse_document(content.before, document=path):
        return None
    after = checked_document(content.value, path, package.format)
    return DocumentChange(path=path, before=content.before, after=after)


def _names_model_inline(body: Mapping[str, Any]) -> bool:
    executor_info = body.get("executor_info")
    if not isinstance(executor_info, dict) or not all(
        isinstance(payload, dict) for payload in executor_info.values()
    ):
        return False
    return isinstance(executor_info.get(ORT, {}).get("model_file"), str)
