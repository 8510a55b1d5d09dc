"""Check a package's files: names on every operating system, digests (ORT301 to ORT407)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ortpkg.authoring.checks.checked_package import CheckedPackage, finding_of_variant
from ortpkg.authoring.rules import file_rules
from ortpkg.foundations.documents.finding_collector import finding
from ortpkg.foundations.errors import Finding, PackageError, PackageFormatError, quoted
from ortpkg.package.integrity.asset_verification import asset_differences, asset_folders
from ortpkg.package.integrity.digest_check import DifferenceKind, list_files
from ortpkg.package.integrity.digests import STAGING_PREFIX, read_entries
from ortpkg.package.integrity.verification import is_other_form, package_differences
from ortpkg.package.paths.path_text import why_not_a_name
from ortpkg.package.paths.portable_names import folded_name
from ortpkg.package.sidecar import DIGESTS_FILE

_LONGEST_PATH = 200
_DIFFERENCE_RULES = {
    DifferenceKind.CHANGED: file_rules.FILE_CHANGED,
    DifferenceKind.MISSING: file_rules.FILE_LOST,
    DifferenceKind.UNREADABLE: file_rules.FILE_UNREADABLE,
    DifferenceKind.EXTRA: file_rules.FILE_NOT_RECORDED,
}


def check_file_names(package: CheckedPackage) -> Iterator[Finding]:
    """Check that each file's name is valid, unique and short enough on every operating system."""
    try:
        files = list_files(package.info.root)
    except (PackageError, OSError) as error:
        yield finding(
            file_rules.FILE_UNREADABLE,
            ".",
            f"the package's files cannot be listed: {quoted(error)}",
        )
        return
    wrong: set[str] = set()
    for file in files:
        names = file.split("/")
        for depth, name in enumerate(names, start=1):
            path = "/".join(names[:depth])
            if path not in wrong and (reason := why_not_a_name(name)):
                wrong.add(path)
                yield finding(
                    file_rules.FILE_NAME, shown(path), f"the name {quoted(name)} {reason}"
                )
        if len(file) > _LONGEST_PATH:
            message = f"has a path of {len(file)} characters; up to {_LONGEST_PATH} are safe"
            yield finding(file_rules.PATH_LONG, shown(file), message)
    yield from _collisions_of_files(files)


def check_declared_names(package: CheckedPackage) -> Iterator[Finding]:
    """Check that names of components, or of one component's variants, differ in more than case.

    Names that differ only in case or in how Unicode composes a letter are one file on some systems.
    """
    components = {component.name: component for component in package.info.components}
    for name, other in _collisions(components):
        source = components[name].source
        message = (
            f"component models {quoted(other)} and {quoted(name)} have the same name on Windows and"
            " macOS"
        )
        yield finding(file_rules.NAMES_COLLIDE, source.document, message, pointer=source.pointer)
    for component in package.components:
        variants = {variant.name: variant for variant in component.variants}
        for name, other in _collisions(variants):
            message = (
                f"variants {quoted(other)} and {quoted(name)} have the same name on Windows and"
                " macOS"
            )
            yield finding_of_variant(file_rules.NAMES_COLLIDE, variants[name], message)


def check_recorded_files(package: CheckedPackage) -> Iterator[Finding]:
    """Check that every file is as digests.json records it."""
    try:
        if read_entries(package.info.root) is None:
            yield finding(
                file_rules.NO_DIGESTS, DIGESTS_FILE, "is missing: the package is unverified"
            )
            return
    except PackageFormatError:
        return  # the reader has reported what is wrong with digests.json
    try:
        differences = package_differences(package.info.root, progress=package.progress)
    except (PackageError, OSError) as error:
        yield finding(
            file_rules.FILE_UNREADABLE,
            DIGESTS_FILE,
            f"its files cannot be compared: {quoted(error)}",
        )
        return
    absent = package.info.absent_files
    for difference in differences:
        # Another form alone may come from another program.
        if difference.file in absent or is_other_form(difference):
            continue
        yield finding(
            _DIFFERENCE_RULES[difference.kind], shown(difference.file), difference.message
        )


def check_shared_assets(package: CheckedPackage) -> Iterator[Finding]:
    """Check that the content of every shared asset has the digest that names it."""
    root = package.info.root
    folders = asset_folders(root)
    for difference in asset_differences(
        root, folders, hashed={}, differing=package.info.absent_files, progress=package.progress
    ):
        yield finding(file_rules.ASSET_CHANGED, shown(difference.file), difference.message)


def check_leftovers(package: CheckedPackage) -> Iterator[Finding]:
    """Check that no command was interrupted."""
    try:
        recorded = read_entries(package.info.root)
    except PackageFormatError:
        return  # the reader has reported what is wrong with digests.json
    if recorded is not None and recorded.pending is not None:
        document = recorded.pending.commit_document
        yield finding(
            file_rules.CHANGE_INTERRUPTED,
            DIGESTS_FILE,
            f"a change to {quoted(document)} was interrupted",
        )
    with os.scandir(package.info.root) as entries:
        for name in sorted(
            entry.name for entry in entries if entry.name.startswith(STAGING_PREFIX)
        ):
            yield finding(
                file_rules.CHANGE_INTERRUPTED,
                shown(name),
                "was left over by a command that was interrupted",
            )


def shown(file: str) -> str:
    """Return a file's name for ``Finding.document``: quoted if it cannot be printed or encoded."""
    return file if file.isprintable() else quoted(file)


def _collisions_of_files(files: Iterable[str]) -> Iterator[Finding]:
    """Find names that are equal without case and composition; a folder's only once."""
    spellings: dict[str, str] = {}
    for file in files:
        path = key = ""
        for name in file.split("/"):
            path, key = (
                (f"{path}/{name}", f"{key}/{folded_name(name)}")
                if path
                else (name, folded_name(name))
            )
            other = spellings.setdefault(key, path)
            if other != path:
                message = f"and {quoted(other)} have the same name on Windows and macOS"
                yield finding(file_rules.NAMES_COLLIDE, shown(path), message)
                break


def _collisions(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, an earlier one that Windows or macOS takes for the same)."""
    spellings: dict[str, str] = {}
    for name in names:
        other = spellings.setdefault(folded_name(name), name)
        if other != name:
            yield name, other
