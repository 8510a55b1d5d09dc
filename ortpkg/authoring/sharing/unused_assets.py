"""Find shared assets that nothing names once variants have left, and edit the manifest."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from ortpkg.foundations.documents.json_documents import dump_document, parse_document
from ortpkg.package.changes.transaction import DocumentChange
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.digest_check import is_within, list_files
from ortpkg.package.package_info import PackageInfo

_DIGEST = re.compile(rb"sha256[:-]([0-9a-f]{64})")


def unused_assets(
    package: PackageInfo, changes: Sequence[DocumentChange], removes: Collection[str]
) -> dict[str, Path]:
    """Map URI → folder of shared assets that no remaining JSON document mentions.

    Any document may mention them: onnxruntime-genai resolves references in configurations of its
    own.
    """
    if not package.shared_assets:
        return {}
    edited = {change.path: _without_declarations(change) for change in changes}
    mentioned, removed = set(), frozenset(removes)
    for path in list_files(package.root):
        if path.endswith(".json") and not is_within(path, removed):
            content = edited.get(path)
            if content is None:
                content = (package.root / path).read_bytes()
                content = _manifest_without_declarations(content) if path == MANIFEST else content
            mentioned |= {f"sha256:{digest.decode()}" for digest in _DIGEST.findall(content)}
    return {
        asset.uri: asset.path
        for asset in package.shared_assets
        if asset.uri not in mentioned
        and asset.path.is_dir()
        and asset.path.is_relative_to(package.root)
    }


def _without_declarations(change: DocumentChange) -> bytes:
    return _manifest_without_declarations(change.after) if change.path == MANIFEST else change.after


def _manifest_without_declarations(content: bytes) -> bytes:
    manifest = parse_document(content, document=MANIFEST)
    manifest.pop("shared_assets", None)
    return dump_document(manifest)


def without_assets(
    package: PackageInfo, changes: Sequence[DocumentChange], assets: Collection[str]
) -> list[DocumentChange]:
    """Return ``changes``, with the manifest without the declarations of ``assets``."""
    last = next((edit for edit in changes if edit.path == MANIFEST), None)
    before = (package.root / MANIFEST).read_bytes()
    manifest = parse_document(before if last is None else last.after, document=MANIFEST)
    declared = manifest.get("shared_assets", {})
    remaining = {uri: path for uri, path in declared.items() if uri not in assets}
    if remaining == declared:
        return list(changes)
    manifest["shared_assets"] = remaining
    change = DocumentChange(path=MANIFEST, before=before, after=dump_document(manifest))
    return [*(edit for edit in changes if edit.path != MANIFEST), change]
