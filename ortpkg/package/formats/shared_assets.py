"""Find the shared assets of a package: folders named by their content, which variants may share.

onnxruntime 1.28 to 1.32 builds the same table when it opens a package, first mention first: entries
of the manifest's ``shared_assets``, then the folders ``shared_assets/sha256-<hex>/``, sorted. None
of them checks the digests then. 1.32 alone refuses links on the way to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ortpkg.foundations.documents.document_rules import DOCUMENT_UNREADABLE
from ortpkg.foundations.errors import PackageError, quoted
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.reference_reader import ReferenceReader
from ortpkg.package.package_info import Layout, SharedAsset, Source, until_nul
from ortpkg.package.paths.asset_reference import ASSETS_DIRECTORY, asset_uri_of_folder, is_asset_uri
from ortpkg.package.paths.disk_places import PathKind, is_link, list_names
from ortpkg.package.rules import ASSET_REFERENCE, FILE_MISSING, PATH_ESCAPES


def find_shared_assets(
    declared: Mapping[str, str], references: ReferenceReader, layout: Layout
) -> None:
    """Set ``references.assets`` to every shared asset of the package that is on the disk.

    ``declared`` is the manifest's ``shared_assets``, checked against its schema.
    """
    is_unlinked = references.rules.unlinked_assets and layout is Layout.PORTABLE
    manifest = Source(document=MANIFEST)
    paths: dict[str, str] = {}
    for uri, path in declared.items():
        tokens = ("shared_assets", uri)
        if not is_asset_uri(uri):
            references.report(
                ASSET_REFERENCE, f"key {quoted(uri)} is not a shared asset", manifest, *tokens
            )
            continue
        must_exist = references.rules.complete
        resolved = references.resolve_path(
            path, references.root, manifest, *tokens, must_exist=must_exist
        )
        if resolved is not None and must_exist and resolved.kind is not PathKind.DIRECTORY:
            references.report(
                FILE_MISSING, f"path {quoted(path)} is not a folder", manifest, *tokens
            )
        if is_unlinked and resolved is not None:
            _refuse_links(path, references, manifest, *tokens)
        # A refused one stays in the table: a second finding that it is missing would not help.
        paths[uri] = references.root if resolved is None else resolved.path
        if (
            resolved is not None
            and not must_exist
            and resolved.kind is not PathKind.DIRECTORY
            and _ends_with_slash(path)
        ):
            paths[uri] += (
                os.sep
            )  # the release keeps the slash, and finds nothing inside such a folder
    if is_unlinked:
        _refuse_linked_folders(references)
    for uri, path in _discover(references):
        paths.setdefault(uri, path)
    references.assets = paths


def shared_assets(
    declared: Mapping[str, str], references: ReferenceReader
) -> tuple[SharedAsset, ...]:
    """Return the assets in ``references``, including absent ones that a document has mentioned."""
    return tuple(
        SharedAsset(uri=uri, path=Path(path), is_declared=uri in declared)
        for uri, path in references.assets.items()
    )


def _ends_with_slash(path: str) -> bool:
    """Return True if a path ends with a separator, up to a NUL and without a last ``.``."""
    text = path.partition("\0")[0].replace("\\", "/" if os.name == "nt" else "\\")
    return text.endswith(("/", "/."))


def _refuse_linked_folders(references: ReferenceReader) -> None:
    """Report every link in ``shared_assets/`` with the name of an asset's folder."""
    source = Source(document=ASSETS_DIRECTORY)
    folder = os.path.join(references.root, ASSETS_DIRECTORY)  # noqa: PTH118
    if _refuse_links(ASSETS_DIRECTORY, references, source):
        return
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:  # no such folder, or it cannot be listed
        return
    for name in names:
        if asset_uri_of_folder(name) is not None:
            _refuse_links(f"{ASSETS_DIRECTORY}/{name}", references, source)


def _refuse_links(path: str, references: ReferenceReader, source: Source, *tokens: str) -> bool:
    """Report a path that is the package itself or goes through a link; return True if so."""
    reason = _why_linked(references.root, path)
    if reason:
        references.report(PATH_ESCAPES, f"path {quoted(path)} {reason}", source, *tokens)
    return bool(reason)


def _why_linked(root: str, path: str) -> str:
    """Return why 1.32 refuses a path below ``root``; "" if it does not."""
    text = until_nul(path).replace("\\", "/" if os.name == "nt" else "\\")
    names = [name for name in text.split("/") if name not in {"", "."}]
    if not names:
        return "is the package itself"
    prefix = root
    for name in names:
        prefix += os.sep + name
        try:
            status = os.lstat(prefix)
        except (FileNotFoundError, NotADirectoryError):
            break
        except OSError as error:
            return f"cannot be looked at: {error.strerror}"
        if is_link(status):
            return f"goes through a link, {quoted(name)}"
    return ""


def _discover(references: ReferenceReader) -> Iterator[tuple[str, str]]:
    """Yield (uri, folder) of the folders in shared_assets/ that are named like an asset, sorted."""
    source = Source(document=ASSETS_DIRECTORY)
    folder = os.path.join(references.root, ASSETS_DIRECTORY)  # noqa: PTH118  # strings, as everywhere on this way
    if not os.path.lexists(folder):
        return
    if references.rules.confined_assets:
        resolved = references.resolve_path(ASSETS_DIRECTORY, references.root, source)
        if resolved is None or resolved.kind is PathKind.MISSING:
            return
        folder = resolved.path
    try:
        names = list_names(Path(folder), PathKind.DIRECTORY)
    except PackageError as error:
        cause = error.__cause__
        if references.rules.complete and not isinstance(
            cause, FileNotFoundError | NotADirectoryError
        ):
            reason = cause.strerror if isinstance(cause, OSError) else error
            references.collector.add(
                DOCUMENT_UNREADABLE, ASSETS_DIRECTORY, f"cannot be read: {reason}"
            )
        return
    assets = [(uri, name) for name in names if (uri := asset_uri_of_folder(name)) is not None]
    assets.sort()
    for uri, name in assets:
        confined = (
            references.resolve_path(name, folder, source)
            if references.rules.confined_assets
            else None
        )
        yield uri, os.path.join(folder, name) if confined is None else confined.path  # noqa: PTH118
