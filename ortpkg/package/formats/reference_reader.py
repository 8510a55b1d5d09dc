"""Resolve references in documents of the component generation, and report wrong ones.

A *path* is relative to a folder. A *string reference* is a path, or names a shared asset or a file
in one.
"""

from __future__ import annotations

import os
from typing import Any

from ortpkg.foundations.documents.document_rules import DOCUMENT_SYNTAX, Rule
from ortpkg.foundations.documents.finding_collector import FindingCollector, json_pointer
from ortpkg.foundations.errors import PackageFormatError, quoted
from ortpkg.package.counted_documents import CountedDocuments
from ortpkg.package.package_info import Source, until_nul
from ortpkg.package.paths.asset_reference import (
    ASSETS_DIRECTORY,
    asset_folder_name,
    looks_like_asset_reference,
    parse_asset_reference,
)
from ortpkg.package.paths.disk_places import PathKind
from ortpkg.package.paths.path_resolver import PathRefusedError, PathResolver, PathTarget
from ortpkg.package.reading_rules import ReadingRules
from ortpkg.package.rules import ASSET_REFERENCE, ASSET_UNKNOWN, FILE_MISSING

UNREADABLE = object()
"""Result of :meth:`ReferenceReader.read_json` if there is no JSON value (None is one)."""


class ReferenceReader:
    """Resolver of the references of one package.

    Attributes:
        root: the real path of the package root.
        resolver: checks paths.
        rules: of reading.
        documents: of the package.
        collector: receives the findings.
        assets: uri → real path of the folder, for every shared asset on the disk, and for absent
            ones once a reference names them.
    """

    def __init__(
        self,
        resolver: PathResolver,
        rules: ReadingRules,
        documents: CountedDocuments,
        collector: FindingCollector,
    ) -> None:
        self.root = resolver.real_root
        self.resolver = resolver
        self.rules = rules
        self.documents = documents
        self.collector = collector
        self.assets: dict[str, str] = {}

    def report(self, rule: Rule, message: str, source: Source, *tokens: str) -> None:
        """Add a finding at ``tokens`` below ``source``."""
        self.collector.add(
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
    ) -> PathTarget | None:
        """Resolve a path relative to ``base``; None, with a finding, if it may not be used.

        Args:
            reference: the path as declared.
            base: a folder, absolute.
            source, tokens: where the path is declared; put together only for a finding.
            within: a folder that the path must stay in; None for the package.
            must_exist: report a missing file.
        """
        try:
            resolved = self.resolver.locate_in(base, reference, within=within)
        except PathRefusedError as error:
            self.report(error.rule, f"path {quoted(reference)} {error.reason}", source, *tokens)
            return None
        if must_exist and resolved.kind is PathKind.MISSING:
            message = f"path {quoted(reference)} does not exist in {quoted(self.shown(base))}"
            self.report(FILE_MISSING, message, source, *tokens)
            return None
        return resolved

    def resolve_string(
        self, reference: str, base: str, source: Source, *tokens: str
    ) -> PathTarget | None:
        """Resolve a string reference; None, with a finding, if it may not be used."""
        if "\0" in reference and not self.rules.portable_names:
            reference = until_nul(reference)  # a C interface cuts it there
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
            return PathTarget(folder, self.resolver.kind_at(folder))
        fence = os.path.realpath(folder) + os.sep * (folder.endswith(os.sep) and len(folder) > 1)
        return self.resolve_path(asset.tail, folder, source, *tokens, within=fence)

    def _absent_asset(self, uri: str) -> str | None:
        """Return the folder of an asset that is absent from this copy of a sparse package."""
        folder = os.path.join(self.root, ASSETS_DIRECTORY, asset_folder_name(uri))  # noqa: PTH118
        if not self.resolver.is_absent(folder):
            return None
        self.assets[uri] = folder
        return folder

    def read_json(self, file: PathTarget, source: Source, *tokens: str) -> Any:
        """Return the JSON value in a file; :data:`UNREADABLE`, with findings, if there is none."""
        if file.kind is PathKind.DIRECTORY:
            self.report(DOCUMENT_SYNTAX, "names a folder, not JSON", source, *tokens)
            return UNREADABLE
        try:
            return self.documents.read(file.path, document=self.shown(file.path))
        except PackageFormatError as error:
            self.collector.extend(error.findings)
            return UNREADABLE

    def shown(self, path: str) -> str:
        """Return ``path`` for messages: relative to the package root, with ``/``, if below it."""
        if path == self.root:
            return "."
        prefix = self.root + os.sep
        return path.removeprefix(prefix).replace(os.sep, "/") if path.startswith(prefix) else path
