"""Standard output is for what a command gives: what Ray's threads print goes to standard error."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

#: How Ray names the threads of its own.
_RAY_THREADS = "ray_"


class _SplitOutput:
    """Standard output, but for Ray's threads, which tell there of workers that died."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def __getattr__(self, name: str) -> Any:
        is_of_ray = threading.current_thread().name.startswith(_RAY_THREADS)
        return getattr(sys.stderr if is_of_ray else self._out, name)


@contextmanager
def for_results_alone() -> Iterator[None]:
    """Keeps Ray's threads off standard output."""
    before = sys.stdout
    sys.stdout = cast("Any", _SplitOutput(before))
    try:
        yield
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
