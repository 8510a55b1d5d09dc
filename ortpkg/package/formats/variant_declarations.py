"""Declarations of a variant in the metadata generation, in one document or in two.

The manifest and metadata.json may both declare a variant: the first one that states a field counts.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ortpkg.foundations.documents.finding_collector import json_pointer
from ortpkg.package.formats.model_search import Siblings
from ortpkg.package.package_info import Source

# Characters that onnxruntime replaces by "_" when a model_id becomes a folder's name.
_NOT_IN_FOLDER_NAMES = re.compile(r'[<>:"/\\|?*]')
OWN_FOLDER = "."
"""Value of ``model_id`` for a variant whose folder is the component's own."""


def sanitize_model_id(model_id: str) -> str:
    """Return the folder name that onnxruntime derives: ``phi4-cpu:1`` → ``phi4-cpu_1``."""
    return _NOT_IN_FOLDER_NAMES.sub("_", model_id)


class Declaration(NamedTuple):
    """One variant in one document, at ``tokens``."""

    body: Mapping[str, Any]
    document: str
    tokens: tuple[str, ...]

    @property
    def source(self) -> Source:
        """Place of the declaration."""
        return Source(document=self.document, pointer=json_pointer(*self.tokens))


def siblings_of(merged: Mapping[str, list[Declaration]]) -> Siblings:
    """Return the folders and models of all variants; ``merged`` maps names to declarations."""
    folders = {name: _folder_of(name, declarations) for name, declarations in merged.items()}
    bodies = [
        merge_bodies([declaration.body for declaration in merged[name]])
        for name, folder in folders.items()
        if folder == OWN_FOLDER
    ]
    models = frozenset(posixpath.normpath(body.get("model_file") or "") for body in bodies)
    return Siblings(folders=frozenset(folders.values()), in_own_folder=models)


def _folder_of(name: str, declarations: list[Declaration]) -> str:
    """Return the name of a variant's folder."""
    model_ids = (declaration.body.get("model_id") for declaration in declarations)
    model_id = next((declared_id for declared_id in model_ids if declared_id), None)
    return sanitize_model_id(model_id) if model_id else name


def says_something(value: Any) -> bool:
    """Return True if a field has a value; an empty text counts as none."""
    return value not in ("", None)


def merge_bodies(bodies: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge several bodies field by field, and ``constraints`` key by key; the first value wins.

    The two spellings ``model_file`` and ``file`` are one field. An empty text counts as no value.
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
    """Return the place of the first of ``keys`` (or of ``inner`` in it) that has a value.

    If none has one, return the place of the variant.
    """
    for declaration in declarations:
        for key in keys:
            value = declaration.body.get(key)
            tokens = (key,) if inner is None else (key, inner)
            if value if inner is None else (value or {}).get(inner):
                return declaration.source.below(*tokens)
    return declarations[0].source
