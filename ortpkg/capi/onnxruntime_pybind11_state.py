"""The names of onnxruntime's native module, for programs that import them from there.

The exceptions are real here; whatever else the module is asked for is ortpkg's public object of
that name.
"""

from __future__ import annotations

import importlib
from typing import Any

from ortpkg.foundations.errors.onnxruntime_exceptions import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,  # noqa: A004 - its name there
    RuntimeException,
)
from ortpkg.foundations.public_names import public_object

__all__ = [
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "RuntimeException",
]


#: Names that are public in onnxruntime's native module only → (module, name) of ours.
_NATIVE = {
    "SessionIOBinding": ("ortpkg.runtime.session.io_binding", "IOBinding"),
    "SparseCooView": ("ortpkg.runtime.session.values.sparse_tensor", "SparseCooView"),
    "SparseCsrView": ("ortpkg.runtime.session.values.sparse_tensor", "SparseCsrView"),
    "get_default_session_options": ("ortpkg.runtime.session.options", "SessionOptions"),
}


def __getattr__(name: str) -> Any:
    if name in _NATIVE:
        module, own = _NATIVE[name]
        return getattr(importlib.import_module(module), own)
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return public_object(name)
