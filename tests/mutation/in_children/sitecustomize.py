"""Notes which functions Pythons that a test starts call, for :mod:`tests.mutation.reach`.

A line for each, ``file<TAB>qualified name``, is added to the file ``REACH_CHILDREN`` at the
function's first call, so that a process which is killed has told, too.
"""

import os
import sys
import threading
from types import CodeType, FrameType


def _note_calls(folder: str, file: str) -> None:
    noted: set[CodeType] = set()
    target = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0))

    def trace(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code not in noted:
            noted.add(code)
            if code.co_filename.startswith(folder):
                os.write(target, f"{code.co_filename}\t{code.co_qualname}\n".encode())

    threading.settrace(trace)
    sys.settrace(trace)


if os.environ.get("REACH_CHILDREN") and os.environ.get("REACH_FOLDER"):
    _note_calls(os.environ["REACH_FOLDER"] + os.sep, os.environ["REACH_CHILDREN"])
