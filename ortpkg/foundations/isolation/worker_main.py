"""Child's side of :mod:`ortpkg.foundations.isolation.worker`.

Foreign libraries print, also from native code. So standard output is redirected to standard error
first, and replies go through a private copy of the descriptor.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ortpkg.foundations.isolation.orphan import end_with_parent
from ortpkg.foundations.isolation.worker import NOTE, Message, read_message, write_message

Handler = Callable[[Message], Message]

_MOST_NOTE_LENGTH = 500
#: Descriptor for replies and process id, once this process is a worker; foreign code may fork it.
_SERVING: list[tuple[int, int]] = []


def main() -> None:
    """Create the handler that the command line names, and serve until the input ends."""
    channel, source = os.dup(1), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    _SERVING.append((channel, os.getpid()))
    _be_ended_first()
    end_with_parent()
    module_name, _, function_name = sys.argv[-1].partition(":")
    handler: Handler | None = None
    try:
        arguments = read_message(source).header
        while True:
            request = read_message(source)
            try:
                if handler is None:
                    handler = getattr(importlib.import_module(module_name), function_name)(
                        **arguments
                    )
                reply = handler(request)
            except Exception as error:  # noqa: BLE001 - whatever foreign code raises is the answer
                kind = type(error).__name__
                reply = Message(header={"error": str(error) or kind, "kind": kind})
            _end_copies()
            write_message(channel, reply)
    except (EOFError, OSError):
        # The parent has gone; native code may hang or crash while an interpreter shuts down.
        os._exit(0)


def tell(note: str) -> None:
    """Send the parent a note on what is being done, in case this process dies before its reply.

    It does nothing in a process that is not a worker, or outside the main thread.
    """
    if _SERVING and threading.current_thread() is threading.main_thread():
        _end_copies()
        with suppress(OSError):
            write_message(_SERVING[0][0], Message(header={NOTE: note[:_MOST_NOTE_LENGTH]}))


def _end_copies() -> None:
    """End this process if foreign code forked it, because the parent awaits only one reply."""
    if os.getpid() != _SERVING[0][1]:
        os._exit(0)


def _be_ended_first() -> None:
    """On Linux, make the system kill this process before its parent if memory runs out."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
