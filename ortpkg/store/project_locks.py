"""What projects have locked themselves on: kept from gc for as long as their lock files are there.

``projects/<hash of the lock file's path>.json`` says which manifests a lock names. It is written
when a project is installed from its lock; of the lock file itself, only whether it is there is
looked at.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.registry.descriptors import is_digest
from ortpkg.store.process_names import this_machine
from ortpkg.store.store_folder import StoreFolder, damaged, names_in, read_json

_NAME_CHARACTERS = 16
#: Nobody can say from here whether the lock file of another machine is there.
_FOREIGN_AGE_S = 90 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectLock:
    """The lock of one project, as it was installed last.

    Attributes:
        record: the file that says so.
        lock: the lock file.
        digests: of the manifests that it names.
        is_forgotten: the lock file is gone; one of another machine was not installed for long.
    """

    record: Path
    lock: Path
    digests: frozenset[str]
    is_forgotten: bool


def note_project_lock(folder: StoreFolder, lock: Path, digests: Iterable[str]) -> None:
    """Writes down that the lock file ``lock`` names these manifests, in place of what it did."""
    folder.prepare()
    folder.make_folder(folder.projects)
    key = hashlib.sha256(f"{this_machine()} {lock}".encode(errors="surrogateescape")).hexdigest()
    document: Mapping[str, Any] = {
        "schema_version": "1.0",
        "lock": str(lock),
        "machine": this_machine(),
        "digests": sorted(digests),
        "synced": time.time(),
    }
    folder.write_json(folder.projects / f"{key[:_NAME_CHARACTERS]}.json", document)


def project_locks(folder: StoreFolder) -> Iterator[ProjectLock]:
    """All locks that are written down. StoreError where a record is damaged."""
    for name in names_in(folder.projects):
        path = folder.projects / name
        document = read_json(path)
        if document is not None:  # else another gc was faster
            yield _project_lock(path, document)


def _project_lock(path: Path, document: Mapping[str, Any]) -> ProjectLock:
    try:
        lock, digests = Path(document["lock"]), frozenset(document["digests"])
        is_here = document["machine"] == this_machine()
        age_s = time.time() - float(document["synced"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path) from error
    if not all(map(is_digest, digests)):
        raise damaged(path)
    is_forgotten = not lock.is_file() if is_here else age_s > _FOREIGN_AGE_S
    return ProjectLock(record=path, lock=lock, digests=digests, is_forgotten=is_forgotten)
