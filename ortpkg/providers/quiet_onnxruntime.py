"""Loads onnxruntime without lines of its own on standard error, and without telemetry."""

from __future__ import annotations

import os
import sys
from typing import Any

#: What fails is raised, and said once by us; onnxruntime's own lines on standard error would say it
#: twice.
FATAL_ONLY = 4
#: Read while onnxruntime loads. With telemetry it warns, in colour, of a home directory that it
#: cannot write.
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"


def load_onnxruntime() -> Any:
    """The module ``onnxruntime``. Where the program has loaded it already, it is left as it is.

    A program that sets ``ORT_DISABLE_TELEMETRY`` itself has its way. Raises whatever importing it
    does.
    """
    is_first = "onnxruntime" not in sys.modules
    onnxruntime = load_onnxruntime_for_application()
    if is_first:
        onnxruntime.set_default_logger_severity(FATAL_ONLY)
    return onnxruntime


def load_onnxruntime_for_application() -> Any:
    """The same for a program's own sessions: no telemetry, but onnxruntime's own lines."""
    is_ours = "onnxruntime" not in sys.modules and _NO_TELEMETRY not in os.environ
    if is_ours:
        os.environ[_NO_TELEMETRY] = "1"
    try:
        import onnxruntime  # only what uses it pays for it
    finally:
        if is_ours:
            os.environ.pop(_NO_TELEMETRY, None)
    return onnxruntime
