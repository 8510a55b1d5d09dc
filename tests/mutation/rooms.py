"""Which tests ought to notice a change of which package: for each room, folders of tests, the fast
ones first.
"""

from __future__ import annotations

ROOMS: dict[str, tuple[str, ...]] = {
    "selection": ("tests/selection", "tests/api"),
    "engine": ("tests/engine", "tests/session"),
    "session": ("tests/session", "tests/engine", "tests/capi", "tests/backend", "tests/ep_context"),
    "package": ("tests/package", "tests/api", "tests/authoring"),
    "providers": ("tests/providers", "tests/session", "tests/ep_context", "tests/engine"),
}
