"""Resolves what documents of the component generation refer to, and reports what is wrong where it stands.

A *path* is relative to a folder. A *string reference* is a path, or names a shared asset or something in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ortpkg.errors import PackageFormatError, quoted
from ortpkg.package.asset_reference import looks_like_asset_reference, parse_asset_reference
from ortpkg.package.documents import read_json
from ortpkg.package.findings import FindingCollector
from ortpkg.package.package_info import Source
from ortpkg.package.path_resolver import PathKind
from ortpkg.package.reading_rules import ReadingRules
from ortpkg.package.reference_resolver import Place, ReferenceRefusedError, ReferenceResolver, kind_at
from ortpkg.package.rules import ASSET_REFERENCE, ASSET_UNKNOWN, DOCUMENT_SYNTAX, FILE_MISSING

UNREADABLE = object()
"""What :meth:`ReferenceReader.read_json` gives where there is no JSON value; None is one."""


class ReferenceReader:
    """Resolves references of one package.

    Attributes:
        root: the real path of the package root.
        resolver: judges paths.
        rules: how the package is read.
        found: takes what is wrong.
        assets: uri → real path of the folder, of every shared asset that the package has.
    """

    def __init__(self, resolver: ReferenceResolver, rules: ReadingRules, found: FindingCollector) -> None:
        self.root = resolver.root
        self.resolver = resolver
        self.rules = rules
        self.found = found
        self.assets: dict[str, str] = {}

    def resolve_path(
        self, reference: str, base: str, source: Source, *, within: str | None = None, must_exist: bool = False
    ) -> Place | None:
        """The place of a path relative to ``base``; None, with a finding at ``source``, where it may not be used."""
        try:
            place = self.resolver.resolve(reference, base, within=within)
        except ReferenceRefusedError as error:
            message = f"path {quoted(reference)} {error.reason}"
            self.found.add(error.rule, source.document, message, pointer=source.pointer)
            return None
        if must_exist and place.kind is PathKind.MISSING:
            message = f"path {quoted(reference)} does not exist in {quoted(self.shown(base))}"
            self.found.add(FILE_MISSING, source.document, message, pointer=source.pointer)
            return None
        return place

    def resolve_string(self, reference: str, base: str, source: Source) -> Place | None:
        """The place of a string reference; None, with a finding at ``source``, where it may not be used."""
        if not self.rules.portable_names:
            if "\0" in reference:  # it crosses a C interface
                reference = reference.partition("\0")[0]
        elif looks_like_asset_reference(reference) and parse_asset_reference(reference) is None:
            message = f"{quoted(reference)} begins like a reference to a shared asset, but is none"
            self.found.add(ASSET_REFERENCE, source.document, message, pointer=source.pointer)
            return None
        asset = parse_asset_reference(reference)
        if asset is None:
            return self.resolve_path(reference, base, source)
        folder = self.assets.get(asset.uri)
        if folder is None:
            message = f"shared asset {quoted(asset.uri)} is not part of the package"
            self.found.add(ASSET_UNKNOWN, source.document, message, pointer=source.pointer)
            return None
        if not asset.tail:
            return Place(folder, kind_at(folder))
        return self.resolve_path(asset.tail, folder, source, within=os.path.realpath(folder))

    def read_json(self, place: Place, source: Source) -> Any:
        """The JSON value in a file, or :data:`UNREADABLE`, with findings."""
        document = self.shown(place.path)
        if place.kind is PathKind.DIRECTORY:
            self.found.add(DOCUMENT_SYNTAX, source.document, "names a folder, not JSON", pointer=source.pointer)
            return UNREADABLE
        try:
            return read_json(Path(place.path), document=document, limits=self.rules.limits)
        except PackageFormatError as error:
            self.found.extend(error.findings)
            return UNREADABLE

    def shown(self, path: str) -> str:
        """``path`` for messages: relative to the package root, with ``/``, where it lies below it."""
        if path == self.root:
            return "."
        prefix = self.root + os.sep
        return path.removeprefix(prefix).replace(os.sep, "/") if path.startswith(prefix) else path
