"""How much Python something runs: the same each time, which no clock can say."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import ortpkg

_PACKAGE = str(Path(ortpkg.__file__).parent)


def lines_run(call: Callable[[], object]) -> int:
    """Lines of ortpkg that ``call`` runs in this thread.

    One that runs again counts again, as in a loop.

    A comprehension is one line, however many rounds it makes.
    """
    return _count("line", call)


def instructions_run(call: Callable[[], object]) -> int:
    """Python's instructions instead of lines, rounds of comprehensions included.

    Several times slower.
    """
    return _count("opcode", call)


def _count(wanted: str, call: Callable[[], object]) -> int:
    count = 0

    def in_ortpkg(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == wanted
        return in_ortpkg

    def anywhere(frame: FrameType, _event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        frame.f_trace_opcodes = wanted == "opcode"
        return in_ortpkg

    before = sys.gettrace()
    sys.settrace(anywhere)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
