"""The child's side of :mod:`ortpkg.isolation.worker`.

Foreign libraries print, also from native code; so standard output is turned to standard error first, and replies go
through a private copy of the descriptor.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ortpkg.isolation.orphan import end_with_parent
from ortpkg.isolation.worker import Message, read_message, write_message

Handler = Callable[[Message], Message]


def main() -> None:
    """Makes the handler by "module:function" of the command line, and serves until the input ends."""
    channel, source = os.dup(1), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
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
