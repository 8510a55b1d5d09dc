"""Second copy of the quarantine, which survives damage to a package's records.

Measurements can be repeated; that a variant crashes the machine should be found out only once.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from ortpkg.selection.measuring.record_format import (
    MOST_BYTES,
    PackageRecord,
    RecordFormatError,
    dump_record,
    parse_record,
    salvage_quarantine,
)


def copy_path(path: Path) -> Path:
    """Return the path of the copy for the records at ``path``."""
    return path.with_suffix(".quarantine")


def copy_text(record: PackageRecord) -> str:
    """Return the content of the copy.

    "" if the quarantine is empty, and there should be no copy.
    """
    if not record.quarantined:
        return ""
    return dump_record(
        PackageRecord(name=record.name, digest=record.digest, quarantined=record.quarantined)
    )


def recover(path: Path, content: bytes) -> PackageRecord | None:
    """Return the quarantine from the copy, else as far as it can be read from ``content``.

    None if neither has it.

    Args:
        path: path of the damaged records.
        content: content of that file, as far as it was read.
    """
    with contextlib.suppress(OSError, RecordFormatError), copy_path(path).open("rb") as file:
        return replace(parse_record(file.read(MOST_BYTES)), machines=(), canaries=())
    return salvage_quarantine(content)
