"""Whose a folder of compiled contexts is: others' code must not run with its reader's rights."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ortpkg.errors import quoted

#: Whoever has these rights has all others, too.
_ROOT = 0


def foreign_writers(folder: Path) -> str:
    """Who else may write to the folder, as a sentence that says what would be right; "" for nobody.

    "" as well for a folder that is not there yet, and where the system has no owners (Windows).
    """
    if os.name != "posix":
        return ""
    try:
        found = folder.stat()
    except OSError:
        return ""
    if found.st_uid not in (os.geteuid(), _ROOT):
        return (
            f"it belongs to another user (id {found.st_uid}), and what lies in it is code; name a"
            " folder of your own"
        )
    if found.st_mode & stat.S_IWOTH:
        return (
            "any user may write to it, and what lies in it is code; name a folder of your own, or"
            f" take that right away: chmod o-w {quoted(folder)}"
        )
    return ""
