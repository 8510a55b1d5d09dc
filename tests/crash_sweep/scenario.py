"""One command that changes a disk, and how to look at what it left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ortpkg.authoring.package_checks import validate
from ortpkg.foundations.errors import Severity
from ortpkg.package.changes.recovery import recover
from ortpkg.package.integrity.digest_check import check_digests
from ortpkg.package.integrity.digests import STAGING_PREFIX
from ortpkg.package.reader import open_package


def state_of(target: Path) -> object:
    """What a reader sees: a file's bytes, or a package that is valid and intact.

    None where there is none.
    """
    if target.is_file():
        return target.read_bytes()
    if not (target / "manifest.json").exists():
        return None
    errors = [str(finding) for finding in validate(target) if finding.severity is Severity.ERROR]
    package = open_package(target)
    variants = [
        (
            component.name,
            variant.name,
            str(variant.model_path and variant.model_path.relative_to(package.root)),
        )
        for component in package.components
        for variant in component.variants
    ]
    differences = [(each.kind, each.file) for each in check_digests(target)]
    return package.format, package.description, variants, errors, differences


def content_of(target: Path) -> dict[str, bytes]:
    """Every file, without what is staged."""
    if not target.is_dir():
        return {"": target.read_bytes()} if target.exists() else {}
    files = {
        path.relative_to(target).as_posix(): path
        for path in sorted(target.rglob("*"))
        if path.is_file()
    }
    return {
        name: path.read_bytes()
        for name, path in files.items()
        if not name.startswith(STAGING_PREFIX)
    }


def recover_package(target: Path) -> None:
    """What the next command on a package does first."""
    if target.is_dir():
        recover(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One command.

    Attributes:
        name: as on the command line.
        prepare: makes, in an empty folder, what the command starts from.
        run: the command, in that folder.
        target: what it makes or changes, in that folder.
        is_stepwise: it replaces file by file (a repair), and each state on the way is allowed.
        may_lack: on that way, a file may be missing for a moment.
        flaw: what is wrong with what it left of its target, "" for nothing.
        state: what a reader sees of the target.
        content: what its target holds in the end, name by name.
        tidy: what the next command does about what a stopped one left.
    """

    name: str
    prepare: Callable[[Path], object]
    run: Callable[[Path], object]
    target: str
    is_stepwise: bool = False
    may_lack: bool = False
    flaw: Callable[[Path], str] = lambda _: ""
    state: Callable[[Path], object] = state_of
    content: Callable[[Path], dict[str, bytes]] = content_of
    tidy: Callable[[Path], object] = recover_package
