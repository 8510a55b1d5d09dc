"""Quarantine, kept a second time: damage to a package's records lets no crash come back.

Measurements can be made again; that a variant brings the machine down should be found out once.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from ortpkg.measuring.record_format import (
    MOST_BYTES,
    PackageRecord,
    RecordFormatError,
    dump_record,
    parse_record,
    salvage_quarantine,
)


def copy_path(path: Path) -> Path:
    """Where the copy for the records at ``path`` lies."""
    return path.with_suffix(".quarantine")


def copy_text(record: PackageRecord) -> str:
    """What the copy holds; "" where nothing is in quarantine, and there is to be none."""
    if not record.quarantined:
        return ""
    return dump_record(
        PackageRecord(name=record.name, digest=record.digest, quarantined=record.quarantined)
    )


def recover(path: Path, content: bytes) -> PackageRecord | None:
    """What is in quarantine by the copy, else by what can still be read of ``content``.

    None where neither tells.

    Args:
        path: of the damaged records.
        content: of that file, as far as it was read.
    """
    with contextlib.suppress(OSError, RecordFormatError), copy_path(path).open("rb") as file:
        return replace(parse_record(file.read(MOST_BYTES)), machines=(), canaries=())
    return salvage_quarantine(content)
