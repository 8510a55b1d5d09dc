"""Files of records on the disk, including what can be read of damaged ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.host.directories import records_directory
from ortpkg.selection.measuring.quarantine_copy import recover
from ortpkg.selection.measuring.record_format import (
    MOST_BYTES,
    PackageRecord,
    RecordFormatError,
    parse_record,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One file of records.

    Attributes:
        path: path of the file.
        record: its content; for a damaged file only the quarantine; None if not even that is known.
        problem: what is wrong with the file; "" for nothing.
    """

    path: Path
    record: PackageRecord | None
    problem: str = ""


def stored_records() -> tuple[StoredRecord, ...]:
    """Return every file of records of this user, sorted by name."""
    try:
        paths = sorted(Path(records_directory()).glob("*.json"))
    except OSError:
        return ()
    records = (read_stored(path) for path in paths)
    return tuple(stored for stored in records if stored is not None)


def read_stored(path: Path) -> StoredRecord | None:
    """Return the file at ``path``; None if there is none."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _damaged(path, b"", f"it cannot be read: {error.strerror}")
    if len(content) > MOST_BYTES:
        return _damaged(path, b"", f"it has more than {MOST_BYTES} bytes")
    try:
        record = parse_record(content)
    except RecordFormatError as error:
        return _damaged(path, content, str(error))
    if record_path(record.digest).name != path.name:
        return _damaged(path, b"", "it is about another package")
    return StoredRecord(path=path, record=record)


def _damaged(path: Path, content: bytes, problem: str) -> StoredRecord:
    record = recover(path, content)
    if record is not None and record_path(record.digest).name != path.name:
        record = None
    return StoredRecord(path=path, record=record, problem=problem)


def record_path(digest: str) -> Path:
    """Return the path of the records of the package with this digest."""
    return Path(records_directory(), f"{hashlib.sha256(digest.encode()).hexdigest()[:32]}.json")
