"""Codes of errors: ONNX Runtime's status names, and exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum


class StatusCode(StrEnum):
    """ONNX Runtime's status names (``onnxruntime_c_api.h``, OrtErrorCode)."""

    FAIL = "FAIL"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NO_SUCHFILE = "NO_SUCHFILE"
    NO_MODEL = "NO_MODEL"
    ENGINE_ERROR = "ENGINE_ERROR"
    RUNTIME_EXCEPTION = "RUNTIME_EXCEPTION"
    INVALID_PROTOBUF = "INVALID_PROTOBUF"
    MODEL_LOADED = "MODEL_LOADED"
    NOT_IMPLEMENTED = "NOT_IMPLEMENTED"
    INVALID_GRAPH = "INVALID_GRAPH"
    EP_FAIL = "EP_FAIL"
    MODEL_LOAD_CANCELED = "MODEL_LOAD_CANCELED"
    MODEL_REQUIRES_COMPILATION = "MODEL_REQUIRES_COMPILATION"
    NOT_FOUND = "NOT_FOUND"
    DEVICE_RESET = "DEVICE_RESET"


class ExitCode(IntEnum):
    """Exit codes of the command line; the table in ``ortpkg --help`` is made from these.

    If files differ from their record, ``ortpkg verify`` returns a sum of :class:`VerifyExitCode`
    instead.
    """

    DONE = 0
    FINDINGS = 1
    USAGE = 2
    NO_SUITABLE_VARIANT = 3
    PACKAGE = 4
    MODEL = 5
    BACKEND = 6
    TRUST = 7
    REGISTRY = 8
    CANCELLED = 130


class VerifyExitCode(IntFlag):
    """Bits whose sum ``ortpkg verify`` returns; 0 if every file is as digests.json records it."""

    CHANGED = 16
    MISSING_OR_EXTRA = 32
    UNREADABLE = 64
    UNVERIFIED = 128
