"""Variants as the documents of the metadata generation declare them, in one place or in two.

The manifest and metadata.json may both declare a variant: fields of the first that says something
count.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ortpkg.documents.findings import json_pointer
from ortpkg.package.formats.variant_model import Siblings
from ortpkg.package.package_info import Source

# Characters that onnxruntime replaces by "_" when a model_id becomes a folder's name.
_NOT_IN_FOLDER_NAMES = re.compile(r'[<>:"/\\|?*]')
OWN_FOLDER = "."
"""As a ``model_id``: the variant's folder is the component's own."""


def sanitize_model_id(model_id: str) -> str:
    """The folder name onnxruntime derives from a ``model_id``: ``phi4-cpu:1`` → ``phi4-cpu_1``."""
    return _NOT_IN_FOLDER_NAMES.sub("_", model_id)


class Declaration(NamedTuple):
    """One variant as one document has it: at ``tokens``."""

    body: Mapping[str, Any]
    document: str
    tokens: tuple[str, ...]

    @property
    def source(self) -> Source:
        """Where it stands."""
        return Source(document=self.document, pointer=json_pointer(*self.tokens))


def siblings_of(merged: Mapping[str, list[Declaration]]) -> Siblings:
    """The folders and models of all variants of a component: name → its declarations."""
    folders = {name: _folder_of(name, declarations) for name, declarations in merged.items()}
    own = [
        merge_bodies([declaration.body for declaration in merged[name]])
        for name, folder in folders.items()
        if folder == OWN_FOLDER
    ]
    models = frozenset(posixpath.normpath(body.get("model_file") or "") for body in own)
    return Siblings(folders=frozenset(folders.values()), in_own_folder=models)


def _folder_of(name: str, declarations: list[Declaration]) -> str:
    """The name of a variant's folder."""
    stated = (declaration.body.get("model_id") for declaration in declarations)
    model_id = next((each for each in stated if each), None)
    return sanitize_model_id(model_id) if model_id else name


def says_something(value: Any) -> bool:
    """Whether a field is there: an empty text says as much as none."""
    return value not in ("", None)


def merge_bodies(bodies: list[Mapping[str, Any]]) -> dict[str, Any]:
    """One body from several, field by field and within ``constraints`` key by key.

    The first that says something wins.

    The two spellings ``model_file`` and ``file`` are one field. An empty text says nothing.
    """
    merged: dict[str, Any] = {}
    constraints: dict[str, str] = {}
    for body in bodies:
        for key, value in (body.get("constraints") or {}).items():
            if value:
                constraints.setdefault(key, value)
        for key, value in body.items():
            if says_something(value):
                merged.setdefault(
                    "model_file" if key == "file" and not body.get("model_file") else key, value
                )
    return merged | {"constraints": constraints}


def declared_at(declarations: list[Declaration], *keys: str, inner: str | None = None) -> Source:
    """The place of the first declared of ``keys`` (or of ``inner`` in it), else the variant's."""
    for declaration in declarations:
        for key in keys:
            value = declaration.body.get(key)
            tokens = (key,) if inner is None else (key, inner)
            if value if inner is None else (value or {}).get(inner):
                return declaration.source.below(*tokens)
    return declarations[0].source
