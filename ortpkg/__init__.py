"""Package manager and variant selector for ONNX model packages, with an embedded execution engine.

Public names load on first use, so that ``import ortpkg`` loads neither numpy nor onnx.
"""

from __future__ import annotations

from ortpkg.version import __version__

TYPE_CHECKING = False  # as type checkers know it; typing itself takes 40 ms, in which Ctrl-C would be a traceback
if TYPE_CHECKING:
    from typing import Any

    from ortpkg import devices, errors
    from ortpkg.api.archive import pack, unpack
    from ortpkg.api.doctor import doctor
    from ortpkg.api.model_package import ComponentModel, ModelPackage
    from ortpkg.api.model_variant import ModelVariant
    from ortpkg.api.verify import record_digests, verify
    from ortpkg.authoring.convert import convert
    from ortpkg.authoring.create import add_variant, create, init_package, remove_variant
    from ortpkg.authoring.dedup import DedupReport, dedup
    from ortpkg.authoring.diff import PackageDiff, diff
    from ortpkg.authoring.merge import merge
    from ortpkg.authoring.migration import migrate_check
    from ortpkg.authoring.new_variant import NewVariant
    from ortpkg.authoring.package_checks import validate
    from ortpkg.authoring.slim import slim
    from ortpkg.session.inference_session import InferenceSession
    from ortpkg.session.options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
    from ortpkg.session.ort_value import OrtValue

#: Public name → the module that has it.
_LAZY: dict[str, str] = {
    "ComponentModel": "ortpkg.api.model_package",
    "DedupReport": "ortpkg.authoring.dedup",
    "ExecutionMode": "ortpkg.session.options",
    "GraphOptimizationLevel": "ortpkg.session.options",
    "InferenceSession": "ortpkg.session.inference_session",
    "ModelPackage": "ortpkg.api.model_package",
    "ModelVariant": "ortpkg.api.model_variant",
    "NewVariant": "ortpkg.authoring.new_variant",
    "OrtValue": "ortpkg.session.ort_value",
    "PackageDiff": "ortpkg.authoring.diff",
    "RunOptions": "ortpkg.session.options",
    "SessionOptions": "ortpkg.session.options",
    "add_variant": "ortpkg.authoring.create",
    "convert": "ortpkg.authoring.convert",
    "create": "ortpkg.authoring.create",
    "dedup": "ortpkg.authoring.dedup",
    "diff": "ortpkg.authoring.diff",
    "doctor": "ortpkg.api.doctor",
    "init_package": "ortpkg.authoring.create",
    "merge": "ortpkg.authoring.merge",
    "migrate_check": "ortpkg.authoring.migration",
    "pack": "ortpkg.api.archive",
    "record_digests": "ortpkg.api.verify",
    "remove_variant": "ortpkg.authoring.create",
    "slim": "ortpkg.authoring.slim",
    "unpack": "ortpkg.api.archive",
    "validate": "ortpkg.authoring.package_checks",
    "verify": "ortpkg.api.verify",
}

__all__ = [
    "ComponentModel",
    "DedupReport",
    "ExecutionMode",
    "GraphOptimizationLevel",
    "InferenceSession",
    "ModelPackage",
    "ModelVariant",
    "NewVariant",
    "OrtValue",
    "PackageDiff",
    "RunOptions",
    "SessionOptions",
    "__version__",
    "add_variant",
    "convert",
    "create",
    "dedup",
    "devices",
    "diff",
    "doctor",
    "errors",
    "init_package",
    "merge",
    "migrate_check",
    "pack",
    "record_digests",
    "remove_variant",
    "slim",
    "unpack",
    "validate",
    "verify",
]


def __getattr__(name: str) -> Any:
    import importlib  # 7 ms, which the command line spends when it hears Ctrl-C already

    if name in ("devices", "errors"):
        return importlib.import_module(f"ortpkg.{name}")
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'ortpkg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
