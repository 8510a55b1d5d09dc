"""Which tests ought to notice a change of which room: folders of tests, fast ones first."""

from __future__ import annotations

ROOMS: dict[str, tuple[str, ...]] = {
    "selection": ("tests/selection", "tests/api", "tests/releases"),
    "releases": ("tests/releases", "tests/selection", "tests/authoring"),
    "engine": ("tests/engine", "tests/session"),
    "session": ("tests/session", "tests/engine", "tests/capi", "tests/backend", "tests/ep_context"),
    "package": ("tests/package", "tests/storage", "tests/api", "tests/authoring"),
    "documents": ("tests/documents", "tests/package", "tests/devices", "tests/registry"),
    "storage": ("tests/storage", "tests/package", "tests/authoring"),
    "trust": ("tests/trust", "tests/ep_context", "tests/session"),
    "ep_context": ("tests/ep_context", "tests/providers", "tests/session"),
    "serving": ("tests/serving", "tests/ray"),
    "providers": ("tests/providers", "tests/session", "tests/ep_context", "tests/engine"),
}
