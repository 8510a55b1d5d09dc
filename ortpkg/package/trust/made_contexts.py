"""Records of the contexts that were compiled on this machine, by SHA-256."""

from __future__ import annotations

import re
from pathlib import Path

from ortpkg.foundations.host.directories import state_directory

_DIGEST = re.compile(r"[0-9a-f]{64}")


def made_contexts_folder() -> Path:
    """Folder with a note for each context that was compiled here."""
    return Path(state_directory()) / "contexts"


def is_made_here(digest: str) -> bool:
    """Return True if the context with that SHA-256 was compiled on this machine."""
    return bool(_DIGEST.fullmatch(digest)) and (made_contexts_folder() / digest).is_file()
