"""Loads onnxruntime without lines of its own on standard error, and without telemetry."""

from __future__ import annotations

import os
import sys
from typing import Any

#: Severity at which onnxruntime writes next to nothing to standard error: errors are raised, and
#: its own lines would repeat them.
FATAL_ONLY = 4
#: Variable that onnxruntime reads while it loads. With telemetry it warns, in colour, of a home
#: directory that it cannot write.
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"


def load_onnxruntime() -> Any:
    """Return the module ``onnxruntime``; if the program has loaded it already, it is unchanged.

    ``ORT_DISABLE_TELEMETRY`` keeps a value that the program set. Raises whatever importing it
    raises.
    """
    is_first = "onnxruntime" not in sys.modules
    onnxruntime = load_onnxruntime_for_application()
    if is_first:
        onnxruntime.set_default_logger_severity(FATAL_ONLY)
    return onnxruntime


def load_onnxruntime_for_application() -> Any:
    """Return the module for a program's own sessions: no telemetry, but onnxruntime's own lines."""
    is_ours = "onnxruntime" not in sys.modules and _NO_TELEMETRY not in os.environ
    if is_ours:
        os.environ[_NO_TELEMETRY] = "1"
    try:
        import onnxruntime  # only its users pay for loading it
    finally:
        if is_ours:
            os.environ.pop(_NO_TELEMETRY, None)
    return onnxruntime
