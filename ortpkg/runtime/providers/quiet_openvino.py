"""Loads OpenVINO without telemetry and without files in the home directory.

``openvino.tools.ovc`` sends an event to an analytics server while it is imported, and keeps a
client's id in ``~/intel``, both through the package ``openvino_telemetry``; if that package is
missing it uses a stub of its own. All of our modules import ``openvino`` from here. Importing this
module raises whatever importing OpenVINO raises.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TELEMETRY = "openvino_telemetry"


@contextmanager
def _without_telemetry() -> Iterator[None]:
    """Make ``openvino_telemetry`` a package that cannot be imported inside the block."""
    hidden = {
        name: module
        for name, module in sys.modules.copy().items()
        if name.partition(".")[0] == _TELEMETRY
    }
    for name in hidden:
        del sys.modules[name]
    sys.modules[_TELEMETRY] = None  # type: ignore[assignment]  # so importing it is an ImportError
    try:
        yield
    finally:
        del sys.modules[_TELEMETRY]
        sys.modules.update(hidden)


# If the program has imported OpenVINO itself, these lines import nothing and change nothing.
with _without_telemetry():
    import openvino
    from openvino import opset15 as operations
    from openvino import passes

__all__ = ["openvino", "operations", "passes"]
