"""Keep standard output for results: what Ray's threads print goes to standard error."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

#: Prefix of the names of Ray's threads.
_RAY_THREADS = "ray_"
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_SENTENCE_END = re.compile(r"(?<=\.)\s|\n")


class _RayMessages:
    """Stream that writes Ray's messages to standard error: the first sentence of each, once."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    def write(self, text: str) -> int:
        """Write the first sentence of ``text`` unless it was written before."""
        plain = _COLOURS.sub("", text).removeprefix("(raylet)").strip()
        sentence = _SENTENCE_END.split(plain, maxsplit=1)[0]
        if sentence and sentence not in self._written:
            self._written.add(sentence)
            sys.stderr.write(f"Ray: {sentence}\n")
        return len(text)

    def flush(self) -> None:
        """Do nothing, since each text is passed on when it is written."""


class _SplitOutput:
    """Standard output, except for Ray's threads, which report workers that died."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self.ray_messages = _RayMessages()

    def __getattr__(self, name: str) -> Any:
        is_of_ray = threading.current_thread().name.startswith(_RAY_THREADS)
        return getattr(self.ray_messages if is_of_ray else self._out, name)


@contextmanager
def results_only(end: Callable[[], object]) -> Iterator[None]:
    """Keep Ray off standard output, and end Ray, which then prints what it held back."""
    before = sys.stdout
    split = _SplitOutput(before)
    sys.stdout = cast("Any", split)
    try:
        yield
    finally:
        sys.stdout = cast("Any", split.ray_messages)
        try:
            end()
        finally:
            sys.stdout = before


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Drop what native code prints on standard error about its settings while it starts.

    Real problems are raised.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
