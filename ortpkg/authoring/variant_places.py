"""Edit the document that declares a component's variants: folder and model file of each.

This works in every generation of the format, since only existing keys change: ``model_id`` and
``model_file`` in ``model_variants``, ``variant_directory`` and ``executor_info.ort.model_file`` in
``variants``, both in a universal package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.authoring.edited_documents import EditedDocuments
from ortpkg.foundations.errors import AuthoringError, quoted
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.component_format import FACTS
from ortpkg.package.formats.executor_info import EXTERNAL_INITIALIZERS_FOLDER, ORT
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.formats.variant_declarations import OWN_FOLDER
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo, VariantInfo

_OLDER, _NEWER = "model_variants", "variants"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLocation:
    """Location of a variant's model: a folder (absolute), and a file relative to it (with ``/``).

    ``nbytes`` is the size of the model with all files that it needs; None for no change. ``asset``
    is the shared asset that becomes the folder of its external data (component generation only);
    None for no change.
    """

    folder: Path
    model_file: str
    nbytes: int | None = None
    asset: str | None = None

    @property
    def path(self) -> Path:
        """Absolute path to the model file."""
        return self.folder / self.model_file


class ComponentDocument:
    """The one document that declares (most of) a component's variants, and edits of it.

    Args:
        documents: of the package; the edits go into them.
        component: the component that the document declares.

    Attributes:
        path: relative to the package root.
    """

    def __init__(self, documents: EditedDocuments, component: ComponentInfo) -> None:
        self._package = documents.package
        self._component = component
        self.path = component.source.document
        self._value = documents.value(self.path)

    def why_not_movable(self, variant: VariantInfo) -> str | None:
        """Return why the variant's place cannot be changed here; None if it can."""
        bodies = list(self._bodies(variant.name))
        expected = 2 if self._package.format is PackageFormat.UNIVERSAL else 1
        if variant.source.document != self.path or len(bodies) != expected:
            return f"it is not declared in {self.path} alone"
        newer = next((body for kind, body in bodies if kind == _NEWER), None)
        if newer is not None and not _names_model_inline(newer):
            return "its executor_info does not name the model itself"
        return None

    def unnamed(self, variants: Iterable[VariantInfo]) -> dict[str, ModelLocation]:
        """Return the places of models whose file the document does not name, by variant."""
        return {
            variant.name: ModelLocation(
                folder=variant.directory,
                model_file=variant.model_path.relative_to(variant.directory).as_posix(),
            )
            for variant in variants
            if variant.model_path is not None and not self._names_model_file(variant)
        }

    def place(self, model_locations: Mapping[str, ModelLocation]) -> None:
        """Edit the value so that these variants have their models in other places."""
        for name, location in model_locations.items():
            for kind, body in self._bodies(name):
                if kind == _OLDER:
                    self._place_older(name, body, location)
                else:
                    self._place_newer(body, location)

    def state(self, name: str, fact: str, value: Any) -> None:
        """Edit the value so that the variant's metadata has this fact."""
        for kind, body in self._bodies(name):
            holder = body
            if kind == _NEWER and self._package.format is PackageFormat.COMPONENT:
                holder = body.setdefault("additional_metadata", {}).setdefault(FACTS, {})
            if kind == _OLDER or holder is not body:
                holder.setdefault("metadata", {})[fact] = value

    def _names_model_file(self, variant: VariantInfo) -> bool:
        for kind, body in self._bodies(variant.name):
            name = body.get("model_file") or body.get("file")
            if kind == _OLDER and not (
                isinstance(name, str) and (variant.directory / name).is_file()
            ):
                return False
        return True

    def _bodies(self, variant: str) -> list[tuple[str, Any]]:
        """Return (list, body) of each declaration of the variant in the document."""
        bodies = []
        for owner in self._owners():
            for kind in (_OLDER, _NEWER):
                body = (
                    owner.get(kind, {}).get(variant) if isinstance(owner.get(kind), dict) else None
                )
                if isinstance(body, dict) and self._is_read(kind):
                    bodies.append((kind, body))
        return bodies

    def _owners(self) -> list[Any]:
        if self.path != MANIFEST:
            return [self._value]
        lists = (self._value.get(key) for key in ("component_models", "components"))
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

    def _place_older(self, name: str, body: dict[str, Any], location: ModelLocation) -> None:
        component_folder = self._package.root / MODELS / self._component.name
        folder = OWN_FOLDER if location.folder == component_folder else location.folder.name
        if component_folder not in (location.folder, location.folder.parent):
            raise AuthoringError(
                f"{quoted(location.folder)} is not a folder of component"
                f" {quoted(self._component.name)}"
            )
        variant = self._component.variant(name)
        key = "file" if "file" in body and not body.get("model_file") else "model_file"
        body[key] = location.model_file
        if (
            location.nbytes is not None
            and isinstance(body.get("metadata"), dict)
            and "nbytes" in body["metadata"]
        ):
            body["metadata"]["nbytes"] = location.nbytes
        if folder != name or variant is None or variant.directory.name != name:
            ordered = {"model_id": folder, **body} | {"model_id": folder}
            body.clear()
            body.update(ordered)

    def _place_newer(self, body: dict[str, Any], location: ModelLocation) -> None:
        body["variant_directory"] = location.folder.relative_to(
            self._component.directory
        ).as_posix()
        payload = body["executor_info"][ORT]
        payload["model_file"] = location.model_file
        if location.asset is not None:
            options = payload.get("session_options") or {}
            payload["session_options"] = {
                **options,
                EXTERNAL_INITIALIZERS_FOLDER: location.asset,
            }


def naming_model_files(
    package: PackageInfo, component: ComponentInfo, variants: Iterable[VariantInfo]
) -> DocumentChange | None:
    """Return the change after which the component's document names each variant's model file.

    None where it names them all already. A folder whose only ONNX file need not be named cannot
    take in another one before that.
    """
    documents = EditedDocuments(package)
    document = ComponentDocument(documents, component)
    document.place(document.unnamed(variants))
    return next(iter(documents.changes()), None)


def _names_model_inline(body: Mapping[str, Any]) -> bool:
    executor_info = body.get("executor_info")
    if not isinstance(executor_info, dict) or not all(
        isinstance(payload, dict) for payload in executor_info.values()
    ):
        return False
    return isinstance(executor_info.get(ORT, {}).get("model_file"), str)
