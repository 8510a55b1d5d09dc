"""First bytes of a file of compiled contexts, by which any part of ortpkg recognizes one."""

from __future__ import annotations

from pathlib import Path

MAGIC = b"ORTPKG EPCTX\x00\x00\x00\x01"


def is_context_file(path: Path, *, magic: bytes = MAGIC) -> bool:
    """Return True if a file exists and begins with ``magic``; nothing else of it is read."""
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False
