"""Edits of the document that declares a component's variants: each one's folder and file.

In every generation of the format, since only keys that are there already change: ``model_id`` and
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
    """Where a variant's model is: in a folder (absolute), a file relative to it (with ``/``).

    ``nbytes`` is the size of the model with all files that it needs; None: unchanged. ``asset`` is
    the shared asset that is the folder of its external data from now on (component generation
    only); None: unchanged.
    """

    folder: Path
    model_file: str
    nbytes: int | None = None
    asset: str | None = None


class DocumentContent(NamedTuple):
    """A document as its file has it, and the value in it, edited or not."""

    before: bytes
    value: dict[str, Any]

    @classmethod
    def read(cls, package: PackageInfo, path: str) -> DocumentContent:
        """The document at ``path``; PackageFormatError where it is none."""
        before = (package.root / path).read_bytes()
        return cls(before, parse_document(before, document=path))


class ComponentDocument:
    """The one document that declares (most of) a component's variants, and edits of it.

    Args:
        package, component: the one that the document declares.
        content: what the document says, where it has been read already.

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
        """Why the variant's place cannot be changed here; None if it can."""
        bodies = list(self._bodies(self._content.value, variant.name))
        expected = 2 if self._package.format is PackageFormat.UNIVERSAL else 1
        if variant.source.document != self.path or len(bodies) != expected:
            return f"it is not declared in {self.path} alone"
        newer = next((body for kind, body in bodies if kind == _NEWER), None)
        if newer is not None and not _names_model_inline(newer):
            return "its executor_info does not name the model itself"
        return None

    def naming_model_files(self, variants: Iterable[VariantInfo]) -> DocumentChange | None:
        """The document with each of ``variants`` naming its model file where it is.

        None where the document names them all already.

        A folder whose only ONNX file need not be named cannot take in another one before that.
        """
        if not (places := self.unnamed(variants)):
            return None
        edited = DocumentContent(self._content.before, copy.deepcopy(self._content.value))
        ComponentDocument(self._package, self._component, edited).place(places)
        return _change(self._package, self.path, edited)

    def unnamed(self, variants: Iterable[VariantInfo]) -> dict[str, ModelFilePlace]:
        """Where the models are of those variants whose model file the document does not name."""
        return {
            variant.name: ModelFilePlace(
                folder=variant.directory,
                model_file=variant.model_path.relative_to(variant.directory).as_posix(),
            )
            for variant in variants
            if variant.model_path is not None and not self._names_model_file(variant)
        }

    def place(self, places: Mapping[str, ModelFilePlace]) -> None:
        """Changes the value that was given, so that it has these variants elsewhere."""
        for name, place in places.items():
            for kind, body in self._bodies(self._content.value, name):
                if kind == _OLDER:
                    self._place_older(name, body, place)
                else:
                    self._place_newer(body, place)

    def state(self, name: str, fact: str, value: Any) -> None:
        """Changes the value that was given, so that the variant's metadata has this fact."""
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
        """(list, body) of each declaration of the variant in the document."""
        found = []
        for owner in self._owners(value):
            for kind in (_OLDER, _NEWER):
                body = (
                    owner.get(kind, {}).get(variant) if isinstance(owner.get(kind), dict) else None
                )
                if isinstance(body, dict) and self._is_read(kind):
                    found.append((kind, body))
        return found

    def _owners(self, value: Any) -> list[Any]:
        if self.path != MANIFEST:
            return [value]
        lists = (value.get(key) for key in ("component_models", "components"))
        owners = (each.get(self._component.name) for each in lists if isinstance(each, dict))
        return [owner for owner in owners if isinstance(owner, dict)]

    def _is_read(self, kind: str) -> bool:
        """Whether that list means anything in a package of this format."""
        if self._package.format is PackageFormat.UNIVERSAL:
            return True
        return kind == (_NEWER if self._package.format is PackageFormat.COMPONENT else _OLDER)

    def _place_older(self, name: str, body: dict[str, Any], place: ModelFilePlace) -> None:
        own = self._package.root / MODELS / self._component.name
        folder = OWN_FOLDER if place.folder == own else place.folder.name
        if own not in (place.folder, place.folder.parent):
            raise AuthoringError(
                f"{quoted(place.folder)} is not a folder of component"
                f" {quoted(self._component.name)}"
            )
        variant = self._component.variant(name)
        key = "file" if "file" in body and not body.get("model_file") else "model_file"
        body[key] = place.model_file
        if (
            place.nbytes is not None
            and isinstance(body.get("metadata"), dict)
            and "nbytes" in body["metadata"]
        ):
            body["metadata"]["nbytes"] = place.nbytes
        if folder != name or variant is None or variant.directory.name != name:
            ordered = {"model_id": folder, **body} | {"model_id": folder}
            body.clear()
            body.update(ordered)

    def _place_newer(self, body: dict[str, Any], place: ModelFilePlace) -> None:
        body["variant_directory"] = place.folder.relative_to(self._component.directory).as_posix()
        payload = body["executor_info"][ORT]
        payload["model_file"] = place.model_file
        if place.asset is not None:
            options = payload.get("session_options") or {}
            payload["session_options"] = {**options, EXTERNAL_INITIALIZERS_FOLDER: place.asset}


class DocumentEdits:
    """Edits of several components, some of whose documents may be one and the same (a manifest).

    Each document is read, copied and checked once, however many components it declares.
    """

    def __init__(self, package: PackageInfo) -> None:
        self._package = package
        self._contents: dict[str, DocumentContent] = {}

    def document(self, component: ComponentInfo) -> ComponentDocument:
        """The component's document with what was edited so far; ``place`` edits it further."""
        path = component.source.document
        if path not in self._contents:
            self._contents[path] = DocumentContent.read(self._package, path)
        return ComponentDocument(self._package, component, self._contents[path])

    def changes(self) -> dict[str, DocumentChange]:
        """Document → all edits of it as one change."""
        found = {
            path: _change(self._package, path, content) for path, content in self._contents.items()
        }
        return {path: change for path, change in found.items() if change is not None}


def _change(package: PackageInfo, path: str, content: DocumentContent) -> DocumentChange | None:
    """The edited document; None where it says what it said before."""
    if content.value == parse_document(content.before, document=path):
        return None
    after = checked_document(content.value, path, package.format)
    return DocumentChange(path=path, before=content.before, after=after)


def _names_model_inline(body: Mapping[str, Any]) -> bool:
    executor_info = body.get("executor_info")
    if not isinstance(executor_info, dict) or not all(
        isinstance(each, dict) for each in executor_info.values()
    ):
        return False
    return isinstance(executor_info.get(ORT, {}).get("model_file"), str)
