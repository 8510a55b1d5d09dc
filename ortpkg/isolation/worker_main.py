"""The child's side of :mod:`ortpkg.isolation.worker`.

Foreign libraries print, also from native code; so standard output is turned to standard error
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

from ortpkg.isolation.orphan import end_with_parent
from ortpkg.isolation.worker import NOTE, Message, read_message, write_message

Handler = Callable[[Message], Message]

_MOST_NOTE_LENGTH = 500
#: Where replies go, once this process is a worker: the descriptor, and the process, which foreign
#: code may fork.
_SERVING: list[tuple[int, int]] = []


def main() -> None:
    """Makes the handler that the command line names, and serves until the input ends."""
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
        # the parent is gone; native code may hang or crash while an interpreter shuts down
        os._exit(0)


def tell(note: str) -> None:
    """Tells the parent what is being done, for the case that this process does not live to reply.

    Does nothing in a process that is no worker, and in other threads than its main one.
    """
    if _SERVING and threading.current_thread() is threading.main_thread():
        _end_copies()
        with suppress(OSError):
            write_message(_SERVING[0][0], Message(header={NOTE: note[:_MOST_NOTE_LENGTH]}))


def _end_copies() -> None:
    """Ends this process if it is a fork made by foreign code: the parent awaits one reply only."""
    if os.getpid() != _SERVING[0][1]:
        os._exit(0)


def _be_ended_first() -> None:
    """On Linux: where memory runs out, the system is to end this process and not its parent."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
