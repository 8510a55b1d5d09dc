"""Which tests ought to notice a change of which room: folders of tests, fast ones first."""

from __future__ import annotations

ROOMS: dict[str, tuple[str, ...]] = {
    "selection/matching": ("tests/selection", "tests/api", "tests/releases"),
    "selection/releases": ("tests/releases", "tests/selection", "tests/authoring"),
    "runtime/engine": ("tests/engine", "tests/session"),
    "runtime/session": (
        "tests/session",
        "tests/engine",
        "tests/capi",
        "tests/backend",
        "tests/ep_context",
    ),
    "package": ("tests/package", "tests/storage", "tests/api", "tests/authoring"),
    "foundations/documents": (
        "tests/documents",
        "tests/package",
        "tests/machine",
        "tests/registry",
    ),
    "foundations/storage": ("tests/storage", "tests/package", "tests/authoring"),
    "package/trust": ("tests/trust", "tests/ep_context", "tests/session"),
    "runtime/ep_context": ("tests/ep_context", "tests/providers", "tests/session"),
    "scale/serving": ("tests/serving", "tests/ray"),
    "runtime/providers": ("tests/providers", "tests/session", "tests/ep_context", "tests/engine"),
}
