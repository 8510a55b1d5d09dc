"""Compares the content of shared assets with the digests in their names, as no reader does."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from ortpkg.documents.json_documents import read_document
from ortpkg.errors import PackageError, PackageFormatError
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.asset_digest import directory_digest, listing_digest
from ortpkg.package.integrity.digest_check import DifferenceKind, DigestDifference
from ortpkg.package.paths.asset_reference import ASSETS_DIRECTORY, asset_uri_of_folder, is_asset_uri
from ortpkg.package.paths.disk_places import PathKind, list_names
from ortpkg.package.paths.path_resolver import PathResolver
from ortpkg.storage.hashing import HashedFile, Progress


def asset_folders(root: Path) -> Iterator[tuple[str, str]]:
    """(uri, folder below ``root``) of shared assets, as far as a damaged package tells them.

    Folders outside of the package, and those that are not there, are left out.
    """
    resolver = PathResolver(root)
    try:
        declared = read_document(root / MANIFEST, document=MANIFEST).get("shared_assets")
    except PackageFormatError:
        declared = None
    paths = (
        {uri: path for uri, path in declared.items() if is_asset_uri(uri)}
        if isinstance(declared, dict)
        else {}
    )
    try:
        found = list_names(root / ASSETS_DIRECTORY, PathKind.DIRECTORY)
    except PackageError:
        found = []
    for name in found:
        if uri := asset_uri_of_folder(name):
            paths.setdefault(uri, f"{ASSETS_DIRECTORY}/{name}")
    for uri, path in paths.items():
        try:
            place = resolver.resolve(path) if isinstance(path, str) else None
        except PackageError:  # it leads out
            continue
        if place is not None and place.kind is PathKind.DIRECTORY:
            yield uri, os.path.relpath(place.path, resolver.root).replace(os.sep, "/")


def asset_differences(
    root: Path,
    folders: Iterable[tuple[str, str]],
    *,
    hashed: Mapping[str, HashedFile | OSError],
    differing: Collection[str],
    progress: Progress | None = None,
) -> Iterator[DigestDifference]:
    """The assets whose content is not what the digest says that names them.

    Args:
        root: the package.
        folders: see :func:`asset_folders`.
        hashed: file → its digest, of files that were read already; where it has some of an asset,
            it has all.
        differing: files that are known to be damaged: an asset that holds one is not named besides.
        progress: as in :func:`directory_digest`.
    """
    for uri, folder in folders:
        prefix = "" if folder == "." else f"{folder}/"
        if any(file.startswith(prefix) for file in differing):
            continue
        read = {
            file.removeprefix(prefix): found
            for file, found in hashed.items()
            if file.startswith(prefix)
        }
        digests = {
            file: found.digest.sha256
            for file, found in read.items()
            if isinstance(found, HashedFile)
        }
        try:
            actual = (
                listing_digest(digests)
                if digests
                else directory_digest(root / folder, progress=progress)
            )
        except PackageError as error:
            message = f"the content of shared asset {uri} cannot be compared: {error}"
            yield DigestDifference(
                kind=DifferenceKind.UNREADABLE, file=folder, message=message, expected=uri
            )
            continue
        if actual != uri:
            message = (
                f"the content of shared asset {uri} is not what its digest says: it is {actual}"
            )
            yield DigestDifference(
                kind=DifferenceKind.CHANGED,
                file=folder,
                message=message,
                expected=uri,
                actual=actual,
            )
