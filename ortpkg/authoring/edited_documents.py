"""Documents of a package while they are edited, checked before they are written.

The raw JSON is changed, so that order and unknown keys survive.
"""

from __future__ import annotations

import copy
import json
from pathlib import PurePosixPath
from typing import Any

from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.frozen import thaw
from ortpkg.foundations.documents.json_documents import dump_document, parse_document
from ortpkg.foundations.errors import AuthoringError, PackageFormatError, quoted
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.document_names import COMPONENT, MANIFEST, METADATA
from ortpkg.package.formats.metadata_format import MODELS
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo

_SCHEMAS: dict[
    PackageFormat, tuple[tuple[str, ...], tuple[str, ...]]
] = {  # of the manifest, of the others
    PackageFormat.METADATA: (("manifest",), ("metadata",)),
    PackageFormat.COMPONENT: (("component_manifest",), ("component",)),
    PackageFormat.UNIVERSAL: (("manifest", "component_manifest"), ("metadata", "component")),
}


class EditedDocuments:
    """The documents of a package while they are edited.

    Each document is read, copied and checked once, however many components it declares.

    Attributes:
        package: the package.
    """

    def __init__(self, package: PackageInfo) -> None:
        self.package = package
        self._before: dict[str, bytes | None] = {}
        self._read: dict[str, Any] = {}
        self._values: dict[str, Any] = {}

    def value(self, path: str) -> dict[str, Any]:
        """Return the document at ``path``, to be changed in place; a new one is empty.

        Raises:
            AuthoringError: the manifest of a component model that has none is asked for.
            PackageFormatError: the file holds no document.
        """
        if path not in self._values:
            file = self.package.root / path
            before = self._before[path] = file.read_bytes() if file.is_file() else None
            if before is None and path == MANIFEST:
                raise AuthoringError(
                    f"{quoted(self.package.root)} is a component model on its own, without"
                    f" {MANIFEST}: make a package of it first, with ortpkg convert"
                )
            self._read[path] = {} if before is None else parse_document(before, document=path)
            self._values[path] = copy.deepcopy(self._read[path])
        value: dict[str, Any] = self._values[path]
        return value

    def component_body(self, component: ComponentInfo) -> dict[str, Any]:
        """Return the object with a component's ``variants``, in the manifest or its own document.

        Raises AuthoringError for variants in two documents, or outside of the package.
        """
        declared = self.value(MANIFEST)["components"][component.name]
        path = MANIFEST
        if isinstance(declared, str):
            path = PurePosixPath(declared).as_posix()
            path = f"{path}/{COMPONENT}" if (self.package.root / path).is_dir() else path
        is_universal = self.package.format is PackageFormat.UNIVERSAL
        if is_universal and path != metadata_path(component.name):
            raise AuthoringError(
                f"the variants of component model {quoted(component.name)} are listed in two"
                " documents, which no change can replace at once: bring them together with ortpkg"
                " convert"
            )
        if PurePosixPath(path).is_absolute():
            raise AuthoringError(
                f"component model {quoted(component.name)} lies outside of the package"
            )
        body: dict[str, Any] = declared if path == MANIFEST else self.value(path)
        return body

    def changes(self, *, last: str = MANIFEST) -> tuple[DocumentChange, ...]:
        """Return the changed documents in the order they were first asked for, ``last`` at the end.

        Raises AuthoringError where a changed document would not open any more.
        """
        paths = [
            path
            for path, value in self._values.items()
            if not _is_same_text(value, self._read[path])
        ]
        ordered = [path for path in paths if path != last] + [
            path for path in paths if path == last
        ]
        return tuple(
            DocumentChange(
                path=path,
                before=self._before[path],
                after=checked_document(self._values[path], path, self.package.format),
            )
            for path in ordered
        )


def _is_same_text(value: Any, other: Any) -> bool:
    """Return True if two JSON values are written alike: keys in the same order, too."""
    return json.dumps(thaw(value)) == json.dumps(thaw(other))


def checked_document(value: Any, path: str, form: PackageFormat) -> bytes:
    """Return the bytes of a document of a package of that format.

    Raises AuthoringError as :func:`checked_content`.
    """
    manifest, others = _SCHEMAS[form]
    content = b""
    for schema in manifest if path == MANIFEST else others:
        content = checked_content(value, path, schema=schema)
    return content


def checked_content(value: Any, path: str, *, schema: str | None = None) -> bytes:
    """Return the document's bytes after reading them back as a reader would.

    A model's metadata or a flag may bring what breaks a reader's limits.

    Args:
        value: the document.
        path: of the document, relative to the package root.
        schema: the document keeps it; None for that of the metadata generation.

    Raises AuthoringError where the package would not open any more.
    """
    try:
        content = dump_document(value)
        parse_document(content, document=path)
    except (ValueError, PackageFormatError) as error:
        raise AuthoringError(
            f"the change was refused, since {quoted(path)} would be wrong: {error}"
        ) from error
    schema = schema or ("manifest" if path == MANIFEST else "metadata")
    if findings := check_schema(value, schema, document=path):
        problems = "; ".join(map(str, findings))
        raise AuthoringError(
            f"the change was refused, since {quoted(path)} would be wrong: {problems}"
        )
    return content


def metadata_path(component: str) -> str:
    """Path to the document in which the metadata generation lists a component's variants."""
    return f"{MODELS}/{component}/{METADATA}"
