"""End a child process together with its parent, whatever ended the parent or native code does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress

_INTERVAL_S = 1.0
_SYNCHRONIZE, _FOR_EVER = 0x100000, 0xFFFFFFFF


def end_with_parent() -> None:
    """End this process (on POSIX its whole process group) as soon as its parent has ended."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    if sys.platform == "win32":
        import ctypes  # takes as long as a selection

        process = ctypes.windll.kernel32.OpenProcess(_SYNCHRONIZE, False, parent)
        ctypes.windll.kernel32.WaitForSingleObject(process, _FOR_EVER)
    else:
        while os.getppid() == parent:
            time.sleep(_INTERVAL_S)
        if os.getpgrp() == os.getpid():
            with suppress(OSError):
                os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
