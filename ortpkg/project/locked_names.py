"""Names as a project means them: the version that its lock has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ortpkg.project.lock_file import read_lock
from ortpkg.project.project_file import find_project
from ortpkg.registry.references import StoreReference


def as_locked(reference: StoreReference, folder: Path | None = None) -> StoreReference:
    """The reference with the digest that the project of ``folder`` is locked on.

    Left as it is: one that states a tag or digest, and a name that the project does not want, or
    has not locked. ``folder`` is the current one where it is left out. UsageError where the
    project's file or lock is wrong.
    """
    if reference.tag is not None or reference.digest is not None:
        return reference
    project = find_project(folder)
    if project is None or reference.name not in project.packages:
        return reference
    lock = read_lock(project.folder)
    locked = None if lock is None else lock.packages.get(reference.name)
    return reference if locked is None else replace(reference, digest=locked.digest)
