"""Makes OpenVINO's core so that its CPU plug-in leaves the thread's signal stack alone.

The plug-in gives the thread that loads it an alternate signal stack, and frees that stack when the
core goes. If two cores live at once, as with two sessions, or a core goes on another thread, the
thread keeps a stack that was freed: the next signal ends the process. (Seen in OpenVINO 2026.4;
plain OpenVINO does the same with two ``Core`` objects.)
"""

from __future__ import annotations

import contextlib
from typing import Any

from ortpkg.foundations.host.signal_stack import keep_signal_stack
from ortpkg.runtime.providers.quiet_openvino import openvino


def new_core() -> Any:
    """Return a new core with its CPU plug-in loaded."""
    core = openvino.Core()
    # The first question loads the plug-in: better here than in a later call without the guard. A
    # build of OpenVINO without the plug-in needs none.
    with keep_signal_stack(), contextlib.suppress(RuntimeError):
        core.get_property("CPU", "FULL_DEVICE_NAME")
    return core
