"""Lists installed distributions that may bring a plug-in EP, without importing them.

``ep_candidate_scan`` reads their files once; the result is remembered until distributions are
installed or removed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from enum import StrEnum
from typing import Any

from ortpkg.foundations.storage.fact_cache import read_fact, write_fact
from ortpkg.runtime.providers.ep_discovery.ep_candidate import EpCandidate, EpPackage
from ortpkg.runtime.providers.installed_metadata import recorded_distributions

#: Names libraries: ``PATH`` or ``NAME=PATH``, several with the system's separator of paths between.
EP_LIBRARIES_VARIABLE = "ORTPKG_EP_LIBRARIES"
_KIND = "ep_candidates"
#: Version of the scan's rules; facts of another version are not used.
_RULES = 1
_MOST_KEPT = 8


class EpOrigin(StrEnum):
    """Source of a library: a wheel, a path from the user, or Windows' catalog of EPs."""

    WHEEL = "wheel"
    NAMED = "named"
    CATALOG = "catalog"


def file_identity(path: str) -> list[int]:
    """Return a file's size in bytes and the time of its last change in ns; [] without access."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a text
    except (OSError, ValueError):
        return []
    return [status.st_size, status.st_mtime_ns]


def ep_candidates() -> tuple[EpCandidate, ...]:
    """Return the candidates of this environment, sorted by the names of their distributions."""
    records = recorded_distributions()
    # As text, not as its digest: hashlib takes longer to load than all of this.
    installed = [f"{record.folder}/{record.entry} {record.changed_ns}" for record in records]
    key = {"rules": _RULES, "platform": sys.platform, "installed": installed}
    stored = read_fact(_KIND, key)
    candidates = None if stored is None else _candidates(stored)
    if candidates is None:
        from ortpkg.runtime.providers.ep_discovery.ep_candidate_scan import (
            scan,  # only where something was installed
        )

        candidates = scan(records)
        write_fact(_KIND, key, [list(candidate) for candidate in candidates], keep=_MOST_KEPT)
    return candidates


def _candidates(stored: Any) -> tuple[EpCandidate, ...] | None:
    with contextlib.suppress(TypeError, ValueError):
        return tuple(
            EpCandidate(
                distribution=distribution,
                version=version,
                package=None if package is None else EpPackage(*package),
                libraries=tuple(libraries),
                files=tuple(files),
            )
            for distribution, version, package, libraries, files in stored
        )
    return None
