"""Recognize documents that a newer ortpkg wrote, by their ``schema_version``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ortpkg.foundations.errors import quoted

_KNOWN = (1, 0)
_VERSION = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?", re.ASCII)


def made_by_newer(document: object) -> str:
    """Return "was made by a newer ortpkg ..." for a higher ``schema_version``; else ""."""
    version: Any = document.get("schema_version") if isinstance(document, Mapping) else None
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None or (int(match[1]), int(match[2] or 0)) <= _KNOWN:
        return ""
    return (
        f"was made by a newer ortpkg: its schema_version is {quoted(version)}, and this ortpkg"
        f" knows {_KNOWN[0]}.{_KNOWN[1]}; use a newer one"
    )
