"""Session options that are nearly named like a known one: typos, most likely."""

from __future__ import annotations

from ortpkg.names import closest
from ortpkg.package.formats.executor_info import FORBIDDEN_SESSION_OPTIONS, PATH_SESSION_OPTIONS
from ortpkg.providers.session_settings import COMPILING_ENTRIES, RUNNING_ENTRIES
from ortpkg.trust.library_options import LIBRARY_SESSION_OPTIONS
from ortpkg.trust.safe_options import SAFE_SESSION_OPTIONS

_CONFIG_ENTRY = "session."
_KNOWN = frozenset(
    {
        *SAFE_SESSION_OPTIONS,
        *LIBRARY_SESSION_OPTIONS,
        *COMPILING_ENTRIES,
        *RUNNING_ENTRIES,
        *PATH_SESSION_OPTIONS,
        *FORBIDDEN_SESSION_OPTIONS,
    }
)
#: Nearer than names that mean different things usually are: a release may have entries that are not
#: known here.
_CUTOFF = 0.85


def meant_session_option(key: str) -> str | None:
    """The config entry probably meant by an unknown ``key``, with or without "session."."""
    if key in _KNOWN:
        return None
    name = key.lower() if "." in key else f"{_CONFIG_ENTRY}{key.lower()}"
    return closest(name, sorted(_KNOWN), cutoff=_CUTOFF)
