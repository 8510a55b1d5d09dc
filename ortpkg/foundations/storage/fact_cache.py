"""Cache of facts about this machine that are expensive to find out, kept between processes.

Each fact is a small JSON file in the cache directory. It is stored with the whole key that it
depends on, and is read back only for an equal key, so that a new driver or library version is a
miss and never a stale answer. The cache may vanish or be damaged at any time; that is a miss, too.
"""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ortpkg.foundations.host.directories import cache_directory
from ortpkg.foundations.storage.file_replacement import replace_file

_SCHEMA_VERSION = 1
_MOST_BYTES = 1 << 20
#: A temporary file of this age was left by a killed process: writing a fact takes an instant.
_OLD_S = 600.0

Key = Mapping[str, object]


def read_fact(kind: str, key: Key) -> Any:
    """Return the stored value (JSON, never null) for exactly ``key``.

    Return None if there is none that can be trusted.
    """
    try:
        with _fact_path(kind, key).open("rb") as file:
            stored = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if (
        not isinstance(stored, dict)
        or stored.get("schema_version") != _SCHEMA_VERSION
        or stored.get("key") != key
    ):
        return None
    return stored.get("value")


def write_fact(kind: str, key: Key, value: Any, *, keep: int | None = None) -> None:
    """Store a JSON value for ``key`` in one step, if the directory can be written.

    Leftovers of killed processes are removed, too. Of this kind only the ``keep`` facts written
    last are kept; None keeps all.
    """
    path = _fact_path(kind, key)
    text = json.dumps(
        {"schema_version": _SCHEMA_VERSION, "key": key, "value": value}, sort_keys=True, indent=1
    )
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda file: file.write(text.encode()), mode=0o600, is_durable=False)
    _remove_leftovers(path.parent)
    if keep is not None:
        prune_facts(kind, keep=keep)


def _remove_leftovers(directory: Path) -> None:
    try:
        for leftover in directory.glob(".*.json.*"):
            if time.time() - leftover.stat().st_mtime > _OLD_S:
                leftover.unlink(missing_ok=True)
    except OSError:  # another process removes them, or the directory is gone
        return


def prune_facts(kind: str, *, keep: int) -> None:
    """Delete all but the ``keep`` facts of ``kind`` that were written last.

    ``kind`` may be a pattern, such as ``refusal_*``.
    """
    try:
        facts = [
            (path.stat().st_mtime_ns, path)
            for path in (cache_directory() / "facts").glob(f"{kind}-*.json")
        ]
        for _, path in sorted(facts)[: max(0, len(facts) - keep)]:
            path.unlink(missing_ok=True)
    except OSError:  # another process prunes, or the directory is gone
        return


def _fact_path(kind: str, key: Key) -> Path:
    # The file holds its whole key, so a collision of names is only a miss.
    text = json.dumps(key, sort_keys=True).encode()
    return (
        cache_directory() / "facts" / f"{kind}-{zlib.crc32(text):08x}{zlib.adler32(text):08x}.json"
    )
