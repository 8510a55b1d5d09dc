"""The child's side of :mod:`ortpkg.isolation.worker`.

Foreign libraries print, also from native code; so standard output is turned to standard error first, and replies go
through a private copy of the descriptor.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ortpkg.isolation.worker import Message, read_message, write_message

_INTERVAL_S = 1.0
_SYNCHRONIZE, _FOR_EVER = 0x100000, 0xFFFFFFFF

Handler = Callable[[Message], Message]


def main() -> None:
    """Makes the handler by "module:function" of the command line, and serves until the input ends."""
    channel, source = os.dup(1), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    _be_ended_first()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    module_name, _, function_name = sys.argv[-1].partition(":")
    handler: Handler | None = None
    try:
        arguments = read_message(source).header
        while True:
            request = read_message(source)
            try:
                if handler is None:
                    handler = getattr(importlib.import_module(module_name), function_name)(**arguments)
                reply = handler(request)
            except Exception as error:  # noqa: BLE001 - whatever foreign code raises is the answer
                kind = type(error).__name__
                reply = Message(header={"error": str(error) or kind, "kind": kind})
            write_message(channel, reply)
    except (EOFError, OSError):
        os._exit(0)  # the parent is gone; native code may hang or crash while an interpreter shuts down


def _be_ended_first() -> None:
    """On Linux: where memory runs out, the system is to end this process and not its parent."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone, whatever native code is doing meanwhile."""
    if sys.platform == "win32":
        process = ctypes.windll.kernel32.OpenProcess(_SYNCHRONIZE, False, parent)
        ctypes.windll.kernel32.WaitForSingleObject(process, _FOR_EVER)
    else:
        while os.getppid() == parent:
            time.sleep(_INTERVAL_S)
    os._exit(0)
