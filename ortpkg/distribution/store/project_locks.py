"""Records of what projects have locked; a collection keeps it while their lock files exist.

``projects/<hash of the lock file's path>.json`` lists the manifests that a lock file names. It is
written when a project is installed from its lock file. Later only the existence of the lock file is
checked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.distribution.store.process_names import this_machine
from ortpkg.distribution.store.store_folder import StoreFolder, names_in
from ortpkg.foundations.storage.digest_text import is_digest
from ortpkg.package.stored_documents import damaged, read_json

_NAME_CHARACTERS = 16
#: Age after which a lock of another machine is forgotten; its file cannot be seen from here.
_FOREIGN_AGE_S = 90 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectLock:
    """Lock of one project, as it was installed last.

    Attributes:
        record: File of the record.
        lock: The lock file.
        digests: Digests of the manifests that it names.
        is_forgotten: True if the lock file is gone, or is on another machine and was not installed
            for long.
    """

    record: Path
    lock: Path
    digests: frozenset[str]
    is_forgotten: bool


def note_project_lock(folder: StoreFolder, lock: Path, digests: Iterable[str]) -> None:
    """Record that the lock file ``lock`` names these manifests; replaces its earlier record."""
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


def read_project_locks(folder: StoreFolder) -> Iterator[ProjectLock]:
    """Yield all recorded locks.

    Raises:
        StoreError: A record is damaged.
    """
    for name in names_in(folder.projects):
        path = folder.projects / name
        document = read_json(path)
        if document is not None:  # otherwise another collection was faster
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
