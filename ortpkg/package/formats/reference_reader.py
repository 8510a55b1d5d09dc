"""Resolves references in documents of the component generation; says where one is wrong.

A *path* is relative to a folder. A *string reference* is a path, or names a shared asset or
something in it.
"""

from __future__ import annotations

import os
from typing import Any

from ortpkg.documents.document_rules import DOCUMENT_SYNTAX, Rule
from ortpkg.documents.findings import FindingCollector, json_pointer
from ortpkg.errors import PackageFormatError, quoted
from ortpkg.package.counted_documents import CountedDocuments
from ortpkg.package.package_info import Source, until_nul
from ortpkg.package.paths.asset_reference import (
    ASSETS_DIRECTORY,
    asset_folder_name,
    looks_like_asset_reference,
    parse_asset_reference,
)
from ortpkg.package.paths.disk_places import PathKind
from ortpkg.package.paths.path_resolver import PathRefusedError, PathResolver, Place
from ortpkg.package.reading_rules import ReadingRules
from ortpkg.package.rules import ASSET_REFERENCE, ASSET_UNKNOWN, FILE_MISSING

UNREADABLE = object()
"""What :meth:`ReferenceReader.read_json` gives where there is no JSON value; None is one."""


class ReferenceReader:
    """Resolves references of one package.

    Attributes:
        root: the real path of the package root.
        resolver: judges paths.
        rules: how the package is read.
        documents: of the package.
        found: takes what is wrong.
        assets: uri → real path of the folder, of every shared asset that is here, and of those that
            are absent once a reference names them.
    """

    def __init__(
        self,
        resolver: PathResolver,
        rules: ReadingRules,
        documents: CountedDocuments,
        found: FindingCollector,
    ) -> None:
        self.root = resolver.real_root
        self.resolver = resolver
        self.rules = rules
        self.documents = documents
        self.found = found
        self.assets: dict[str, str] = {}

    def report(self, rule: Rule, message: str, source: Source, *tokens: str) -> None:
        """Adds a finding at ``tokens`` below ``source``."""
        self.found.add(
            rule, source.document, message, pointer=source.pointer + json_pointer(*tokens)
        )

    def resolve_path(
        self,
        reference: str,
        base: str,
        source: Source,
        *tokens: str,
        within: str | None = None,
        must_exist: bool = False,
    ) -> Place | None:
        """The place of a path relative to ``base``; None, with a finding, where it may not be used.

        ``source`` and ``tokens`` say where the path stands; they are put together only for a
        finding.
        """
        try:
            place = self.resolver.locate_in(base, reference, within=within)
        except PathRefusedError as error:
            self.report(error.rule, f"path {quoted(reference)} {error.reason}", source, *tokens)
            return None
        if must_exist and place.kind is PathKind.MISSING:
            message = f"path {quoted(reference)} does not exist in {quoted(self.shown(base))}"
            self.report(FILE_MISSING, message, source, *tokens)
            return None
        return place

    def resolve_string(
        self, reference: str, base: str, source: Source, *tokens: str
    ) -> Place | None:
        """The place of a string reference; None, with a finding, where it may not be used."""
        if "\0" in reference and not self.rules.portable_names:
            reference = until_nul(reference)  # it crosses a C interface
        if not looks_like_asset_reference(reference):
            return self.resolve_path(reference, base, source, *tokens)
        asset = parse_asset_reference(reference)
        if asset is None:
            if not self.rules.portable_names:
                return self.resolve_path(reference, base, source, *tokens)
            message = f"{quoted(reference)} begins like a reference to a shared asset, but is none"
            self.report(ASSET_REFERENCE, message, source, *tokens)
            return None
        folder = self.assets.get(asset.uri) or self._absent_asset(asset.uri)
        if folder is None:
            message = f"shared asset {quoted(asset.uri)} is not part of the package"
            self.report(ASSET_UNKNOWN, message, source, *tokens)
            return None
        if not asset.tail:
            return Place(folder, self.resolver.kind_at(folder))
        fence = os.path.realpath(folder) + os.sep * (folder.endswith(os.sep) and len(folder) > 1)
        return self.resolve_path(asset.tail, folder, source, *tokens, within=fence)

    def _absent_asset(self, uri: str) -> str | None:
        """The folder of an asset that a sparse package has, and this copy of it has not."""
        folder = os.path.join(self.root, ASSETS_DIRECTORY, asset_folder_name(uri))  # noqa: PTH118
        if not self.resolver.is_absent(folder):
            return None
        self.assets[uri] = folder
        return folder

    def read_json(self, place: Place, source: Source, *tokens: str) -> Any:
        """The JSON value in a file, or :data:`UNREADABLE`, with findings."""
        if place.kind is PathKind.DIRECTORY:
            self.report(DOCUMENT_SYNTAX, "names a folder, not JSON", source, *tokens)
            return UNREADABLE
        try:
            return self.documents.read(place.path, document=self.shown(place.path))
        except PackageFormatError as error:
            self.found.extend(error.findings)
            return UNREADABLE

    def shown(self, path: str) -> str:
        """``path`` for messages: relative to the package root, with ``/``, if it is below it."""
        if path == self.root:
            return "."
        prefix = self.root + os.sep
        return path.removeprefix(prefix).replace(os.sep, "/") if path.startswith(prefix) else path
