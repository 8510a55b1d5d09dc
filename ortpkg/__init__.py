"""Package manager and variant selector for ONNX model packages, with an embedded execution engine.

Public names load on first use, so that ``import ortpkg`` loads neither numpy nor onnx.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ortpkg.version import __version__

if TYPE_CHECKING:
    from ortpkg import errors
    from ortpkg.session.options import RunOptions, SessionOptions

_LAZY: dict[str, str] = {
    "RunOptions": "ortpkg.session.options",
    "SessionOptions": "ortpkg.session.options",
}

__all__ = ["RunOptions", "SessionOptions", "__version__", "errors"]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("ortpkg.errors")
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ortpkg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
