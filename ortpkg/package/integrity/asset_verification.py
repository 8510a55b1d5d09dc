"""Compare the content of shared assets with the digests in their names, as no reader does."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from ortpkg.foundations.documents.json_documents import read_document
from ortpkg.foundations.errors import PackageError, PackageFormatError
from ortpkg.foundations.storage.hashing import HashedFile, Progress
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.integrity.asset_digest import directory_digest, listing_digest
from ortpkg.package.integrity.digest_check import DifferenceKind, DigestDifference
from ortpkg.package.paths.asset_reference import ASSETS_DIRECTORY, asset_uri_of_folder, is_asset_uri
from ortpkg.package.paths.disk_places import PathKind, list_names
from ortpkg.package.paths.path_resolver import PathResolver


def asset_folders(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (uri, folder below ``root``) of the shared assets that a damaged package still shows.

    Folders outside of the package, and folders that do not exist, are left out.
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
        names = list_names(root / ASSETS_DIRECTORY, PathKind.DIRECTORY)
    except PackageError:
        names = []
    for name in names:
        if uri := asset_uri_of_folder(name):
            paths.setdefault(uri, f"{ASSETS_DIRECTORY}/{name}")
    for uri, path in paths.items():
        try:
            resolved = resolver.resolve(path) if isinstance(path, str) else None
        except PackageError:  # the path leads out of the package
            continue
        if resolved is not None and resolved.kind is PathKind.DIRECTORY:
            yield uri, os.path.relpath(resolved.path, resolver.root).replace(os.sep, "/")


def asset_differences(
    root: Path,
    folders: Iterable[tuple[str, str]],
    *,
    hashed: Mapping[str, HashedFile | OSError],
    differing: Collection[str],
    progress: Progress | None = None,
) -> Iterator[DigestDifference]:
    """Yield the assets whose content does not have the digest that names them.

    Args:
        root: the package.
        folders: see :func:`asset_folders`.
        hashed: file → its digest, for files that were read already; it has either all files of an
            asset or none.
        differing: files known to be damaged; an asset that holds one is not reported again.
        progress: as in :func:`directory_digest`.
    """
    for uri, folder in folders:
        prefix = "" if folder == "." else f"{folder}/"
        if any(file.startswith(prefix) for file in differing):
            continue
        read = {
            file.removeprefix(prefix): result
            for file, result in hashed.items()
            if file.startswith(prefix)
        }
        digests = {
            file: result.digest.sha256
            for file, result in read.items()
            if isinstance(result, HashedFile)
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
