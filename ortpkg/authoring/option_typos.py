"""Find the config entry that a mistyped session option probably means."""

from __future__ import annotations

from ortpkg.foundations.names import closest
from ortpkg.package.formats.executor_info import FORBIDDEN_SESSION_OPTIONS, PATH_SESSION_OPTIONS
from ortpkg.package.trust.library_options import LIBRARY_SESSION_OPTIONS
from ortpkg.package.trust.safe_options import SAFE_SESSION_OPTIONS
from ortpkg.runtime.providers.session_settings import COMPILING_ENTRIES, RUNNING_ENTRIES

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
#: Closer than names with different meanings usually are: a release may have entries that ortpkg
#: does not know.
_CUTOFF = 0.85


def meant_session_option(key: str) -> str | None:
    """Return the config entry probably meant by an unknown ``key``, with or without "session."."""
    if key in _KNOWN:
        return None
    name = key.lower() if "." in key else f"{_CONFIG_ENTRY}{key.lower()}"
    return closest(name, sorted(_KNOWN), cutoff=_CUTOFF)
