"""Standard output is for what a command gives: what Ray's threads print goes to standard error."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

#: How Ray names the threads of its own.
_RAY_THREADS = "ray_"
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_SENTENCE_END = re.compile(r"(?<=\.)\s|\n")


class _Said:
    """What Ray says, on standard error: the first sentence of each, once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def write(self, text: str) -> int:
        """Says the first sentence of ``text``, which may have many lines, unless it was said."""
        plain = _COLOURS.sub("", text).removeprefix("(raylet)").strip()
        sentence = _SENTENCE_END.split(plain, maxsplit=1)[0]
        if sentence and sentence not in self._said:
            self._said.add(sentence)
            sys.stderr.write(f"Ray: {sentence}\n")
        return len(text)

    def flush(self) -> None:
        """Does nothing: each text has been passed on when it was written."""


class _SplitOutput:
    """Standard output, but for Ray's threads, which tell there of workers that died."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self.said = _Said()

    def __getattr__(self, name: str) -> Any:
        is_of_ray = threading.current_thread().name.startswith(_RAY_THREADS)
        return getattr(self.said if is_of_ray else self._out, name)


@contextmanager
def for_results_alone(end: Callable[[], object]) -> Iterator[None]:
    """Keeps Ray off standard output, and ends it: then it prints what it kept back."""
    before = sys.stdout
    split = _SplitOutput(before)
    sys.stdout = cast("Any", split)
    try:
        yield
    finally:
        sys.stdout = cast("Any", split.said)
        try:
            end()
        finally:
            sys.stdout = before


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Drops what native code says on standard error of its own settings while it starts.

    What goes wrong then is raised.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
