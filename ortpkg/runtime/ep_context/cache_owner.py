"""Owner of a folder of compiled contexts: others' code must not run with its reader's rights."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ortpkg.foundations.errors import quoted

#: The user who has the rights of all others anyway.
_ROOT = 0


def foreign_writers(folder: Path) -> str:
    """Return a sentence on who else may write to the folder, with advice; "" for nobody.

    Also "" for a folder that does not exist yet, and on systems without owners (Windows).
    """
    if os.name != "posix":
        return ""
    try:
        status = folder.stat()
    except OSError:
        return ""
    if status.st_uid not in (os.geteuid(), _ROOT):
        return (
            f"it belongs to another user (id {status.st_uid}), and what lies in it is code; name a"
            " folder of your own"
        )
    if status.st_mode & stat.S_IWOTH:
        return (
            "any user may write to it, and what lies in it is code; name a folder of your own, or"
            f" take that right away: chmod o-w {quoted(folder)}"
        )
    return ""
