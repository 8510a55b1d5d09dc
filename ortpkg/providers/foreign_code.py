"""Plug-ins' code in this process: its errors become ours, its prints go to standard error."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from ortpkg.errors import ExecutionProviderError, OrtpkgError, quoted
from ortpkg.host.signal_handlers import pass_on_handlers_error
from ortpkg.host.turns import uninterrupted

#: Are told, while code of a plug-in runs, what it was asked to do, and "" afterwards.
_LISTENERS: list[Callable[[str], None]] = []


def tell_foreign_code(listener: Callable[[str], None]) -> None:
    """Tells ``listener`` what plug-ins do from now on: "AcmeExecutionProvider was to compile"."""
    _LISTENERS.append(listener)


def _tell(doing: str) -> None:
    for listener in _LISTENERS:
        listener(doing)


@contextlib.contextmanager
def foreign_code(ep_name: str, doing: str) -> Iterator[None]:
    """Around a call into a plug-in.

    Whatever it raises, SystemExit among it, is an ExecutionProviderError; only errors of ours, a
    KeyboardInterrupt, and what a signal handler of the program raises stay what they are. What
    Python code prints goes to standard error, because standard output may be a document.

    Args:
        ep_name: the execution provider's.
        doing: what was asked of it, e.g. "make an execution provider".
    """
    inside = threading.Lock()
    try:
        with inside:
            _prints_to_stderr.begin(inside)
            with _as_our_errors(ep_name, doing):
                yield
    finally:
        uninterrupted(_prints_to_stderr.settle)


@contextlib.contextmanager
def _as_our_errors(ep_name: str, doing: str) -> Iterator[None]:
    _tell(f"{ep_name} was to {doing}")
    try:
        yield
        _tell("")
    except (OrtpkgError, KeyboardInterrupt):
        raise
    except BaseException as error:
        pass_on_handlers_error(error)
        said = f"{type(error).__name__}: {error}"
        raise ExecutionProviderError(
            f"{ep_name} failed to {doing}: {quoted(said)}", ep_name=ep_name
        ) from error


class _PrintsToStderr:
    """``sys.stdout`` is ``sys.stderr`` as long as any thread is inside.

    Several may be, and leave in any order. One is inside while it holds its lock, so that no
    interrupt can leave it there (:mod:`ortpkg.host.turns`).
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._inside: list[threading.Lock] = []
        self._stdout: TextIO | None = None

    def begin(self, inside: threading.Lock) -> None:
        """Divert standard output, for as long as ``inside`` is locked."""
        with self._lock:
            self._inside.append(inside)
            if self._stdout is None:
                self._stdout, sys.stdout = sys.stdout, sys.stderr

    def settle(self) -> None:
        """Give standard output back if nobody is inside any more."""
        with self._lock:
            self._inside[:] = [inside for inside in self._inside if inside.locked()]
            if not self._inside and self._stdout is not None:
                sys.stdout, self._stdout = self._stdout, None


_prints_to_stderr = _PrintsToStderr()
