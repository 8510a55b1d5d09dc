"""Convert a package to another generation of the format.

Nothing is lost: facts without a key in the target are kept in ``additional_metadata.ortpkg`` and
come back when the package is converted back. Facts that the target cannot express are refused, all
at once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.create import parse_format
from ortpkg.authoring.describe_package import PackageDescription
from ortpkg.authoring.edited_documents import checked_document
from ortpkg.authoring.new_variant import Notify, check_names
from ortpkg.authoring.olive_conversion import GenaiFolders, genai_folders, without_configs
from ortpkg.authoring.package_documents import package_documents, without_forbidden_options
from ortpkg.authoring.package_on_disk import locked_intact_package, write_planned
from ortpkg.authoring.package_plan import (
    PackagePlan,
    change_of,
)
from ortpkg.authoring.package_totals import PackageTotals
from ortpkg.authoring.stale_variants import report_stale
from ortpkg.authoring.written_package import open_written
from ortpkg.foundations.errors import AuthoringError, UsageError, quoted
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.package.changes.transaction import commit_change
from ortpkg.package.document_names import MANIFEST
from ortpkg.package.formats.executor_info import FORBIDDEN_SESSION_OPTIONS
from ortpkg.package.integrity.digest_check import list_files
from ortpkg.package.package_info import PackageFormat, PackageInfo
from ortpkg.package.reader import open_package

logger = logging.getLogger(__name__)


def convert(
    root: str | PathLike[str],
    to: PackageFormat | str,
    *,
    output: str | PathLike[str] | None = None,
    force: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    notify: Notify | None = None,
    operations: FileOperations | None = None,
) -> PackageInfo:
    """Write the package in the format ``to``: at ``output``, or (None) in place.

    Every file is hashed first. ``force`` leaves out facts that the target cannot express.

    Raises:
        AuthoringError: the target cannot express everything that the package states (each fact is
            named), the package has that format already, ``output`` exists, or the disk is full.
        DigestMismatchError: a file is damaged.
        PackageError: ``root`` is not a valid package.
        UsageError: an unknown format.
        PackageBusyError: another command does not finish changing it.
    """
    notify = notify or logger.warning
    form = parse_format(to)
    source = Path(os.path.abspath(root))  # noqa: PTH100  # keeps symbolic links, which resolve() would follow
    open_package(source)  # "not a package" is reported before damage
    if output is not None:
        return write_planned(
            source,
            output,
            lambda package: plan_conversion(package, form, force=force, notify=notify),
            overwrite=overwrite,
            notify=notify,
            operations=operations,
            progress=progress,
        )
    with locked_intact_package(
        source, notify=notify, operations=operations, progress=progress, converts=True
    ) as package:
        if not (package.root / MANIFEST).is_file():
            raise UsageError(
                f"{quoted(root)} is a component model on its own; make a new package of it (-o)"
            )
        change = change_of(package.root, plan_conversion(package, form, force=force, notify=notify))
        if change is None:
            raise AuthoringError(f"{quoted(root)} is a {form} package already; nothing was changed")
        commit_change(source, change, operations=operations, progress=progress)
        return open_written(source)


def plan_conversion(
    package: PackageInfo, form: PackageFormat, *, force: bool, notify: Notify
) -> PackagePlan:
    """Plan the package in another format.

    Raises:
        AuthoringError: the format cannot express all of it, and ``force`` is False.
    """
    if form is not PackageFormat.METADATA:
        check_names(package.components)
    lost = list(_inexpressible_facts(package, form))
    if lost and not force:
        listed = "; ".join(lost)
        raise AuthoringError(
            f"a {form} package cannot say all of this (force leaves it out): {listed}"
        )
    for item in lost:
        notify(f"left out: {item}")
    if len(package.components) > 1 and form is not PackageFormat.COMPONENT:
        notify(
            "onnxruntime 1.26 and 1.27 open packages with one component model; this has"
            f" {len(package.components)}"
        )
    report_stale(package, notify)
    description = PackageDescription(package, form)
    entry = (
        without_forbidden_options(description.entry)
        if form is not PackageFormat.METADATA
        else description.entry
    )
    folders = _genai_folders(package, description, notify) if package.is_olives else None
    if folders is not None and folders.documents:
        entry = replace(entry, additional_metadata=without_configs(entry.additional_metadata))
    contents = package_documents(entry, form)
    if form is PackageFormat.METADATA and package.format is PackageFormat.UNIVERSAL:
        contents = {
            MANIFEST: contents.pop(MANIFEST)
        } | contents  # metadata.json has the keys of both until the manifest drops its own
    totals = PackageTotals(form)
    documents = {}
    for path, value in contents.items():
        documents[path] = checked_document(value, path, form)
        totals.add(path, documents[path])
    totals.check(
        components=len(package.components),
        variants=sum(len(component.variants) for component in package.components),
    )
    files = _files(package, description, documents)
    if folders is not None:
        files = {path: source for path, source in files.items() if path not in folders.replaced}
        files |= folders.files
        documents = {
            **folders.documents,
            **documents,
        }  # documents that nothing names yet come first
    return PackagePlan(documents=documents, files=files)


def _genai_folders(
    package: PackageInfo, description: PackageDescription, notify: Notify
) -> GenaiFolders:
    folders = genai_folders(
        package, {key: location.folder for key, location in description.layouts.items()}
    )
    if folders.why_not:
        notify(folders.why_not)
    return folders


def _files(
    package: PackageInfo, description: PackageDescription, documents: dict[str, bytes]
) -> dict[str, Path]:
    """Map the new path of every file that is not a document to its source."""
    moves = {
        location.moves: location.folder
        for location in description.layouts.values()
        if location.moves is not None
    }
    files = {}
    for path in list_files(package.root):
        source = package.root / path
        moved = next((folder for folder in source.parents if folder in moves), None)
        target = path if moved is None else f"{moves[moved]}/{source.relative_to(moved).as_posix()}"
        if path not in description.documents:
            files[target] = source
    for location in description.layouts.values():
        files |= {f"{location.folder}/{path}": source for path, source in location.brings.items()}
    if clash := next((path for path in files if path in documents), None):
        raise AuthoringError(
            f"{quoted(clash)} is a file of the package, where a document has to go; rename it"
        )
    return files


def _inexpressible_facts(package: PackageInfo, form: PackageFormat) -> Iterator[str]:
    """Yield each fact of the package that ``form`` cannot express, as a phrase."""
    for component in package.components:
        for variant in component.variants:
            owner = f"of variant {quoted(variant.name)}"
            if form is not PackageFormat.METADATA:
                for key in FORBIDDEN_SESSION_OPTIONS:
                    if key in variant.session_options:
                        yield (
                            f"session option {quoted(key)} {owner}, with which onnxruntime 1.31"
                            " refuses the package"
                        )
            if (
                form is PackageFormat.METADATA
                and variant.model_path is None
                and package.shared_assets
            ):
                yield f"shared assets that the set of files {owner} may refer to"
